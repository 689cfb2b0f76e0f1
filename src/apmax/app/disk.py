"""Files that are whole or not there: written aside, locked meanwhile, and renamed.

The lock is the system's own (flock), so it ends with the process that holds it, however that
ends: no lock outlives its owner, and what a killed process left aside can be told from what is
being written now.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from apmax.errors import FileError

if sys.platform != "win32":
    import fcntl


def write_aside(path: Path, content: bytes) -> None:
    """Replace the file at once: never half of it is there, whatever happens.

    What is no regular file (a pipe, a device) is written to as it is. A link stays a link, and a
    file that was there keeps its mode. What writers of this file left aside when they were killed
    is removed.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        try:
            path.write_bytes(content)
        except OSError as error:
            raise FileError(f"cannot write {path} ({error.strerror or error})") from None
        return
    try:
        handle, aside = _open_aside(path)
    except OSError as error:
        raise FileError(f"cannot write to {path.parent} ({error.strerror or error})") from None
    try:
        with os.fdopen(handle, "wb") as file:
            if path.exists():
                os.chmod(aside, stat.S_IMODE(path.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            # Before it is there: a file that is there may never be written again.
            _remove_left_aside(path, but=aside)
            if sys.platform != "win32":
                os.replace(aside, path)  # while it is locked: nobody takes it for left behind
        if sys.platform == "win32":
            os.replace(aside, path)  # no open file can be renamed, or removed, there
    except BaseException as error:  # a full disk or Ctrl-C: no part is left behind
        with suppress(FileNotFoundError):  # Ctrl-C came after the renaming
            os.unlink(aside)
        if not isinstance(error, OSError):
            raise
        raise FileError(
            f"cannot write {path} ({error.strerror or error}): what was there is as it was"
        ) from None


def make_folder(folder: Path) -> None:
    """The folder and those above it, where they are missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {folder} ({error.strerror or error})") from None


@contextmanager
def locked_folder(folder: Path) -> Iterator[bool]:
    """Whether this process alone has the folder, until the end of the block.

    The folder itself is locked: there is no lock file to be left behind. Where folders cannot be
    locked (Windows, some network file systems) it is always True.
    """
    if sys.platform == "win32":
        yield True  # a folder cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield _try_lock(handle)
    finally:
        os.close(handle)


def _open_aside(path: Path) -> tuple[int, str]:
    """A new file beside `path`, open and locked; its mode is what the umask leaves of 0666."""
    while True:
        aside = str(path.with_name(f".{path.name}.{secrets.token_hex(4)}.part"))
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        if _try_lock(handle) and os.fstat(handle).st_nlink:
            return handle, aside
        os.close(handle)  # removed by another writer between the two lines above


def _remove_left_aside(path: Path, but: str) -> None:
    for aside in path.parent.glob(f".{_literal(path.name)}.????????.part"):
        if str(aside) == but:
            continue
        with suppress(OSError):  # another writer was quicker, or may remove what we may not
            handle = os.open(aside, os.O_WRONLY)
            try:
                if _try_lock(handle):  # nobody is writing it any more
                    os.unlink(aside)
            finally:
                os.close(handle)


def _literal(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _try_lock(handle: int) -> bool:
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: as if all was well
        return True
    return True
