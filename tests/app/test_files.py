"""Paths, and bounded decompression."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apmax.app import files
from apmax.app.files import open_bytes
from apmax.app.io import load
from apmax.app.model import load_model
from apmax.errors import FileError, FileFormatError
from apmax.validation import check_path


def test_paths_that_are_not_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path / "none", "no such file"),
        (tmp_path, "is a folder"),
        (tmp_path / "pipe", "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
    ):
        with pytest.raises(FileError, match=message):
            check_path(path)


@pytest.mark.parametrize("read", [load, load_model])
@pytest.mark.parametrize("suffix", ["csv", "apmax"])
def test_data_and_models_in_pipes_and_devices_are_not_opened(
    read: Callable[[Path], Any], suffix: str, tmp_path: Path
) -> None:
    pipe, device = tmp_path / f"pipe.{suffix}", tmp_path / f"device.{suffix}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(FileError, match="a pipe or a device"):
            read(path)


def test_decompression_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FREE_BYTES", 1 << 16)
    bomb, honest = tmp_path / "bomb.csv.gz", tmp_path / "honest.csv.gz"
    bomb.write_bytes(gzip.compress(bytes(10_000_000)))
    honest.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    with pytest.raises(FileFormatError, match="decompress it first"):
        open_bytes(bomb)
    with open_bytes(honest) as stream:
        assert stream.read() == b"a,b\n1,2\n"


def test_no_compressed_file_expands_beyond_the_absolute_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert files.MAX_BYTES == 64 << 30
    file = tmp_path / "data.csv.gz"
    file.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000))
    monkeypatch.setattr(files, "MAX_BYTES", 4004)
    with open_bytes(file) as stream:
        assert len(stream.read()) == 4004
    monkeypatch.setattr(files, "MAX_BYTES", 4003)
    with pytest.raises(FileFormatError, match="decompress it first"):
        open_bytes(file)
