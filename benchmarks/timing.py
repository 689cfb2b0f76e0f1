"""Times as ratios: this machine and its noise are on both sides of each number."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"


class Line(NamedTuple):
    """One measured number and the bar that it must keep."""

    what: str
    measured: float
    bar: float
    at_least: bool = False

    @property
    def kept(self) -> bool:
        return self.measured >= self.bar if self.at_least else self.measured <= self.bar

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        verdict = "ok" if self.kept else "MISSED"
        return f"{self.what:<72} {self.measured:>8.2f}   {sign} {self.bar:<6g} {verdict}"


def report(name: str, lines: Iterable[Line]) -> int:
    """Print lines as they come, store them, and return the number of missed bars."""
    stored, missed = [], 0
    for line in lines:
        print(line, flush=True)
        missed += not line.kept
        number = float(f"{line.measured:.4g}")
        load = {"load": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
        stored.append(line._asdict() | {"measured": number} | load)
    (RESULTS / f"{name}.json").write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
    print(f"{missed} bar(s) missed" if missed else "every bar is kept")
    return missed


def medians(
    repeats: int, *sides: Callable[[], Any], clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Median CPU seconds of each side, run in turn, there and back, after one warm-up each."""
    times = np.empty((repeats, len(sides)))
    for side in sides:
        side()
    for r in range(repeats):
        for k in range(len(sides)) if r % 2 == 0 else reversed(range(len(sides))):
            start = clock()
            sides[k]()
            times[r, k] = clock() - start
    return [float(value) for value in np.median(times, axis=0)]


def rare_positives(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal scores, 3 % positives, theirs one standard deviation higher."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.03
    return rng.normal(size=n) + positive, positive
