"""NumPy archives: a dense X or the parts of a CSR matrix, with y, never with pickles."""

from __future__ import annotations

import ast
import math
import struct
import sys
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from apmax.app.data.compression import OPENERS, most_bytes
from apmax.app.data.streams import open_bytes
from apmax.errors import FileFormatError

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What NumPy writes; others may ask for gigabytes before they have read a byte."""


def read_npz(file: Path) -> tuple[Any, NDArray[Any] | None]:
    """X and y, where there is a y, of an archive.

    Sparse: ``indices``, ``indptr``, ``shape`` and ``data``, as ``scipy.sparse.save_npz``
    writes them; without ``data``, all entries are 1. Dense: ``X``.
    """
    if file.suffix.lower() in OPENERS:
        raise FileFormatError(
            f"{file}: an .npz archive is compressed already, and is not read out of another file: "
            f"decompress it to {file.stem}"
        )
    with open_bytes(file) as stream:
        return _read(file, stream)


def _read(file: Path, stream: BinaryIO) -> tuple[Any, NDArray[Any] | None]:
    try:
        with zipfile.ZipFile(stream) as archive:
            members = {Path(info.filename).stem: info for info in archive.infolist()}
            arrays = _Arrays(file, archive, members)
            X = _sparse(arrays) if "indptr" in members else _dense(arrays)
            y = _labels(arrays, X.shape[0]) if "y" in members else None
    except (
        zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError,
        UnicodeDecodeError,
    ) as error:  # fmt: skip
        raise FileFormatError(f"{file} is no .npz archive, or a damaged one: {error}") from error
    return X, y


class _Arrays:
    """The archive's arrays, each checked against its real size before it is loaded."""

    def __init__(
        self, file: Path, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]
    ) -> None:
        self.file, self.archive, self.members = file, archive, members
        self.left = most_bytes(file)

    def load(self, key: str, kinds: str, *dimensions: int) -> NDArray[Any]:
        """The array of that name, if it has one of the kinds of numbers and of the dimensions."""
        if key not in self.members:
            raise self.error(
                f"{key!r} is missing; expected X and y, or data, indices, indptr, shape and y; "
                f"found {', '.join(map(repr, sorted(self.members)))[:200] or 'nothing'}"
            )
        info = self.members[key]
        if info.compress_type not in METHODS:
            raise self.error(f"{key!r} is compressed in a way that NumPy does not: save it again")
        self.left -= info.file_size
        if self.left < 0:
            raise self.error(
                f"{key!r} claims {info.file_size >> 20} MB, more than such a file should hold: if "
                "it is meant, save it with numpy.savez, which does not compress"
            )
        try:
            with self.archive.open(info) as stream:
                shape, dtype, header = _header(stream)
            if dtype.hasobject or dtype.kind not in kinds:
                raise self.error(f"{key!r} holds {dtype}: save it as numbers")
            if header + math.prod(shape) * dtype.itemsize != info.file_size:
                raise self.error(
                    f"{key!r} claims the shape {shape} of {dtype}, but holds "
                    f"{info.file_size - header} bytes"
                )
            with self.archive.open(info) as stream:
                array = np.lib.format.read_array(stream, allow_pickle=False)
        except (
            ValueError, TypeError, SyntaxError, SystemError, OverflowError, RecursionError,
            struct.error, tokenize.TokenError,
        ) as error:  # fmt: skip
            if isinstance(error, FileFormatError):
                raise
            raise self.error(f"{key!r} is no array: {' '.join(str(error).split())}") from error
        if array.ndim not in dimensions:
            raise self.error(f"{key!r} must have {dimensions[0]} dimension(s), got {array.shape}")
        return np.asarray(array)

    def error(self, what: str) -> FileFormatError:
        return FileFormatError(f"{self.file}: {what}")


def _header(stream: Any) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, dtype and length of the header of a .npy stream."""
    version = np.lib.format.read_magic(stream)
    size_format = "<H" if version == (1, 0) else "<I"
    length = struct.unpack(size_format, stream.read(struct.calcsize(size_format)))[0]
    if version not in ((1, 0), (2, 0), (3, 0)) or length > 1 << 16:
        raise ValueError(f"its header is of version {version} and length {length}")
    fields = ast.literal_eval(stream.read(length).decode("utf-8"))
    if not isinstance(fields, dict) or not {"shape", "descr"} <= fields.keys():
        raise ValueError("its header names no shape and type")
    shape = fields["shape"]
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ValueError(f"its shape is {shape!r}")
    return shape, np.lib.format.descr_to_dtype(fields["descr"]), stream.tell()


def _dense(arrays: _Arrays) -> NDArray[Any]:
    X = arrays.load("X", "biuf", 2)
    if 0 in X.shape:
        raise arrays.error(f"'X' is empty, its shape is {X.shape}")
    return X


def _sparse(arrays: _Arrays) -> sp.csr_matrix:
    if "format" in arrays.members and "csr" not in str(arrays.load("format", "SU", 0)):
        raise arrays.error("the matrix is not CSR: save matrix.tocsr()")
    indices, indptr = arrays.load("indices", "iu", 1), arrays.load("indptr", "iu", 1)
    shape = tuple(arrays.load("shape", "iu", 1).tolist())
    given = "data" in arrays.members
    data = arrays.load("data", "biuf", 1) if given else np.ones(indices.size)
    if len(shape) != 2 or min(shape) < 1 or indptr.size != shape[0] + 1:
        raise arrays.error(f"'shape' is {shape} and 'indptr' has {indptr.size} elements")
    if data.size != indices.size:
        raise arrays.error(f"'data' has {data.size} elements and 'indices' {indices.size}")
    # Checked here, since compiled code would follow a wrong index out of the array.
    steps = np.diff(indptr.astype(np.int64))
    if indptr[0] != 0 or int(indptr[-1]) != indices.size or (steps < 0).any():
        raise arrays.error("'indptr' must rise from 0 to the number of entries")
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < shape[1]:
        raise arrays.error(f"'indices' must be from 0 to {shape[1] - 1}")
    wide = max(indices.size, *shape) > np.iinfo(np.int32).max
    dtype = np.int64 if wide else np.int32
    matrix = sp.csr_matrix((data, indices.astype(dtype), indptr.astype(dtype)), shape)
    matrix.sum_duplicates()
    return matrix


def _labels(arrays: _Arrays, rows: int) -> NDArray[Any]:
    y = arrays.load("y", "biufSU", 1, 2)  # or a column of one label each
    if y.size != rows:
        raise arrays.error(f"'y' has shape {y.shape}, but X has {rows} rows")
    y = np.ascontiguousarray(y).reshape(rows)
    if y.dtype.kind == "U" and y.dtype.itemsize:
        letters = y.astype(y.dtype.newbyteorder("="), copy=False).view(np.uint32)
        if int(letters.max()) > sys.maxunicode:  # which NumPy takes for letters, and Python not
            raise arrays.error("'y' holds words of bytes that are no letters")
    return y
