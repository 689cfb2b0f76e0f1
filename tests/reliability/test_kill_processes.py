"""Programs of several processes that a signal stops resume, and end with the same bits."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests.hang import SECONDS
from tests.reliability.soak import record, scaled
from tests.torchrun import DYING_RANKS, TWO_PROCESSES, environment, torchrun

pytestmark = pytest.mark.soak
torch = pytest.importorskip("torch")
pytest.importorskip("distributed")
import psutil  # noqa: E402

from tests.dask_clusters import local_cluster  # noqa: E402

ROOT = Path(__file__).parents[2]
INTERRUPTED = 128 + signal.SIGINT


def run(
    command: Sequence[object],
    stop_after: float | None = None,
    number: int = signal.SIGKILL,
    starts: int = 1,
) -> int:
    """Run a command in a process group, send it a signal at a moment, and return its exit code.

    It ends with 0, or by the signal, and leaves no process. `starts` is how often it starts its
    processes.
    """
    with (
        tempfile.TemporaryFile("w+") as errors,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=ROOT,
            env=environment(Path(folder)),
            start_new_session=True,
        )
        try:
            try:
                code = process.wait(stop_after or SECONDS * starts)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
                code = process.wait(SECONDS)
            assert_no_process_is_left(process.pid)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        errors.seek(0)
        said = errors.read()
    if code in (1, -signal.SIGABRT):  # of torchrun, and of Python while it imports
        assert "KeyboardInterrupt" in said or "SignalException" in said, said[-3000:]
    else:
        assert code in (0, -number, INTERRUPTED), (code, said[-3000:])
    return code


def assert_no_process_is_left(group: int) -> None:
    """Wait for the end of workers, which notice that their parent has ended."""
    deadline = time.monotonic() + SECONDS
    while left := processes_of(group):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def processes_of(group: int) -> list[str]:
    """Return the processes of a group, without those that have ended and nobody waited for."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(str(process))
    return found


def stop_and_complete(command: Sequence[object], stops: int, number: int, seconds: float) -> None:
    """Stop a command at random moments so many times, and then let it end.

    The last argument is its folder, which is emptied when it ends before the signal.
    """
    rng, folder, left = np.random.default_rng(0), Path(str(command[-1])), stops
    for _ in range(20 * stops):
        if run(command, seconds * rng.uniform(), number) == 0:
            shutil.rmtree(folder)
            folder.mkdir()
        else:
            left -= 1
        if left == 0:
            break
    assert left == 0
    assert run(command) == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_dask_client_that_is_stopped_resumes(number: signal.Signals, tmp_path: Path) -> None:
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    undisturbed.mkdir()
    disturbed.mkdir()
    client = [sys.executable, "-m", "tests.reliability.dask_client"]
    with local_cluster(1, processes=True) as cluster:
        command = [*client, cluster.scheduler_address]
        assert run([*command, undisturbed]) == 0
        begin = time.perf_counter()
        assert run([*command, undisturbed]) == 0
        seconds = time.perf_counter() - begin
        stop_and_complete([*command, disturbed], scaled(50), number, seconds)
    results = [(folder / "fit.npy").read_bytes() for folder in (undisturbed, disturbed)]
    assert results[0] == results[1]
    assert [path.name for path in disturbed.iterdir()] == ["fit.npy"]
    record(
        f"a Dask client that {number.name} stops resumes with the same bits",
        f"{scaled(50)} stops, no file or process left",
    )


def test_ranks_that_are_killed_in_turn_are_restarted(tmp_path: Path) -> None:
    """The run is so long that it cannot end before all kills: each allows eight steps."""
    count = scaled(50)
    kills = [(start % 2, random.Random(start).randrange(1, 9)) for start in range(count)]
    weights = []
    for name, plan in (("never", []), ("often", kills)):
        folder = tmp_path / name
        folder.mkdir()
        arguments = TWO_PROCESSES, folder, 9 * count, json.dumps(plan)
        command = torchrun(DYING_RANKS, *arguments, restarts=count)
        assert run(command, starts=1 + len(plan)) == 0
        assert (folder / "restarts").read_text() == str(len(plan))
        saved = torch.load(folder / "checkpoint.pt", weights_only=True)
        weights.append([*saved["model"].values(), saved["loss"]["U"]])
    assert all(map(torch.equal, *weights))
    record(
        "ranks of torchrun that SIGKILL stops are restarted and end with the same bits",
        f"{count} stops, of both ranks in turn",
    )


def rank_of_start(agent: int, rank: int, start: int) -> psutil.Process:
    """Wait for a rank of torchrun that has been started so many times before."""
    wanted = {"RANK": str(rank), "TORCHELASTIC_RESTART_COUNT": str(start)}
    deadline = time.monotonic() + SECONDS
    while True:
        for process in psutil.Process(agent).children():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if wanted.items() <= process.environ().items():
                    return process
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_ranks_that_are_stopped_from_outside_are_restarted(
    number: signal.Signals, tmp_path: Path
) -> None:
    """At random moments, each after a checkpoint of that start."""
    count, steps, rng = scaled(50), 100 * scaled(50), random.Random(0)
    never, often = tmp_path / "never", tmp_path / "often"
    for folder in (never, often):
        folder.mkdir()
    assert run(torchrun(DYING_RANKS, TWO_PROCESSES, never, steps, "[]")) == 0
    command = torchrun(DYING_RANKS, TWO_PROCESSES, often, steps, "[]", restarts=count)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT,
            env=environment(Path(temporary)), start_new_session=True,
        )  # fmt: skip
        path = often / "checkpoint.pt"
        try:
            for start in range(count):
                rank, before = rank_of_start(process.pid, start % 2, start), path.exists()
                modified = path.stat().st_mtime_ns if before else 0
                deadline = time.monotonic() + SECONDS
                while not path.exists() or path.stat().st_mtime_ns == modified:
                    assert process.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
                time.sleep(rng.uniform(0, 0.05))
                rank.send_signal(number)
            assert process.wait(SECONDS) == 0
            assert_no_process_is_left(process.pid)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert (often / "restarts").read_text() == str(count)
    saved = [torch.load(one / "checkpoint.pt", weights_only=True) for one in (never, often)]
    weights = [[*one["model"].values(), one["loss"]["U"]] for one in saved]
    assert all(map(torch.equal, *weights))
    record(
        f"ranks of torchrun that {number.name} stops from outside are restarted and end with the "
        "same bits",
        f"{count} stops at random moments, of both ranks in turn",
    )


def test_torchrun_ends_on_ctrl_c_and_resumes(tmp_path: Path) -> None:
    weights = []
    for stops in (0, scaled(50)):
        folder = tmp_path / str(stops)
        folder.mkdir()
        begin = time.perf_counter()
        if stops == 0:
            assert run(torchrun(TWO_PROCESSES, folder)) == 0
            seconds = time.perf_counter() - begin
        else:
            stop_and_complete(torchrun(TWO_PROCESSES, folder), stops, signal.SIGINT, seconds)
        saved = torch.load(folder / "checkpoint.pt", weights_only=True)
        weights.append([*saved["model"].values(), saved["loss"]["U"]])
        assert [path.name for path in folder.iterdir()] == ["checkpoint.pt"]
    assert all(map(torch.equal, *weights))
    record(
        "torchrun that SIGINT stops ends all its processes and resumes with the same bits",
        f"{scaled(50)} stops",
    )
