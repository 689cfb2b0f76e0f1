"""Fuzzing from outside: processes of their own, so that a crash in native code is noticed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tests.reliability.fuzzing import MEMORY

BATCH = 5000
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",  # or every thread reserves 64 MB that it never uses
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}  # fmt: skip


class Figures(NamedTuple):
    """What became of a format's inputs."""

    name: str
    inputs: int
    read: int
    slowest: float
    memory: int

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.inputs} inputs, {self.read} read, {self.inputs - self.read} "
            f"refused, slowest {self.slowest:.2f} s, {self.memory / 1e6:.1f} MB at most"
        )


def fuzz_all(inputs: dict[str, int]) -> list[Figures]:
    """Some inputs of each format, in one process."""
    return [
        Figures(
            one["name"], one["inputs"], one["counts"].get("read", 0), one["slowest"], one["memory"]
        )
        for one in _batch(",".join(inputs), 0, ",".join(map(str, inputs.values())))
    ]


def fuzz(name: str, inputs: int, first: int = 0) -> Figures:
    """Read that many inputs of a format; AssertionError with the first failures if any."""
    total, read, slowest, memory = 0, 0, 0.0, 0
    for begin in range(first, first + inputs, BATCH):
        count = min(BATCH, first + inputs - begin)
        (found,) = _batch(name, begin, str(count))
        total += found["inputs"]
        read += found["counts"].get("read", 0)
        slowest, memory = max(slowest, found["slowest"]), max(memory, found["memory"])
    assert total == inputs
    assert memory < MEMORY + (32 << 20)
    return Figures(name, total, read, slowest, memory)


def _batch(names: str, first: int, counts: str) -> list[Any]:
    with tempfile.TemporaryDirectory(dir=_quick_folder()) as folder:
        arguments = [names, str(first), counts, folder]
        done = subprocess.run(
            [sys.executable, "-m", "tests.reliability.fuzzing", *arguments],
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            text=True,
            check=False,
        )
        at = Path(folder, "number")
        number = at.read_text().strip() if at.exists() else "none"
    if done.returncode == -signal.SIGALRM:
        raise AssertionError(f"{number} took longer than allowed")
    if done.returncode != 0:
        raise AssertionError(
            f"{number} ended the process with {done.returncode}: {done.stderr[-2000:]}"
        )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    failures = [one for figures in found for one in figures["failures"]]
    if failures:
        raise AssertionError("\n".join(failures))
    return found


def _quick_folder() -> str | None:
    """Memory that looks like a disk, where there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
