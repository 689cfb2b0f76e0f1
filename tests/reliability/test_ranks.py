"""Ranks that die are restarted to the same result; ranks that hang end in a clear time-out.

A rank that dies once is in tests/torch/test_processes.py.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "torch" / "two_processes.py"
SECONDS = 900
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # restarts need it: pytorch issue 135712
}
DYING = """
import os, runpy, signal, sys, threading
from pathlib import Path

example = runpy.run_path(sys.argv[1])
deaths = [place.split(":") for place in sys.argv[3:]]  # one for each start: RANK:STEP:SECONDS
start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
Path(__file__).with_name(f"start-{start}").touch()
if start < len(deaths) and deaths[start][0] == os.environ["RANK"]:
    rank, at, seconds = deaths[start]

    def after_step(step):  # from some step on, at any moment: in a step, a gather, a writing
        if step == int(at):
            kill = threading.Timer(float(seconds), os.kill, (os.getpid(), signal.SIGKILL))
            kill.daemon = True
            kill.start()

    example["train"].__globals__["after_step"] = after_step
example["main"](Path(sys.argv[2]))
"""


def torchrun(script: Path, *arguments: str, restarts: int = 0) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        f"--max-restarts={restarts}", "--monitor-interval=0.1", str(script), *arguments,
    ]  # fmt: skip
    return subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, env=ENVIRONMENT, check=False
    )


def trained(folder: Path, deaths: list[str]) -> dict[str, Any]:
    """The last checkpoint of a run whose ranks die so often, each time at such a place."""
    script = folder / "dying.py"
    script.write_text(DYING)
    place = folder / "run"
    place.mkdir()
    done = torchrun(script, str(EXAMPLE), str(place), *deaths, restarts=len(deaths))
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(list(folder.glob("start-*"))) == len(deaths) + 1  # they did die
    assert list(place.iterdir()) == [place / "checkpoint.pt"]  # nothing left aside
    saved: dict[str, Any] = torch.load(place / "checkpoint.pt", weights_only=True)
    return saved


def assert_same_bits(left: Any, right: Any) -> None:
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same_bits(left[key], right[key])
    elif torch.is_tensor(left):
        torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)


def assert_same_training(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert left["step"] == right["step"] == 50
    for part in ("model", "loss"):
        assert_same_bits(left[part], right[part])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return trained(tmp_path_factory.mktemp("undisturbed"), [])


@pytest.mark.soak
def test_ranks_killed_ten_times_are_restarted_to_the_same_bits(
    undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    begin = time.monotonic()
    for run in range(2):  # five deaths in each, one later than the other
        steps = np.sort(rng.choice(np.arange(2, 46), 5, replace=False))
        deaths = [f"{rng.integers(2)}:{step}:{rng.uniform(1e-4, 0.02):.5f}" for step in steps]
        folder = tmp_path / str(run)
        folder.mkdir()
        assert_same_training(trained(folder, deaths), undisturbed)
        print(f"\nranks: killed at rank:step:seconds {', '.join(deaths)}, the same bits")
    print(f"ranks: 10 kills, {time.monotonic() - begin:.0f} s")


HANGING = """
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from apmax.torch import APLoss

dist.init_process_group("gloo")
impatient = dist.new_group(timeout=timedelta(seconds=3))
labels, scores = torch.arange(40) % 4 == 0, torch.rand(20).double()
rank = dist.get_rank()
mine = torch.arange(20) + 20 * rank
APLoss(labels).double()(scores, mine)  # kernels are loaded, at whatever pace
dist.barrier()
loss = APLoss(labels, process_group=impatient).double()
if rank == 1:
    time.sleep(1000)
loss(scores, mine)
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_rank_that_hangs_ends_in_a_time_out_that_says_so() -> None:
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    waiting, hanging = (
        subprocess.Popen(
            [sys.executable, "-c", HANGING],
            env={**ENVIRONMENT, **place, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    )
    try:
        _, told = waiting.communicate(timeout=SECONDS)
        assert hanging.poll() is None  # it would hang for ever
        assert "RankError: rank 0 waited for the parts of 1 other rank(s)" in told
        assert "did not answer" in told
        assert "imed out" in told
    finally:
        hanging.kill()
        hanging.communicate()
    assert waiting.returncode == 1
