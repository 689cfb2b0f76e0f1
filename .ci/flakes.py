"""Run the test suite many times in a row, on a machine that busy loops load.

``python .ci/flakes.py 20`` stops at the first failure. Each run has four processes per core, beside
one busy loop per core. With ``--pull``, each run is that of the newest commit. At the end, or on
Ctrl-C, the number of runs is stored for the table of docs/reliability.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing import Process
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.reliability.soak import store, version_of_source  # noqa: E402

ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "",  # as in the Makefile
}
CORES = os.cpu_count() or 1
SUITE = [sys.executable, "-m", "pytest", "-q", "-n", str(4 * CORES), "--dist", "worksteal"]


def loop() -> None:
    """Keep a core busy."""
    while True:
        pass


def main(runs: int, pull: bool) -> int:
    """Return the exit code of the first suite that fails, or 0."""
    for _ in range(CORES):
        Process(target=loop, daemon=True).start()
    versions: list[str] = []
    with suppress(KeyboardInterrupt):
        while len(versions) < runs:
            if pull:
                subprocess.run(["git", "pull", "--quiet", "--ff-only"], cwd=ROOT, check=True)
            begin = time.monotonic()
            code = subprocess.run(SUITE, cwd=ROOT, env=ENVIRONMENT, check=False).returncode
            minutes = (time.monotonic() - begin) / 60
            print(f"run {len(versions) + 1}: exit code {code}, {minutes:.1f} minutes", flush=True)
            if code:
                return code
            versions.append(version_of_source())
    if not versions:
        return 1
    load = f"{4 * CORES} processes of tests and {CORES} busy loops on {CORES} cores"
    present = versions.count(versions[-1])
    runs_in_a_row = f"{len(versions)} runs in a row, {present} with this source, no failure"
    promise = "the test suite passes while busy loops take all cores"
    store(promise, "flakes.py", f"{runs_in_a_row}; {load}")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=20)
    parser.add_argument("--pull", action="store_true")
    arguments = parser.parse_args()
    raise SystemExit(main(arguments.runs, arguments.pull))
