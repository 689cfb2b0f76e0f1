"""Run the test suite many times in a row, on a machine that busy loops load.

``python .ci/flakes.py 20`` stops at the first failure. Each run has four processes per core, beside
one busy loop per core. With ``--pull``, each run is that of the newest commit. With ``--idle``, one
run without the loops is timed. Each result is stored for the table of docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing import Process
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.reliability.soak import CODE, RESULTS, remove, store  # noqa: E402

ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "",  # as in the Makefile
}
CORES = os.cpu_count() or 1
PROMISE = "the test suite passes while busy loops take all cores"


def loop() -> None:
    """Keep a core busy."""
    while True:
        pass


def run_suite(processes: int) -> float:
    """Run all tests and return the minutes; a failure ends the program."""
    begin = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(processes), "--dist", "worksteal"]
    code = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=False).returncode
    minutes = (time.monotonic() - begin) / 60
    print(f"exit code {code}, {minutes:.1f} minutes", flush=True)
    if code:
        raise SystemExit(code)
    return minutes


def under_load(runs: int, pull: bool) -> None:
    """Run the suite so many times while busy loops take all cores.

    The runs without a failure since the code in src changed are counted, also those of earlier
    calls. A failure removes the count; Ctrl-C ends the runs and keeps it.
    """
    for _ in range(CORES):
        Process(target=loop, daemon=True).start()
    row = json.loads(RESULTS.read_text("utf-8")).get(PROMISE, {})
    done = int(row["figure"].split()[0]) if row.get("code") == CODE else 0
    with suppress(KeyboardInterrupt):
        for _ in range(runs):
            if pull:
                subprocess.run(["git", "pull", "--quiet", "--ff-only"], cwd=ROOT, check=True)
            print(f"run {done + 1}", flush=True)
            try:
                run_suite(4 * CORES)
            except SystemExit:
                remove(PROMISE)
                raise
            done += 1
    load = f"{4 * CORES} processes of tests and {CORES} busy loops on {CORES} cores"
    if done:
        store(PROMISE, "flakes.py", f"{done} runs in a row without a failure; {load}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=20)
    parser.add_argument("--pull", action="store_true")
    parser.add_argument("--idle", action="store_true")
    arguments = parser.parse_args()
    if arguments.idle:
        minutes = run_suite(CORES)
        figure = f"{minutes:.1f} minutes on {CORES} cores without other work"
        if minutes >= 6:
            raise SystemExit(f"not less than 6 minutes, so not stored: {figure}")
        store("the test suite takes less than 6 minutes", "flakes.py", figure)
    else:
        under_load(arguments.runs, arguments.pull)
