"""Work that a signal stops leaves complete files or none, and the next run gives the result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apmax.atomic_files import write_file
from tests.hang import SECONDS
from tests.reliability.killing import WORK
from tests.reliability.soak import record, scaled

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def stopped(name: str, folder: Path, times: int, number: int) -> dict[str, int]:
    """Return what `killing` counts; apmax leaves no temporary file elsewhere, even if killed.

    Lightning leaves an unfinished checkpoint in TMPDIR if it is killed.
    """
    temporary, module = folder / "tmp", [sys.executable, "-m", "tests.reliability.killing"]
    temporary.mkdir()
    done = subprocess.run(
        [*module, name, str(folder), str(times), "0", str(int(number))],
        capture_output=True,
        text=True,
        env={
            **ENVIRONMENT,
            "TMPDIR": str(temporary),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),  # otherwise in TMPDIR
        },
        check=False,
        timeout=SECONDS * (1 + times),
    )
    left = [path.name for path in temporary.iterdir()]
    assert left == [] or (name == "lightning" and number == signal.SIGKILL)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


FEW = [("experiments", signal.SIGKILL), ("train", signal.SIGKILL), ("files", signal.SIGINT)]
"""Others: tests/torch/test_processes.py, tests/app/cli/test_interrupts.py."""


@pytest.mark.parametrize(("name", "number"), FEW)
def test_work_stopped_three_times_ends_with_the_same_bits(
    name: str, number: signal.Signals, tmp_path: Path
) -> None:
    assert stopped(name, tmp_path, 3, number)["stopped"] == 3


KINDS = {
    "torch": "PyTorch training",
    "lightning": "training with Lightning",
    "experiments": "a run of the paper's experiments",
    "train": "`apmax train`",
    "files": "`fit_files`",
}


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("name", WORK)
def test_work_stopped_fifty_times_ends_with_the_same_bits(
    name: str, number: signal.Signals, tmp_path: Path
) -> None:
    found = stopped(name, tmp_path, scaled(50), number)
    assert found["stopped"] == scaled(50)
    again = "started anew" if name == "train" else "run again"  # the others resume
    record(
        f"{KINDS[name]} stopped by {number.name} and {again} ends with the same bits",
        f"{found['stopped']} stops, {found['while writing']} with a temporary file present",
    )


KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from apmax import atomic_files as files
files.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
files.write_file(Path(sys.argv[1]), b"new")
"""


def test_the_next_writer_removes_the_temporary_file_of_a_killed_one(tmp_path: Path) -> None:
    path = tmp_path / "a[1]*.txt"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2
    write_file(path, b"newer")
    assert path.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [path]
