"""Files that are whole or not there, folders with one owner."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from apmax.app.disk import locked_folder, make_folder, write_aside
from apmax.errors import FileError


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_what_a_killed_writer_left_aside_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".a[1]*.json.0123abcd.part").write_bytes(b"half")
    (tmp_path / ".b.json.0123abcd.part").write_bytes(b"half of another file")
    write_aside(tmp_path / "a[1]*.json", b"whole")
    assert names(tmp_path) == [".b.json.0123abcd.part", "a[1]*.json"]


def test_a_writer_killed_after_the_renaming_leaves_nothing_of_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".file.0123abcd.part").write_bytes(b"half")
    rename = os.replace

    def killed_after(*paths: str) -> None:
        rename(*paths)
        raise KeyboardInterrupt  # nothing after it is run, as after a kill

    monkeypatch.setattr(os, "replace", killed_after)
    with pytest.raises(KeyboardInterrupt):
        write_aside(tmp_path / "file", b"whole")
    assert names(tmp_path) == ["file"]


def test_what_is_being_written_is_not_taken_for_left_aside(tmp_path: Path) -> None:
    path = tmp_path / "file"
    other = tmp_path / ".file.0123abcd.part"
    other.write_bytes(b"half")
    import fcntl

    with other.open("ab") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        write_aside(path, b"whole")
        assert names(tmp_path) == [other.name, "file"]
    write_aside(path, b"whole")
    assert names(tmp_path) == ["file"]


def test_many_writers_of_one_file_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([letter]) * 100_000 for letter in b"abcd"]
    failures: list[BaseException] = []

    def write(content: bytes) -> None:
        try:
            for _ in range(25):
                write_aside(path, content)
                assert path.read_bytes() in contents
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert names(tmp_path) == ["file"]


def test_the_mode_is_what_the_umask_says_and_the_umask_stays(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_aside(tmp_path / "file", b"")
        assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_a_folder_has_one_owner_until_the_owner_ends(tmp_path: Path) -> None:
    with locked_folder(tmp_path) as first, locked_folder(tmp_path) as second:
        assert (first, second) == (True, False)
    with locked_folder(tmp_path) as third:
        assert third


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot make the folder .*file/below"):
        make_folder(tmp_path / "file" / "below")


def test_a_link_stays_a_link_and_a_file_keeps_its_mode(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o600)
    link.symlink_to(target)
    write_aside(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600
