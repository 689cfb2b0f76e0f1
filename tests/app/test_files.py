"""Atomic writes and bounded decompression."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from apmax.app import files
from apmax.app.files import check_path, open_bytes, remove_unfinished_files, write_file
from apmax.errors import FileError, FileFormatError


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
    assert not files._unfinished


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot write"):
        write_file(tmp_path / "missing" / "file", b"")


def test_paths_that_are_not_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path / "none", "no such file"),
        (tmp_path, "is a folder"),
        (tmp_path / "pipe", "not a regular file"),
    ):
        with pytest.raises(FileError, match=message):
            check_path(path)


def test_decompression_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FREE_BYTES", 1 << 16)
    bomb, honest = tmp_path / "bomb.csv.gz", tmp_path / "honest.csv.gz"
    bomb.write_bytes(gzip.compress(bytes(10_000_000)))
    honest.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    with pytest.raises(FileFormatError, match="decompress it first"):
        open_bytes(bomb)
    with open_bytes(honest) as stream:
        assert stream.read() == b"a,b\n1,2\n"
