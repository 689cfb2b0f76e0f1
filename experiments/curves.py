"""What the paper's figures show of a run: training AP along the rounds, precision on test data.

A round of one method costs the same from the first to the last, so seconds are rounds times the
CPU time of a round: the median of five more runs without a stop, on one thread, after compilation,
and without any evaluation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from apmax.metrics import precision_recall_curve
from experiments.linear_table import Key
from experiments.protocol import REPEATS, ROUNDS, Setting, ap_of, load, start
from experiments.store import Advance, Store, Unit
from apmax.validation import Floats, Mask

AT = (0, 1, 2, 3, 5, 7, *range(10, ROUNDS + 1, 10))
"""Rounds after which training AP is taken."""
RECALL = np.linspace(0, 1, 101)[1:]
"""Where precision is taken; at recall 0 there is none."""


class Curves(NamedTuple):
    """One method on one data set: a row for every repeat."""

    method: str
    data: str
    setting: Setting
    train_ap: Floats
    """(repeats, rounds of AT)."""
    precision: Floats
    """(repeats, recalls of RECALL)."""
    seconds_per_round: float


def draw_curves(
    store: Store,
    settings: Mapping[Key, Setting],
    *,
    jobs: int = 2,
    advance: Advance | None = None,
) -> dict[Key, Curves]:
    """Run every method and data set of `settings`, five times."""
    units = [
        Unit(_curves, (*key, repeat, *setting))
        for key, setting in settings.items()
        for repeat in range(REPEATS)
    ]
    found: dict[Key, dict[int, Any]] = {}
    for unit, result in store.gather(units, jobs=jobs, advance=advance):
        method, name, repeat = unit.arguments[:3]
        found.setdefault((method, name), {})[repeat] = result
    return {
        key: _gathered(*key, setting, [found[key][repeat] for repeat in range(REPEATS)])
        for key, setting in settings.items()
    }


def _gathered(method: str, name: str, setting: Setting, repeats: list[Any]) -> Curves:
    def column(entry: str) -> Floats:
        return np.array([one[entry] for one in repeats])

    seconds = float(np.median(column("seconds_per_round")))
    return Curves(method, name, setting, column("train_ap"), column("precision"), seconds)


def _curves(method: str, name: str, repeat: int, *values: float) -> dict[str, Any]:
    setting, data = Setting(*values), load(name, repeat)
    run = start(data, method, setting, repeat)
    run.draws = _in_parts(run.draws(ROUNDS))
    train_ap = []
    for at in AT:
        if at > run.rounds:
            run.advance(at - run.rounds)
        train_ap.append(ap_of(data.X, data.y, run.w[:-1]))
    scores = np.asarray(data.X_test @ run.w[:-1])

    def seconds() -> float:
        again = start(data, method, setting, repeat)
        began = time.thread_time()
        again.advance(ROUNDS)
        return time.thread_time() - began

    return {
        "train_ap": train_ap,
        "precision": precision_at(data.y_test, scores).tolist(),
        "seconds_per_round": float(np.median([seconds() for _ in range(5)])) / ROUNDS,
    }


def _in_parts(draws: Any) -> Callable[[int], Any]:
    """The draws of a run without a stop, some rounds at a time: the same run, looked at."""
    taken = 0

    def part(rounds: int) -> Any:
        nonlocal taken
        begin, taken = taken, taken + rounds
        return draws._replace(
            **{name: getattr(draws, name)[begin:taken] for name in draws._fields[1:]}
        )

    return part


def precision_at(y: Mask, scores: Floats) -> Floats:
    """The precision of the smallest number of alerts that has each recall of RECALL."""
    curve = precision_recall_curve(y, scores)
    # Recall falls along the curve: count from its end.
    place = np.searchsorted(curve.recall[::-1], RECALL - 1e-12)
    return np.asarray(curve.precision[::-1][place])
