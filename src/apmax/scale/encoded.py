"""Data files with columns of any type that a function encodes as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from apmax.errors import ApmaxError
from apmax.scale.arrow_errors import data_frame
from apmax.scale.files import Batch, RawFiles


class EncodedFiles:
    """Files read as arrays of encoded rows.

    Parameters
    ----------
    source : RawFiles
        The files. One that changed since `source` was created raises FileError.
    encode : callable
        Returns the encoded rows of a data frame of the columns.
    width, dtype
        Number of columns and type of the arrays that it returns.
    """

    def __init__(
        self, source: RawFiles, *, encode: Callable[[Any], Any], width: int, dtype: Any
    ) -> None:
        self.source, self.encode, self.width, self.dtype = source, encode, width, np.dtype(dtype)
        self.paths, self.target, self.weight = source.paths, source.target, source.weight

    def rows(self) -> int | None:
        """Return the number of rows, if the format stores it."""
        return self.source.rows()

    def arrays(self) -> Iterator[Batch]:
        """Yield all rows in order."""
        for path, row, batch in self.source.batches(None):
            try:
                X = self.encode(data_frame(batch.select(self.source.columns), "the table"))
            except ApmaxError as error:
                last = row + batch.num_rows - 1
                raise type(error)(f"{path}, rows {row} to {last}: {error}") from None
            yield Batch(X, batch.column(self.target), self.source.weights(batch, path, row))
