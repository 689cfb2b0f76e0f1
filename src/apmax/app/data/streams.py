"""Files as bytes, whatever compressed them, with errors that name the file."""

from __future__ import annotations

import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from apmax.app.data.compression import OPENERS, open_compressed
from apmax.errors import FileError, FileFormatError, ParameterError

PathLike = str | os.PathLike[str]


def check_path(path: PathLike) -> Path:
    """The path of a file that is there."""
    if not isinstance(path, (str, os.PathLike)):
        raise ParameterError(f"`path` must be the path of a file, got {path!r}")
    file = Path(path).expanduser()
    try:
        missing, folder = not file.exists(), file.is_dir()
    except (OSError, ValueError) as error:  # a name that no file can have
        raise FileError(f"{str(path)!r} cannot be the path of a file: {error}") from None
    if missing:
        raise FileError(f"{file}: no such file; check the path, now relative to {Path.cwd()}")
    if folder:
        raise FileError(f"{file} is a folder: give the path of one file")
    if not file.is_file():  # a pipe may never end, or never begin, and is not to be read twice
        raise FileError(f"{file} is no regular file (a pipe or a device): save it as a file first")
    return file


def format_suffix(path: Path) -> str:
    """The suffix that tells the format, in small letters: ``.csv`` of ``a.CSV.gz``."""
    name = Path(path.stem) if path.suffix.lower() in OPENERS else path
    return name.suffix.lower()


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed; what goes wrong while reading becomes a FileError."""
    packed = path.suffix.lower() in OPENERS
    try:
        with open_compressed(path) if packed else open(path, "rb") as file:
            yield file
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise _damaged(path, error) from error
    except OSError as error:
        # The compressors raise OSErrors of their own, without the system's number.
        if error.errno is None:
            raise _damaged(path, error) from error
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from error


HEAD, LONGEST = 1 << 16, 1 << 25
"""Bytes that tell what a file is, and how many two lines may have."""


def read_head(path: Path) -> bytes:
    """The first lines, decompressed: two whole ones, or all of LONGEST if they are endless."""
    with open_bytes(path) as file:
        head = file.read(HEAD)
        while head.lstrip().count(b"\n") < 2:
            more = file.read(len(head)) if len(head) < LONGEST else b""
            if not more:
                return head
            head += more
        whole = head.rfind(b"\n") + 1 if file.read(1) else len(head)
        return head[: whole or len(head)]


def check_is_text(head: bytes, path: Path) -> None:
    """Refuse a file with a zero byte: no text has one, but for UTF-16."""
    at = head.find(0)
    if at >= 0:
        hint = ", or text as UTF-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise FileFormatError(
            f"{path} is no text: byte {at + 1} is zero; it may be binary{hint}: save it as UTF-8 "
            "text, or give it the suffix of its format (.parquet, .npz)"
        )


def _damaged(path: Path, error: Exception) -> FileFormatError:
    return FileFormatError(
        f"{path} cannot be decompressed as {path.suffix} ({error}): it is damaged, cut short or "
        "misnamed; fetch it again, or give it the suffix of its content"
    )
