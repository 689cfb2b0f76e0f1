"""Open data files with bounded decompression, and write files atomically."""

from __future__ import annotations

import bz2
import glob
import gzip
import hashlib
import io
import lzma
import os
import secrets
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

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

_unfinished: set[str] = set()
"""Temporary files of this process that have not been renamed yet."""


def check_path(path: str | os.PathLike[str]) -> Path:
    """Return the path if it names a regular file, or raise FileError."""
    file = Path(path).expanduser()
    try:
        exists, folder, regular = file.exists(), file.is_dir(), file.is_file()
    except (OSError, ValueError) as error:
        raise FileError(f"{str(path)!r} is not a valid path: {error}") from None
    if not exists:
        raise FileError(f"{file}: no such file; check the path, relative to {Path.cwd()}")
    if folder:
        raise FileError(f"{file} is a folder: give the path of one file")
    if not regular:
        raise FileError(f"{file} is not a regular file (a pipe or a device): save it as a file")
    return file


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that is deleted at the end, or by `remove_unfinished_files`."""
    with tempfile.TemporaryDirectory(prefix="apmax-") as folder:
        _unfinished.add(folder)
        try:
            yield Path(folder)
        finally:
            _unfinished.discard(folder)


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


def write_file(path: Path, content: bytes) -> None:
    """Replace a file atomically.

    The content is written to a temporary file in the same folder, flushed to disk and renamed.
    Temporary files that killed writers of this path have left are deleted.
    Symbolic links are followed and the mode of an existing file is kept. Pipes and devices are
    written to directly. If FileError is raised, the existing file is unchanged.
    """
    path = Path(os.path.realpath(path))
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        _replace(path, content)
    except OSError as error:
        raise FileError(
            f"cannot write {path} ({error.strerror or error}): choose a folder that exists, can be "
            "written and has space"
        ) from None


def remove_unfinished_files() -> None:
    """Delete the temporary files of this process; called before it exits on a signal."""
    for temporary in list(_unfinished):
        with suppress(OSError):
            shutil.rmtree(temporary) if os.path.isdir(temporary) else os.unlink(temporary)


def _replace(path: Path, content: bytes) -> None:
    _remove_abandoned(path)
    owner = f"{os.getpid()}-{secrets.token_hex(4)}"
    temporary = str(path.with_name(f".{path.name}.{owner}.part"))
    _unfinished.add(temporary)  # before the file exists, so that a signal never misses it
    try:
        with open(temporary, "xb") as file:
            if path.exists():
                os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        _unfinished.discard(temporary)


def _remove_abandoned(path: Path) -> None:
    """Delete the temporary files of writers of `path` that were killed."""
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        process = temporary.name.split(".")[-2].partition("-")[0]
        if process.isdecimal() and not _is_running(int(process)):
            with suppress(OSError):
                temporary.unlink()


def _is_running(process: int) -> bool:
    if sys.platform == "win32":
        return True  # os.kill would end the process there
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # a process of another user
        pass
    return True


def one_line(error: object) -> str:
    """Return the message of an error of another library on one line, shortened."""
    return " ".join(str(error).split())[:200]


def digest(path: Path) -> str | None:
    """Return the SHA-256 of a file; None for what is not a file, such as standard input."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
