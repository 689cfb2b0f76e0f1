"""The file of a checkpoint: its path, its replacement in one step, its errors, its end."""

from __future__ import annotations

import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apmax import APClassifier
from apmax.errors import CheckpointError, FileError
from apmax.scale.blocks import MemoryBlocks
from apmax.scale.checkpoint import Checkpoint
from apmax.scale.sums import merge_statistics, statistics

RNG = np.random.default_rng(0)
FOUND = MemoryBlocks(RNG.normal(size=(50, 2)), np.arange(50) % 3 == 0).fold(
    statistics, merge_statistics
)
ANCHOR = np.array([1.0, 2.0, 3.0])


def begun(path: Any) -> Checkpoint:
    checkpoint = Checkpoint(path)
    checkpoint.load({"alpha": 1.0}, FOUND)
    return checkpoint


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("a\0b", "cannot be a file"),
        ("a" * 300, "cannot be a file"),
        (3, "cannot be a file"),
        ("\ud800", "cannot be a file"),
        ("nowhere/fit.json", "cannot write the checkpoint"),
        (".", "is not a file"),
        ("/dev/zero", "is not a file"),
    ],
)
def test_a_path_that_cannot_be_a_file_is_refused_before_data_are_read(
    wrong: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=message) as raised:
        APClassifier().fit_files("none.parquet", "y", checkpoint=wrong)
    assert len(str(raised.value)) < 400
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_refused_before_data_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="is not a file"):
        APClassifier().fit_files("none.parquet", "y", checkpoint=tmp_path / "pipe")


def test_the_home_folder_may_be_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    begun("~/fit.json")
    assert (tmp_path / "fit.json").exists()


def test_the_result_replaces_the_evaluations_and_touches_no_other_file(tmp_path: Path) -> None:
    path, victim = tmp_path / "fit.json", tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".fit.json.part").symlink_to(victim)
    checkpoint = begun(path)
    path.chmod(0o640)
    checkpoint.keep_anchor(ANCHOR)
    assert victim.read_text() == "precious"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    resumed = begun(path)
    assert resumed.anchor is not None
    np.testing.assert_array_equal(resumed.anchor, ANCHOR)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_checkpoint_may_be_a_symbolic_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "fit.json")
    begun(link).keep_anchor(ANCHOR)
    assert link.is_symlink()
    assert begun(tmp_path / "fit.json").anchor is not None


def test_two_fits_with_one_checkpoint_have_temporary_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = begun(tmp_path / "fit.json"), begun(tmp_path / "fit.json")
    fsync, seen = os.fsync, list[int]()

    def meanwhile(descriptor: int) -> None:
        seen.append(descriptor)
        if len(seen) == 1:  # the first one has written, and not replaced the file yet
            second.keep_anchor(2 * ANCHOR)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    first.keep_anchor(ANCHOR)
    monkeypatch.undo()
    assert len(seen) == 2
    anchor = begun(tmp_path / "fit.json").anchor
    assert anchor is not None
    np.testing.assert_array_equal(anchor, ANCHOR)
    assert [path.name for path in tmp_path.iterdir()] == ["fit.json"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_whatever_stops_the_replacement_leaves_the_file_as_it_was(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = begun(tmp_path / "fit.json")
    before = (tmp_path / "fit.json").read_bytes()

    def stop(descriptor: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(FileError if error is OSError else error):
        checkpoint.keep_anchor(ANCHOR)
    assert [path.name for path in tmp_path.iterdir()] == ["fit.json"]
    assert (tmp_path / "fit.json").read_bytes() == before


def damaged(path: Path, change: Any) -> None:
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("where", ["alpha", "seconds", "w"])
def test_errors_show_the_beginning_of_values(where: str, tmp_path: Path) -> None:
    path, huge = tmp_path / "fit.json", "\x1b[2J" + "A" * 1_000_000
    begun(path).recorded(lambda w: (1.0, w))(ANCHOR)

    def change(lines: Any) -> None:
        (lines[0]["fit"] if where == "alpha" else lines[1])[where] = huge

    damaged(path, change)
    with pytest.raises(CheckpointError) as raised:
        begun(path)
    assert len(str(raised.value)) < 400 + len(str(path))
    assert "\x1b" not in str(raised.value)


def test_a_checkpoint_that_cannot_be_deleted_does_not_lose_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = begun(tmp_path / "fit.json")

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with caplog.at_level(logging.WARNING, "apmax"):
        checkpoint.remove()
    monkeypatch.undo()
    assert "cannot be deleted (Permission denied)" in caplog.text
