"""Files that are complete or absent, and temporary folders that are deleted."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from apmax.errors import FileError

NAME_CHARACTERS = 50
"""Characters of a file's name in the name of its temporary file; names have at most 255 bytes."""

_unfinished: set[str] = set()
"""Temporary files and folders of this process."""


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


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that is deleted at the end, or by `remove_unfinished_files`.

    Folders that killed processes have left are deleted.
    """
    for left in Path(tempfile.gettempdir()).glob("apmax-*-*"):
        if _is_abandoned(left, left.name.split("-")[1]):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"apmax-{os.getpid()}-") as folder:
        _unfinished.add(folder)
        try:
            with _locked(folder):
                yield Path(folder)
        finally:
            _unfinished.discard(folder)


def remove_unfinished_files() -> None:
    """Delete the temporary files of this process; called before it exits on a signal."""
    for temporary in list(_unfinished):
        with suppress(OSError):
            shutil.rmtree(temporary) if os.path.isdir(temporary) else os.unlink(temporary)


def _replace(path: Path, content: bytes) -> None:
    prefix = f".{path.name[:NAME_CHARACTERS]}."
    for left in path.parent.glob(f"{glob.escape(prefix)}*.part"):
        if _is_abandoned(left, left.name.split(".")[-2].partition("-")[0]):
            with suppress(OSError):
                left.unlink()
    owner = f"{os.getpid()}-{secrets.token_hex(4)}"
    temporary = str(path.with_name(f"{prefix}{owner}.part"))
    _unfinished.add(temporary)  # before the file exists, so that a signal never misses it
    try:
        with open(temporary, "xb") as file, _locked(temporary):
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


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold a lock that the system releases when this process ends, however it ends."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_abandoned(path: Path, process: str) -> bool:
    """Return whether no process has this number and none holds the lock.

    In another container, a process that runs has a number that is unknown here.
    """
    if sys.platform == "win32" or not process.isdecimal():
        return False
    import fcntl

    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        pass
    except PermissionError:  # a process of another user
        return False
    else:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
