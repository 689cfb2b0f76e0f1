"""What the exact objective with its gradient costs, beside one argsort of the same scores."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from apmax import surrogate_ap
from benchmarks.timing import Line, medians, rare_positives

SETTINGS = [
    ("squared_hinge", 0.1),
    ("squared_hinge", 1.0),
    ("logistic", 0.1),
    ("logistic", 20.0),
    ("logistic", 1000.0),
]
SIZES = {10**5: 41, 10**6: 15, 10**7: 9}


def lines() -> Iterator[Line]:
    yield from _ratios_and_growth()
    yield from _wide_ranges()
    for surrogate, gamma in SETTINGS:
        yield Line(
            f"peak extra memory, arrays of n doubles, n = 10^6, {surrogate} γ={gamma:g}",
            _peak_arrays(surrogate, gamma),
            10,
        )


def _wide_ranges() -> Iterator[Line]:
    """Scores that do not lie close together: heavy tails, an outlier, weights."""
    n = 10**6
    scores, y = rare_positives(n)
    rng = np.random.default_rng(1)
    outlier = np.where(np.arange(n) == 7, 1e9, scores)
    weight = rng.random(n) + 0.5
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        ("Cauchy scores, logistic γ=20", rng.standard_cauchy(n) + y, {}),
        ("one outlier at 1e9, logistic γ=20", outlier, {}),
        ("weights, logistic γ=20", scores, {"sample_weight": weight}),
    ]
    for name, s, options in cases:
        sort, spent = medians(
            9,
            partial(np.argsort, s),
            partial(surrogate_ap, s, y, surrogate="logistic", gamma=20.0, **options),
        )
        yield Line(f"value + gradient / np.argsort, n = 10^6, {name}", spent / sort, 2.5)


def _ratios_and_growth() -> Iterator[Line]:
    seconds: dict[tuple[str, float], list[float]] = {setting: [] for setting in SETTINGS}
    for n, repeats in SIZES.items():
        scores, y = rare_positives(n)
        sides = [
            partial(surrogate_ap, scores, y, surrogate=surrogate, gamma=gamma)
            for surrogate, gamma in SETTINGS
        ]
        sort, *times = medians(repeats, partial(np.argsort, scores), *sides)
        for setting, spent in zip(SETTINGS, times, strict=True):
            seconds[setting].append(spent)
            if n == 10**6:
                surrogate, gamma = setting
                what = f"value + gradient / np.argsort, n = 10^6, {surrogate} γ={gamma:g}"
                yield Line(what, spent / sort, 2.5)
    for (surrogate, gamma), times in seconds.items():
        exponent = np.polyfit(np.log(list(SIZES)), np.log(times), 1)[0]
        yield Line(f"growth exponent 10^5 … 10^7, {surrogate} γ={gamma:g}", float(exponent), 1.15)


_MEMORY = """
import re, sys
from pathlib import Path
from apmax import surrogate_ap
from benchmarks.timing import rare_positives

def status(name):
    return int(re.search(name + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

surrogate, gamma, n = sys.argv[1], float(sys.argv[2]), 10**6
surrogate_ap(*rare_positives(1000), surrogate=surrogate, gamma=gamma)
scores, y = rare_positives(n)
Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
before = status("VmRSS")
surrogate_ap(scores, y, surrogate=surrogate, gamma=gamma)
print((status("VmHWM") - before) / (8 * n))
"""


def _peak_arrays(surrogate: str, gamma: float) -> float:
    """Growth of the resident set of a fresh process during one call: all allocators count."""
    command = [sys.executable, "-c", _MEMORY, surrogate, str(gamma)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
