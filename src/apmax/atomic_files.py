"""Files that are complete or absent, and temporary folders that are deleted."""

from __future__ import annotations

import glob
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from apmax.errors import FileError

NAME_CHARACTERS = 50
"""Characters of a file's name in the name of its temporary file; names have at most 255 bytes."""

_FOLDER = re.compile(r"\.apmax-tmp-(\d+)-[a-z0-9_]{8}")
"""Names of temporary folders, with the number of their process."""
_PART = re.compile(r"(\d+)-[0-9a-f]{8}\.part")
"""End of the names of temporary files, likewise."""
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
    for left in Path(tempfile.gettempdir()).glob(".apmax-tmp-*"):
        name = _FOLDER.fullmatch(left.name)
        if name and _is_abandoned(left, int(name[1]), stat.S_ISDIR):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".apmax-tmp-{os.getpid()}-") as folder:
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
        name = _PART.fullmatch(left.name.removeprefix(prefix))
        if name and _is_abandoned(left, int(name[1]), stat.S_ISREG):
            with suppress(OSError):
                left.unlink()
    owner = f"{os.getpid()}-{secrets.token_hex(4)}"
    temporary = str(path.with_name(f"{prefix}{owner}.part"))
    _unfinished.add(temporary)  # before the file exists, so that a signal never misses it
    try:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
        # Private until it is complete; then the mode may forbid to open it.
        Path(temporary).touch(0o666 if mode is None else 0o600, exist_ok=False)
        with _locked(temporary):
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if mode is not None:
                os.chmod(temporary, mode)
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


def _is_abandoned(path: Path, process: int, kind: Callable[[int], bool]) -> bool:
    """Return whether a file of this kind is the user's, its process has ended, and no lock is held.

    In another container, a process that runs has a number that is unknown here.
    """
    if sys.platform == "win32" or _runs(process):
        return False
    import fcntl

    try:
        # Opening a pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except PermissionError:  # killed between the last two steps, with a mode that forbids to read
        with suppress(OSError):
            found = os.lstat(path)
            return kind(found.st_mode) and found.st_uid == os.getuid()
        return False
    except OSError:
        return False
    try:
        found = os.fstat(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return kind(found.st_mode) and found.st_uid == os.getuid()


def _runs(process: int) -> bool:
    """Return whether a process has this number."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # of another user
        pass
    return True
