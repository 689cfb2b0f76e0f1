"""Run the test suite many times while busy loops take all cores.

``python .ci/flakes.py 20`` stops at the first failure. In the end, the number of runs is stored for
the table of docs/reliability.md.
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

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
SUITE = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal"]


def loop() -> None:
    """Keep a core busy."""
    while True:
        pass


def main(runs: int) -> int:
    """Return the exit code of the first suite that fails, or 0."""
    for _ in range(os.cpu_count() or 1):
        Process(target=loop, daemon=True).start()
    for number in range(1, runs + 1):
        begin = time.monotonic()
        code = subprocess.run(SUITE, cwd=ROOT, env=ENVIRONMENT, check=False).returncode
        minutes = (time.monotonic() - begin) / 60
        print(f"run {number}: exit code {code}, {minutes:.1f} minutes", flush=True)
        if code:
            return code
    promise = "the test suite passes while busy loops take all cores"
    store(promise, "flakes.py", f"{runs} runs in a row, no failure")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
