"""Several processes, or a process that is killed and resumed, give the result of one process."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples" / "torch"
SECONDS = 300
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # restarts need it: pytorch issue 135712
}


def torchrun(script: Path, *arguments: str, processes: int, restarts: int = 0) -> str:
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone",
        f"--nproc-per-node={processes}", f"--max-restarts={restarts}", "--monitor-interval=0.1",
        str(script), *arguments,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


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
    torchrun(Path(__file__).with_name("ranks_worker.py"), str(tmp_path), processes=2)
    left, right = (torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in (0, 1))
    assert int(left["rounds"]) + int(left["skipped"]) == 20
    assert_same(left, right, rtol=0, atol=0)


DYING = """
import os, runpy, signal, sys
from pathlib import Path
example = runpy.run_path(sys.argv[1])

def after_step(step):
    if (os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"], step) == ("0", "1", 23):
        os.kill(os.getpid(), signal.SIGKILL)

example["train"].__globals__["after_step"] = after_step
example["main"](Path(sys.argv[2]))
"""


def test_two_processes_of_which_one_is_restarted_move_the_weights_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, alone, together = tmp_path / "dying.py", tmp_path / "one", tmp_path / "two"
    script.write_text(DYING)
    alone.mkdir()
    together.mkdir()
    example = EXAMPLES / "two_processes.py"
    output = torchrun(script, str(example), str(together), processes=2, restarts=1)
    tracked = [line.split()[-1] for line in output.splitlines() if "tracked AP" in line]
    assert len(tracked) == 2
    assert len(set(tracked)) == 1  # U is the same on both ranks
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    runpy.run_path(str(example))["main"](alone)
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
    done = subprocess.run(command, check=False, timeout=SECONDS, env=ENVIRONMENT)
    assert done.returncode == -signal.SIGKILL
    train = runpy.run_path(str(resume))["train"]
    for folder in (once, never):
        train(folder)
    assert_same(checkpoint(once), checkpoint(never), rtol=0, atol=0)
