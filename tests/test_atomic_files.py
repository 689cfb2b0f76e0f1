"""Files are complete or absent, and what killed processes have left is deleted."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from apmax import atomic_files
from apmax.atomic_files import remove_unfinished_files, temporary_folder, write_file
from apmax.errors import FileError


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_write_replaces_content_and_keeps_mode_and_link(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_file(link, b"new")
    assert file.read_bytes() == b"new"
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert names(tmp_path) == ["file", "link"]


@pytest.mark.parametrize("mode", [0o444, 0o400, 0o200])
def test_files_whose_mode_forbids_to_open_them_are_replaced(mode: int) -> None:
    code = """
import fcntl, os, sys, tempfile  # all before Python's own folder may become unreadable
from pathlib import Path
from apmax.atomic_files import write_file

if os.getuid() == 0:  # whom no mode stops
    os.setuid(65534)
with tempfile.TemporaryDirectory() as folder:
    file, mode = Path(folder) / "file", int(sys.argv[1])
    file.write_bytes(b"old")
    file.chmod(mode)
    write_file(file, b"new")
    assert file.stat().st_mode & 0o777 == mode
    assert os.listdir(folder) == ["file"]
    file.chmod(0o600)
    assert file.read_bytes() == b"new"
"""
    subprocess.run([sys.executable, "-c", code, str(mode)], check=True)


def test_content_of_private_files_is_never_readable_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    chmod = os.chmod

    def spy(path: Any, mode: int, **options: Any) -> None:
        modes.append(os.stat(path).st_mode & 0o077)
        chmod(path, mode, **options)

    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(0o600)
    monkeypatch.setattr(os, "chmod", spy)
    write_file(file, b"new")
    assert modes == [0]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_failed_write_leaves_the_old_file_and_no_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")

    def fails(_: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises((FileError, KeyboardInterrupt)):
        write_file(file, b"new")
    assert file.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_unfinished_files_are_removed_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def exits(*_: object) -> None:
        seen.append(names(tmp_path))
        remove_unfinished_files()
        seen.append(names(tmp_path))
        raise OSError("the process would end here")

    monkeypatch.setattr(os, "replace", exits)
    with pytest.raises(FileError):
        write_file(tmp_path / "file", b"new")
    before, after = seen
    assert len(before) == 1
    assert after == []
    assert not atomic_files._unfinished


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot write"):
        write_file(tmp_path / "missing" / "file", b"")


def test_a_name_of_the_greatest_length_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / ("é" * 127)
    write_file(file, b"new")
    assert file.read_bytes() == b"new"


@pytest.fixture
def ended() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_only_what_no_living_process_has_locked_is_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    part = tmp_path / f".file.{ended}-0123abcd.part"
    folder = tmp_path / f".apmax-tmp-{ended}-0123_xyz"
    part.write_bytes(b"half")
    folder.mkdir()
    locks = [os.open(path, os.O_RDONLY) for path in (part, folder)]
    for lock in locks:
        fcntl.flock(lock, fcntl.LOCK_EX)  # by a process of another container, for example

    def write_and_list() -> list[str]:
        write_file(tmp_path / "file", b"new")
        with temporary_folder() as own:
            assert own.is_dir()
        return names(tmp_path)

    assert write_and_list() == [folder.name, part.name, "file"]
    for lock in locks:
        os.close(lock)
    assert write_and_list() == ["file"]


def test_what_a_killed_writer_left_is_deleted_if_its_mode_forbids_to_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: int
) -> None:
    part = tmp_path / f".file.{ended}-0123abcd.part"
    part.write_bytes(b"half")
    part.chmod(0o200)
    really_open = os.open

    def open_as_user(path: Any, flags: int, *mode: int) -> int:
        """Root may open any file."""
        if Path(path) == part:
            raise PermissionError(errno.EACCES, "no", str(path))
        return really_open(path, flags, *mode)

    monkeypatch.setattr(os, "open", open_as_user)
    write_file(tmp_path / "file", b"new")
    assert names(tmp_path) == ["file"]


def test_what_a_link_names_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / f".apmax-tmp-{ended}-0123_xyz").symlink_to(precious)
    with temporary_folder():
        assert precious.is_dir()


def test_folders_and_files_of_other_names_are_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = [f"apmax-{ended}-results", f".apmax-tmp-{ended}-results-2026", f".file.{ended}-old.part"]
    for name in kept:
        (tmp_path / name).mkdir()
    with temporary_folder():
        write_file(tmp_path / "file", b"new")
    assert names(tmp_path) == sorted([*kept, "file"])


def test_pipes_with_such_names_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pipes = [f".apmax-tmp-{ended}-0123_xyz", f".file.{ended}-0123abcd.part"]
    for name in pipes:
        os.mkfifo(tmp_path / name)
    with temporary_folder():
        write_file(tmp_path / "file", b"new")
    assert names(tmp_path) == sorted([*pipes, "file"])


def test_the_lock_is_held_until_the_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def locked(temporary: str, path: Path) -> None:
        descriptor = os.open(temporary, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        replace(temporary, path)

    monkeypatch.setattr(os, "replace", locked)
    write_file(tmp_path / "file", b"new")
    assert names(tmp_path) == ["file"]
