"""Run the test suite many times while busy loops take all cores.

``python .ci/flakes.py 20`` stops at the first failure. After each run, the number of runs without
a failure is stored for the table of docs/reliability.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from multiprocessing import Process
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.reliability.soak import store  # noqa: E402

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def loop() -> None:
    """Keep a core busy."""
    while True:
        pass


def main(runs: int) -> int:
    """Return the exit code of the first suite that fails, or 0."""
    loops = [Process(target=loop, daemon=True) for _ in range(os.cpu_count() or 1)]
    for one in loops:
        one.start()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto"]
    for done in range(1, runs + 1):
        begin = time.monotonic()
        code = subprocess.run(
            command, cwd=ROOT, env=os.environ | ONE_THREAD, check=False
        ).returncode
        minutes = (time.monotonic() - begin) / 60
        print(f"run {done}: exit code {code}, {minutes:.1f} minutes", flush=True)
        if code:
            return code
        store(
            "the test suite passes while busy loops take all cores",
            "flakes.py",
            f"{done} runs in a row, 0 failures",
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1])))
