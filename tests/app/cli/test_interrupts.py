"""Ctrl-C during `apmax train`, at random moments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import pytest

from apmax.app.model import load_model
from tests.app.loans import made_loans
from tests.hang import SECONDS

AT_ONCE = 3
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# The marker is printed once Python itself has started, just before main() sets its handler.
LAUNCH = "from apmax.app.cli import main; print('started', flush=True); main()"


# joblib would end idle workers after five minutes. This prints a line when the workers have begun.
WATCHED = """
import joblib
from apmax.app import training
joblib.parallel_config("loky", idle_worker_timeout=86_400)
start_workers = training.start_workers
training.start_workers = lambda jobs: (start_workers(jobs), print("workers", flush=True))
"""


class Outcome(NamedTuple):
    code: int
    seconds: float
    stderr: str
    files: list[str]


def train(folder: Path, data: Path, stop_after: float | None, *options: str) -> Outcome:
    """Run `apmax train` in a folder of its own; after some seconds, press Ctrl-C.

    A terminal sends the signal to all processes of the group.
    """
    folder.mkdir()
    command = [sys.executable, "-c", LAUNCH, "train", str(data), "--target", "last",
               "-o", "m.apmax", *options]  # fmt: skip
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **ONE_THREAD},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "started"
    start = time.monotonic()
    if stop_after is not None:
        time.sleep(stop_after)
        with suppress(ProcessLookupError):  # it has ended already
            os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=SECONDS)
    seconds = time.monotonic() - start
    return Outcome(process.returncode, seconds, stderr, sorted(p.name for p in folder.iterdir()))


@pytest.mark.parametrize(
    ("runs", "options"),
    [(8, ("--model", "additive", "--jobs", "1")), (4, ("--model", "trees", "--jobs", "2"))],
    ids=["one process", "two processes"],
)
def test_interrupts_at_random_moments_leave_a_complete_model_or_none(
    tmp_path: Path, runs: int, options: tuple[str, ...]
) -> None:
    data = tmp_path / "loans.csv"
    made_loans(600, 0).to_csv(data, index=False)
    whole = train(tmp_path / "whole", data, None, *options)
    assert (whole.code, whole.files) == (0, ["m.apmax"])
    delays = np.random.default_rng(0).uniform(0.05, 0.7 * whole.seconds, runs)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        folders = [tmp_path / f"run {k}" for k in range(runs)]
        outcomes = list(
            pool.map(lambda f, seconds: train(f, data, seconds, *options), folders, delays.tolist())
        )
    for folder, outcome in zip(folders, outcomes, strict=True):
        assert "Traceback" not in outcome.stderr
        assert outcome.files in ([], ["m.apmax"])
        for name in outcome.files:
            assert load_model(folder / name).facts["cv_ap"] > 0
    # A busy machine can be so slow to press Ctrl-C that a run is complete before.
    stopped = [outcome for outcome in outcomes if outcome.code != 0]
    assert {outcome.code for outcome in stopped} == {130}
    assert all(outcome.stderr.splitlines()[-1].startswith("stopped") for outcome in stopped)
    assert all(outcome.files for outcome in outcomes if outcome.code == 0)
    assert any(not outcome.files for outcome in stopped)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_the_command_alone_leaves_no_worker(tmp_path: Path, number: int) -> None:
    made_loans(4000, 0).to_csv(tmp_path / "loans.csv", index=False)
    command = [sys.executable, "-c", WATCHED + LAUNCH, "train", "loans.csv", "--target", "last",
               "-o", "m.apmax", "--jobs", "2"]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, **ONE_THREAD}, stderr=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert "workers\n" in iter(process.stdout.readline, "")
    children = psutil.Process(process.pid).children()  # also those that track resources
    workers = [one for one in children if "popen_loky" in " ".join(one.cmdline())]
    assert len(workers) == 2
    process.send_signal(number)
    ended = process.wait(timeout=SECONDS)
    process.stdout.close()
    assert ended == (-number if number == signal.SIGKILL else 128 + number)
    _, alive = psutil.wait_procs(workers, timeout=SECONDS)
    assert alive == []
    assert not (tmp_path / "m.apmax").exists()
