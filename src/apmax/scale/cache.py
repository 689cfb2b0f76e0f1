"""A flat copy of data files, decoded once and mapped into memory.

The copy lies in unnamed temporary files: no other process sees them, and the system frees them when
the fit ends, however it ends.
"""

from __future__ import annotations

import logging
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from apmax.errors import FileError, ShapeError
from apmax.objective._pair_sums import NO_WEIGHTS
from apmax.scale.blocks import Block, Engine, MemoryBlocks, Progress, merged_in_order
from apmax.scale.encoded import EncodedFiles
from apmax.scale.files import Batch, LabelCodes, TableFiles

logger = logging.getLogger("apmax")
T = TypeVar("T")
FREE_SHARE = 0.95
"""Share of the free disk space that a cache may take."""


class FlatFiles:
    """Features, label codes and weights of all rows, in files that have no name.

    Another class than `classes` raises LabelError if both are given.
    """

    def __init__(
        self,
        table: TableFiles | EncodedFiles,
        folder: str | None,
        progress: Progress,
        classes: Sequence[Any] = (),
    ) -> None:
        self.table, self.folder = table, folder or tempfile.gettempdir()
        self.labels = LabelCodes(table.target, classes)
        expected = table.rows()
        if expected is not None:
            of_row = table.width * table.dtype.itemsize + 1 + (0 if table.weight is None else 8)
            check_space(folder, expected * of_row)
        self._files: list[IO[bytes]] = []
        try:
            self._files = [tempfile.TemporaryFile(dir=self.folder) for _ in range(3)]  # noqa: SIM115
            rows = self._decode(expected or 0, progress)
            if rows == 0:
                raise ShapeError(f"{table.paths[0]} and the other files hold no rows")
            self.X = self._mapped(0, table.dtype).reshape(rows, table.width)
            self.codes = self._mapped(1, np.dtype(np.uint8))
            self.weight = NO_WEIGHTS if table.weight is None else self._mapped(2, np.dtype(float))
        except OSError as error:
            self.close()
            raise FileError(
                f"the cache in {self.folder} cannot be written ({error.strerror or error}): pass "
                "cache= a folder with more space, or cache=False to decode files in every pass"
            ) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Free the disk space."""
        for file in self._files:
            with suppress(OSError):  # unwritten data are discarded anyway
                file.close()

    def _decode(self, expected: int, progress: Progress) -> int:
        rows = 0
        for batch in self.table.arrays():
            codes = self.labels.codes(batch.labels, batch.weight)
            arrays: tuple[NDArray[Any], ...] = (batch.X, codes, batch.weight)
            for file, array in zip(self._files, arrays, strict=True):
                file.write(array.data.cast("B") if array.size else b"")
            rows += codes.size
            progress.report("decoding files", rows, max(rows, expected))
        for file in self._files:
            file.flush()
        return rows

    def _mapped(self, which: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        # Writable in memory only: kernels compile anew for read-only arrays.
        return np.frombuffer(
            mmap.mmap(self._files[which].fileno(), 0, access=mmap.ACCESS_COPY), dtype=dtype
        )


class CachedBlocks(MemoryBlocks):
    """Blocks of a flat copy; pages of a block leave the process when it has been read."""

    def __init__(self, flat: FlatFiles, positive_code: int) -> None:
        super().__init__(flat.X, flat.codes, flat.weight if flat.weight.size else None)
        self.positive_code = positive_code

    def block(self, start: int) -> Block:
        """Return the block that begins at a row."""
        X, codes, weight = super().block(start)
        return Block(X, codes == self.positive_code, weight)

    def release(self, start: int) -> None:
        """Unmap the pages of the block that begins at a row."""
        for array in (self.X, self.positive, self.weight):
            if array.size:
                _release(array, start, start + self.rows)


def _release(array: NDArray[Any], begin: int, end: int) -> None:
    """Let the system unmap the pages of some rows; they stay in its page cache."""
    base = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    mapped = base.obj if isinstance(base, memoryview) else base
    if not isinstance(mapped, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    of_row = array.nbytes // array.shape[0]
    first = begin * of_row // mmap.PAGESIZE * mmap.PAGESIZE
    last = min(end * of_row, len(mapped))
    if last > first:
        mapped.madvise(mmap.MADV_DONTNEED, first, last - first)


class StreamedBlocks(Engine):
    """Batches of files, decoded in every pass; another class than `classes` raises LabelError."""

    sparse = False

    def __init__(
        self, table: TableFiles | EncodedFiles, classes: Sequence[Any], positive_label: Any
    ) -> None:
        self.table, self.classes = table, list(classes)
        self.positive_code = self.classes.index(positive_label)
        self.features = table.width

    def merged(self, call: Callable[[Block], T], merge: Callable[[T, T], T]) -> T:
        """Return the results of a call with each block, merged in their order."""

        def of_batch(batch: Batch) -> T:
            labels = LabelCodes(self.table.target, self.classes)  # of this thread
            codes = labels.codes(batch.labels, batch.weight)
            return call(Block(batch.X, codes == self.positive_code, batch.weight))

        return merged_in_order(of_batch, self.table.arrays(), merge)


def scan_labels(table: TableFiles) -> LabelCodes:
    """Find the classes without decoding features."""
    labels = LabelCodes(table.target)
    rows = 0
    for batch in table.arrays(only_labels=True):
        rows += labels.codes(batch.labels, batch.weight).size
    if rows == 0:
        raise ShapeError(f"{table.paths[0]} and the other files hold no rows")
    return labels


def cache_folder(cache: Any) -> str | None:
    """Return the folder of a cache; None for the default one."""
    if cache is None or cache is True:
        return None
    folder = str(os.path.expanduser(os.fspath(cache)))
    if not os.path.isdir(folder):
        raise FileError(f"cache={cache!r} is not a folder: create it, or leave cache out")
    return folder


def check_space(folder: str | None, needed: int) -> None:
    """Raise FileError if a cache of so many bytes does not fit into its folder."""
    folder = folder or tempfile.gettempdir()
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise FileError(f"cache={folder!r} cannot be used ({error.strerror})") from None
    if needed > FREE_SHARE * free:
        raise FileError(
            f"the cache needs {needed / 1e9:.3g} GB, and {folder} has {free / 1e9:.3g} GB free: "
            "pass cache= a folder with more space, or cache=False to decode files in every pass"
        )
