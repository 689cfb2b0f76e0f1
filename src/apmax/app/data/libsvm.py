"""LIBSVM (svmlight) text: ``label index:value index:value … # comment``, indices from 1."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from apmax.app.data.growing import GrowingArray
from apmax.app.data.libsvm_errors import Place, explain, explain_infinite
from apmax.app.data.streams import PathLike, check_is_text, check_path, open_bytes
from apmax.errors import FileFormatError, ParameterError
from apmax.validation import Floats, check_count

BLOCK = 1 << 20
"""Bytes that are read and parsed at a time; longer lines get a longer block."""

MOST_FEATURES = 1 << 40
"""Indices above are taken for mistakes: a weight for each feature would take 8 TB."""

BYTES_PER_ENTRY, BYTES_PER_ROW = 4, 2
"""The shortest that text can be: ``1:2`` with a blank, and a label with a newline."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TOKEN = re.compile(rb"[^ \t\r\n#]*")


def read_libsvm(
    path: PathLike, *, features: int | None = None
) -> tuple[sp.csr_matrix, NDArray[np.float64]]:
    """Read a LIBSVM file, plain or compressed as .gz, .bz2 or .xz.

    Equal to ``sklearn.datasets.load_svmlight_file(path, zero_based=False)`` to the last bit,
    several times faster, in about the memory of the result. Rows may list their indices in any
    order; ``qid:`` and comments are skipped; zeros that are written out are kept.

    Parameters
    ----------
    path : the file.
    features : number of columns; by default the largest index in the file. A test set often
        lacks the last features of its training set: give the latter's number.

    Returns
    -------
    X : CSR matrix of float64, with sorted indices (int32 unless they do not fit).
    labels : float64, as they stand in the file.

    Raises
    ------
    FileFormatError
        With the line, the column, what was found there and what was expected.
    """
    file = check_path(path)
    if features is not None:
        features = check_count(features, "features", why="it is the number of columns of X")
        if features > MOST_FEATURES:
            raise ParameterError(f"`features` must be ≤ 2⁴⁰, got {features}: see read_libsvm")
    parts = _Parts.empty()
    largest = lines = 0
    with open_bytes(file) as stream:
        for text, end in _whole_lines(stream, file):
            block = _Block(file, text, end, lines, features)
            block_lines, block_largest = _parse(block, parts)
            lines += block_lines
            largest = max(largest, block_largest)
    if parts.labels.size == 0:
        raise FileFormatError(
            f"{file} is empty: expected lines like '1 3:0.5 7:2', a label and index:value pairs"
        )
    return _matrix(parts, features or largest), parts.labels.join()


class _Parts(NamedTuple):
    """What a CSR matrix with labels is made of, while it grows."""

    indices: GrowingArray
    values: GrowingArray
    labels: GrowingArray
    lengths: GrowingArray

    @classmethod
    def empty(cls) -> _Parts:
        return cls(*map(GrowingArray, (np.int32, np.float64, np.float64, np.int64)))


class _Block(NamedTuple):
    """Whole lines of text, and the number of lines before them."""

    file: Path
    text: bytearray
    end: int
    lines: int
    features: int | None

    def place(self, position: int) -> Place:
        """Where in the file a position of this block is."""
        line = self.lines + self.text.count(b"\n", 0, position) + 1
        start = self.text.rfind(b"\n", 0, position) + 1
        stop = self.text.find(b"\n", position)
        return Place(self.file, line, bytes(self.text[start:stop]), position - start)


def _whole_lines(stream: BinaryIO, file: Path) -> Iterator[tuple[bytearray, int]]:
    """Blocks that end with a newline, as a buffer and the length of what is in it."""
    buffer = bytearray(BLOCK + 1)  # one byte for the newline that a last line may lack
    kept, first = 0, True
    while True:
        filled = _fill(stream, buffer, kept)
        if first:
            check_is_text(bytes(buffer[: min(filled, 1 << 16)]), file)
            if buffer.startswith(_BYTE_ORDER_MARK):
                buffer[:3] = b"   "
            first = False
        if filled == kept:
            break
        end = buffer.rfind(b"\n", 0, filled) + 1
        if end:
            yield buffer, end
            kept = filled - end
            buffer[:kept] = buffer[end:filled]
        else:
            kept = filled
            if kept == len(buffer) - 1:
                buffer = buffer + bytearray(len(buffer))
    if kept:
        buffer[kept] = ord("\n")
        yield buffer, kept + 1


def _fill(stream: BinaryIO, buffer: bytearray, begin: int) -> int:
    """Read into buffer[begin:-1] until it is full or the file ends; where that is."""
    with memoryview(buffer) as view:
        at = begin
        while at < len(buffer) - 1:
            with view[at : len(buffer) - 1] as free:
                count: int = stream.readinto(free)  # type: ignore[attr-defined]
            if count == 0:
                break
            at += count
    return at


def _parse(block: _Block, parts: _Parts) -> tuple[int, int]:
    """Add a block to the parts; its number of lines and its largest index."""
    from apmax._compile import libsvm_text as kernel

    text = np.frombuffer(block.text, np.uint8)
    most = block.features or MOST_FEATURES
    entries, rows = block.end // BYTES_PER_ENTRY + 1, block.end // BYTES_PER_ROW + 1
    late_at, late_slot = np.empty(entries + rows, np.int64), np.empty(entries + rows, np.int64)
    at = lines = largest = 0
    status = kernel.WIDE
    while status == kernel.WIDE:  # at most twice: the second time with wide indices
        rooms = [
            part.room(count)
            for part, count in zip(parts, (entries, entries, rows, rows), strict=True)
        ]
        status, at, new_rows, new_entries, new_lines, late, new_largest = kernel.parse_lines(
            text, at, block.end, most, *rooms, late_at, late_slot
        )
        _fill_in_late(block, rooms[1], rooms[2], late_at[:late], late_slot[:late])
        for part, count in zip(parts, (new_entries, new_entries, new_rows, new_rows), strict=True):
            part.keep(count)
        lines, largest = lines + new_lines, max(largest, new_largest)
        if status == kernel.WIDE:
            parts.indices.dtype = np.dtype(np.int64)
    if status != kernel.DONE:
        raise explain(status, block.place(at), block.features)
    return lines, largest


def _fill_in_late(
    block: _Block, values: Floats, labels: Floats, positions: NDArray[Any], slots: NDArray[Any]
) -> None:
    """Numbers of many digits or extreme size, which the kernel has checked but not read."""
    for position, slot in zip(positions.tolist(), slots.tolist(), strict=True):
        found = _TOKEN.match(block.text, position)
        number = float(found.group()) if found else math.nan
        if not math.isfinite(number):
            raise explain_infinite(block.place(position))
        if slot >= 0:
            values[slot] = number
        else:
            labels[-1 - slot] = number


def _matrix(parts: _Parts, columns: int) -> sp.csr_matrix:
    narrow = max(parts.indices.size, columns) <= np.iinfo(np.int32).max
    dtype = np.int32 if narrow else np.int64
    indptr = np.zeros(parts.lengths.size + 1, dtype)
    np.cumsum(parts.lengths.join(), out=indptr[1:])
    indices = parts.indices.join(dtype)
    matrix = sp.csr_matrix((parts.values.join(), indices, indptr), (indptr.size - 1, columns))
    matrix.has_canonical_format = True  # every row was checked, so nobody need look again
    return matrix
