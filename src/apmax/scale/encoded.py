"""Data files with columns of any type that a function encodes as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from apmax.errors import ApmaxError
from apmax.scale.files import Batch, Paths, RawFiles


class EncodedFiles(RawFiles):
    """Files read as arrays of encoded rows.

    Parameters
    ----------
    files, target, columns, sample_weight
        As in :class:`apmax.scale.files.RawFiles`.
    encode : callable
        Returns the encoded rows of a data frame of the columns.
    width, dtype
        Number of columns and type of the arrays that it returns.
    """

    def __init__(
        self,
        files: Paths,
        target: str,
        columns: Sequence[str] | None,
        sample_weight: str | None,
        *,
        encode: Callable[[Any], Any],
        width: int,
        dtype: Any,
    ) -> None:
        super().__init__(files, target, columns, sample_weight)
        self.encode, self.width, self.dtype = encode, width, np.dtype(dtype)

    def arrays(self) -> Iterator[Batch]:
        """Yield all rows in order."""
        for path, row, batch in self.batches(None):
            try:
                X = self.encode(batch.select(self.columns).to_pandas())
            except ApmaxError as error:
                last = row + batch.num_rows - 1
                raise type(error)(f"{path}, rows {row} to {last}: {error}") from None
            yield Batch(X, batch.column(self.target), self.weights(batch, path, row))
