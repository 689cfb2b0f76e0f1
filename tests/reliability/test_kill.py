"""Killed at any moment: nothing is half-written, and the result is that of a run never killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

KILLING = Path(__file__).with_name("killing.py")
VICTIMS = ("linear", "torch", "paper", "train")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def killed(victim: str, folder: Path, kills: int, seed: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(KILLING), victim, str(folder), str(kills), str(seed)],
        capture_output=True,
        text=True,
        timeout=60 + 20 * kills,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_a_few_times_it_ends_the_same(victim: str, tmp_path: Path) -> None:
    assert killed(victim, tmp_path, 4, seed=0)["killed"] == 4


@pytest.mark.soak
@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_fifty_times_it_ends_the_same(victim: str, tmp_path: Path) -> None:
    told = killed(victim, tmp_path, 50, seed=1)
    print(f"\n{victim}: {told}")
    assert told["killed"] == 50
    assert told["while writing"] >= 5


WORKERS = """
import sys, time
from pathlib import Path
from experiments.store import Store, Unit

def rest(seconds):
    time.sleep(seconds)

units = [Unit(rest, (0.2 + number / 1000,)) for number in range(200)]
for _ in Store(Path(sys.argv[1])).results(units, jobs=2):
    print("one", flush=True)
"""


def alive_in(session: int) -> list[int]:
    """Processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(of) == session and state != "Z":
            found.append(int(entry.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_no_worker_outlives_a_run_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    run = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
        start_new_session=True,
    )
    with run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"one\n"
        assert len(alive_in(run.pid)) > 1  # its workers are there
        run.send_signal(signal.SIGKILL)
    try:
        end = time.monotonic() + 30
        while alive_in(run.pid) and time.monotonic() < end:
            time.sleep(0.1)
        assert alive_in(run.pid) == []
    finally:
        for process in alive_in(run.pid):
            os.kill(process, signal.SIGKILL)
