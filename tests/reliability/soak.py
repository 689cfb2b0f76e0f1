"""How long the tests of `make soak` take, and where their figures are stored.

APMAX_SOAK_MINUTES, 60 by default, scales all of them.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

MINUTES = float(os.environ.get("APMAX_SOAK_MINUTES", "60"))
RESULTS = Path(__file__).parents[2] / "docs" / "results" / "reliability.json"


def scaled(count: int) -> int:
    """Return how much of a full run of an hour to do; at least one."""
    return max(1, round(count * min(1.0, MINUTES / 60)))


def record(promise: str, figure: str) -> None:
    """Store what the running test measured for the table of docs/reliability.md."""
    test = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0].rpartition("/")[2]
    store(promise, test, figure)


def store(promise: str, test: str, figure: str) -> None:
    """Store a line of the table."""
    import fcntl  # not on Windows, where `make soak` does not run

    today = datetime.now(UTC).date().isoformat()
    with RESULTS.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # tests of other processes record here, too
        stored = json.load(file)
        stored[promise] = {"test": test, "figure": figure, "date": today}
        file.seek(0)
        file.write(json.dumps(dict(sorted(stored.items())), indent=1, ensure_ascii=False) + "\n")
        file.truncate()
