"""Compressed files as bytes, bounded: a small file cannot become more than memory holds.

An honest table shrinks five- to fiftyfold. What grows further than `TIMES` its size, and past
`FREE`, was made to (1 MB of .bz2 can hold a terabyte), and is refused while it is read.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from apmax.errors import FileFormatError

FREE, TIMES = 1 << 25, 200
"""Bytes that any file may become, and how often its own size a larger one may."""

XZ_MEMORY = 80 << 20
"""Bytes for .xz, whose header asks for up to 4 GB: ``xz -9``, the largest preset, needs 65 MB."""


def most_bytes(path: Path) -> int:
    """What the file may hold once it is decompressed."""
    return max(FREE, TIMES * os.stat(path).st_size)


class _Bounded(io.RawIOBase):
    """A decompressed stream that ends in an error where it becomes too long."""

    def __init__(self, stream: Any, path: Path) -> None:
        self._stream, self._path, self._most = stream, path, most_bytes(path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._stream.readinto(buffer)
        if self._stream.tell() > self._most:
            raise FileFormatError(
                f"{self._path} holds over {self._most >> 20} MB, {TIMES} times its size or more: "
                "it may be made to fill the memory; if it is meant, decompress it first"
            )
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if (offset, whence) != (0, io.SEEK_SET):  # any other would decompress without a bound
            raise io.UnsupportedOperation("only back to the beginning")
        return int(self._stream.seek(0))

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Xz(io.RawIOBase):
    """lzma.open with a limit on its memory, which the standard library's does not have."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 - closed with this object
        self._restart()

    def _restart(self) -> None:
        self._decompressor = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
        self._position = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if (offset, whence) != (0, io.SEEK_SET):
            raise io.UnsupportedOperation("only back to the beginning")
        self._file.seek(0)
        self._restart()
        return 0

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._decompressor.eof and not self._next_stream():
                return 0
            raw = self._file.read(1 << 16) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not raw:
                raise EOFError("it ends in the middle")
            data = self._decompressor.decompress(raw, len(buffer))
            if data:
                buffer[: len(data)] = data
                self._position += len(data)
                return len(data)

    def _next_stream(self) -> bool:
        """Whether another stream follows the one that has ended; zeros between them are padding."""
        rest = self._decompressor.unused_data.lstrip(b"\0")
        while not rest:
            block = self._file.read(1 << 16)
            if not block:
                return False
            rest = block.lstrip(b"\0")
        self._file.seek(-len(rest), io.SEEK_CUR)
        self._decompressor = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
        return True

    def close(self) -> None:
        self._file.close()
        super().close()


OPENERS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": _Xz}
"""How to open a file by its last suffix; any other is read as it is."""


def open_compressed(path: Path) -> BinaryIO:
    """The decompressed bytes of a file whose suffix is in `OPENERS`."""
    return io.BufferedReader(_Bounded(OPENERS[path.suffix.lower()](path), path), 1 << 16)
