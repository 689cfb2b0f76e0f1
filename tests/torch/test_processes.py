"""Several processes, or a process that is killed and resumed, give the result of one process."""

from __future__ import annotations

import json
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.hang import SECONDS
from tests.torchrun import DYING_RANKS, TWO_PROCESSES, environment, torchrun

EXAMPLES = TWO_PROCESSES.parent


def run(tmp_path: Path, *arguments: Any, **options: int) -> str:
    done = subprocess.run(
        torchrun(*arguments, **options),
        capture_output=True,
        text=True,
        timeout=SECONDS * (1 + options.get("restarts", 0)),
        env=environment(tmp_path),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def run_as_only_rank(script: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run a script in this process, and return its names."""
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    return runpy.run_path(str(script))


def checkpoint(folder: Path) -> Any:
    return torch.load(folder / "checkpoint.pt", weights_only=True)


def assert_same(left: Any, right: Any, **tolerance: float) -> None:
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key], **tolerance)
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same(one, other, **tolerance)
    elif torch.is_tensor(left):
        torch.testing.assert_close(left, right, equal_nan=True, **tolerance)
    else:
        assert left == right


def test_ranks_agree_on_values_gradients_errors_and_every_bit_of_u(tmp_path: Path) -> None:
    run(tmp_path, Path(__file__).with_name("ranks_worker.py"), tmp_path)
    left, right = (torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in (0, 1))
    assert int(left["rounds"]) + int(left["skipped"]) == 20
    assert_same(left, right, rtol=0, atol=0)


def test_two_processes_of_which_one_is_restarted_move_the_weights_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, together = tmp_path / "one", tmp_path / "two"
    alone.mkdir()
    together.mkdir()
    plan = json.dumps([(1, 23)])
    output = run(tmp_path, DYING_RANKS, TWO_PROCESSES, together, 50, plan, restarts=1)
    assert (together / "restarts").read_text() == "1"
    tracked = [line.split()[-1] for line in output.splitlines() if "tracked AP" in line]
    assert len(tracked) == 2
    assert len(set(tracked)) == 1  # U is the same on both ranks
    run_as_only_rank(TWO_PROCESSES, monkeypatch)["main"](alone)
    assert checkpoint(together)["step"] == 50
    for part in ("model", "loss"):
        left, right = checkpoint(together)[part], checkpoint(alone)[part]
        assert_same(left, right, rtol=1e-10, atol=1e-10)


KILLED_WHILE_SAVING = """
import os, runpy, signal, sys
from pathlib import Path
script, folder, number = sys.argv[1:]
example = runpy.run_path(script)
really_save, saves = example["save"], 0

def save(parts, path):
    global saves
    saves += 1
    if saves == int(number):
        path.with_suffix(".part").write_bytes(b"half of a checkpoint")
        os.kill(os.getpid(), signal.SIGKILL)
    really_save(parts, path)

example["train"].__globals__["save"] = save
example["train"](Path(folder))
"""


def test_a_run_killed_while_it_saves_a_checkpoint_resumes_bit_identically(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED_WHILE_SAVING)
    resume, never, once = EXAMPLES / "resume.py", tmp_path / "never", tmp_path / "once"
    never.mkdir()
    once.mkdir()
    command = [sys.executable, script, resume, once, "3"]
    done = subprocess.run(command, check=False, timeout=SECONDS, env=environment(tmp_path))
    assert done.returncode == -signal.SIGKILL
    train = runpy.run_path(str(resume))["train"]
    for folder in (once, never):
        train(folder)
    assert_same(checkpoint(once), checkpoint(never), rtol=0, atol=0)


def test_the_script_of_the_guide_gives_the_same_result_on_one_and_two_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = (EXAMPLES.parents[1] / "docs" / "torch.md").read_text("utf-8")
    script = tmp_path / "train.py"
    script.write_text(guide.split("## Several processes")[1].split("```")[1].removeprefix("py\n"))
    two = run(tmp_path, script)
    run_as_only_rank(script, monkeypatch)
    one = capsys.readouterr().out
    assert one == two
    assert float(one.removeprefix("tracked AP ")) > 0.2
