"""How long the tests of `make soak` take, and where their figures are stored.

APMAX_SOAK_MINUTES, 60 by default, scales all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from apmax.atomic_files import write_file

FULL = 60
MINUTES = float(os.environ.get("APMAX_SOAK_MINUTES", FULL))
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "reliability.json"


def scaled(count: int) -> int:
    """Return how much of a full run of an hour to do; at least one."""
    return max(1, round(count * min(1.0, MINUTES / FULL)))


def record(promise: str, figure: str) -> None:
    """Store what the running test measured for the table of docs/reliability.md.

    Shortened runs print it instead.
    """
    if MINUTES < FULL:
        print(f"{promise}: {figure}")
        return
    test = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0].rpartition("/")[2]
    store(promise, test, figure)


def version_of_source() -> str:
    """Return git's name of the folder ``src``, with a + if it has uncommitted changes."""
    name, changes = (
        subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True)
        for command in (["rev-parse", "--short", "HEAD:src"], ["status", "--porcelain", "src"])
    )
    return name.stdout.strip() + "+" * bool(changes.stdout)


def store(promise: str, test: str, figure: str) -> None:
    """Store a line of the table."""
    import fcntl  # not on Windows, where `make soak` does not run

    today, source = datetime.now(UTC).date().isoformat(), version_of_source()
    folder = os.open(RESULTS.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # tests of other processes record here, too
        stored = json.loads(RESULTS.read_text("utf-8"))
        stored[promise] = {"test": test, "figure": figure, "date": today, "source": source}
        text = json.dumps(dict(sorted(stored.items())), indent=1, ensure_ascii=False) + "\n"
        write_file(RESULTS, text.encode())
    finally:
        os.close(folder)
