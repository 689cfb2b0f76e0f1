"""Programs of several processes that a signal stops resume, and end with the same bits."""

from __future__ import annotations

import os
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

from tests.reliability.soak import record, scaled

pytestmark = pytest.mark.soak
torch = pytest.importorskip("torch")
distributed = pytest.importorskip("distributed")

TWO_PROCESSES = Path(__file__).parents[2] / "examples" / "torch" / "two_processes.py"
DASK_CLIENT = Path(__file__).with_name("dask_client.py")
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # restarts need it: pytorch issue 135712
}
SECONDS = 300
INTERRUPTED = 128 + signal.SIGINT


def run(
    command: Sequence[object], stop_after: float | None = None, number: int = signal.SIGKILL
) -> int:
    """Run a command in a process group, send it a signal at a moment, and return its exit code.

    It ends with 0, or by the signal.
    """
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=ENVIRONMENT,
            start_new_session=True,
        )
        try:
            try:
                code = process.wait(stop_after or SECONDS)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
                code = process.wait(SECONDS)
            if number == signal.SIGINT:
                assert_no_process_is_left(process.pid)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        errors.seek(0)
        said = errors.read()
    if code == 1:  # of torchrun, and of Python while it imports
        assert "KeyboardInterrupt" in said or "SignalException" in said, said[-3000:]
    else:
        assert code in (0, -number, INTERRUPTED), (code, said[-3000:])
    return code


def assert_no_process_is_left(group: int) -> None:
    deadline = time.monotonic() + 60  # workers end when they notice that their parent did
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.1)
        raise AssertionError("a process is left")


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
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        command = [sys.executable, DASK_CLIENT, cluster.scheduler_address]
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


DYING = """
import os, random, runpy, signal, sys
from pathlib import Path
example, folder, kills = runpy.run_path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
restart, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
steps_left = random.Random(restart).randrange(1, 9)

def after_step(step):
    global steps_left
    steps_left -= 1
    if restart < kills and rank == restart % 2 and steps_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

train = example["train"]
train.__globals__["after_step"] = after_step
train.__defaults__ = (int(sys.argv[4]),)
example["main"](folder)
if rank == 0:
    (folder / "restarts").write_text(str(restart))
"""


def torchrun(script: Path, *arguments: object, restarts: int = 0) -> list[object]:
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        f"--max-restarts={restarts}", "--monitor-interval=0.1", script, *arguments,
    ]  # fmt: skip


def test_ranks_that_are_killed_in_turn_are_restarted(tmp_path: Path) -> None:
    """The run is so long that it cannot end before all kills: each allows eight steps."""
    script, count = tmp_path / "dying.py", scaled(50)
    script.write_text(DYING)
    steps, weights = 9 * count, []
    for name, number in (("never", 0), ("often", count)):
        folder = tmp_path / name
        folder.mkdir()
        assert run(torchrun(script, TWO_PROCESSES, folder, number, steps, restarts=count)) == 0
        assert (folder / "restarts").read_text() == str(number)
        saved = torch.load(folder / "checkpoint.pt", weights_only=True)
        weights.append([*saved["model"].values(), saved["loss"]["U"]])
    assert all(map(torch.equal, *weights))
    record(
        "ranks of torchrun that SIGKILL stops are restarted and end with the same bits",
        f"{count} stops, of both ranks in turn",
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
