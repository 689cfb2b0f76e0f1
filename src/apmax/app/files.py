"""Open data files with bounded decompression."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import shutil
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from apmax.atomic_files import temporary_folder
from apmax.errors import FileError, FileFormatError

COMPRESSED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
SIGNATURES = {
    **{b"PAR1": ".parquet", b"ARROW1": ".feather", b"PK": ".xlsx", b"{": ".jsonl"},
    **{b"\x1f\x8b": ".txt.gz", b"BZh": ".txt.bz2", b"\xfd7zXZ": ".txt.xz"},
}
"""First bytes of formats other than text, and their suffixes."""
FREE_BYTES, MAX_EXPANSION, MAX_BYTES = 1 << 25, 200, 1 << 36
"""A compressed file may expand to 32 MB or to 200 times its size, whichever is more, but not to
more than 64 GB."""
PIECE_BYTES = 1 << 20
"""Untrusted content is read in pieces of this size."""


@contextmanager
def spooled_input() -> Iterator[Path]:
    """Yield a temporary file with the content of standard input; its suffix names the format."""
    head = sys.stdin.buffer.read(8)
    suffix = next(
        (suffix for start, suffix in SIGNATURES.items() if head.startswith(start)), ".txt"
    )
    with temporary_folder() as folder:
        file = folder / f"input{suffix}"
        with file.open("wb") as copy:
            copy.write(head)
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield file


def format_suffix(file: Path) -> str:
    """Return the suffix that names the format, in lower case: ``.csv`` for ``a.CSV.gz``."""
    name = Path(file.stem) if file.suffix.lower() in COMPRESSED else file
    return name.suffix.lower()


def max_bytes(file: Path) -> int:
    """Return the size that the content of a compressed file may have."""
    return min(max(FREE_BYTES, MAX_EXPANSION * file.stat().st_size), MAX_BYTES)


def open_bytes(file: Path) -> BinaryIO:
    """Open a file for reading; compressed files are expanded in memory, up to a limit."""
    try:
        if file.suffix.lower() not in COMPRESSED:
            return file.open("rb")
        limit = max_bytes(file)
        with COMPRESSED[file.suffix.lower()](file) as stream:
            content = stream.read(limit + 1)
    except PermissionError as error:
        raise FileError(f"{file} cannot be read: {error.strerror}") from None
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        raise FileFormatError(
            f"{file} cannot be decompressed as {file.suffix} ({error}): it is damaged, truncated "
            "or has the wrong suffix"
        ) from error
    if len(content) > limit:
        raise FileFormatError(
            f"{file} expands to more than {limit >> 20} MB, the limit for its size: if this is "
            "intended, decompress it first"
        )
    return io.BytesIO(content)


def one_line(error: object) -> str:
    """Return the message of an error of another library on one line, shortened."""
    return " ".join(str(error).split())[:200]


def digest(path: Path) -> str | None:
    """Return the SHA-256 of a file; None for what is not a file, such as standard input."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
