"""Learning curves of linear models: training AP by round, and precision by recall on test data.

Seconds are rounds times the CPU time of a round: the median of five further runs on one thread,
after compilation and without evaluation.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.metrics import precision_recall_curve

from apmax.validation import Floats, Mask
from experiments.linear.grid import REPEATS, ROUNDS, Key, LinearSetting, ap_of, load, start
from experiments.store import Store, Unit

AT = (0, 1, 2, 3, 5, 7, *range(10, ROUNDS + 1, 10))
"""Rounds after which training AP is computed."""
RECALL = np.linspace(0, 1, 101)[1:]
"""Where precision is computed; it is undefined at recall 0."""


Curves = dict[str, Any]
"""One method on one data set: `train_ap` and `precision` have a row for every repeat."""


def run_curves(
    store: Store, settings: Mapping[Key, LinearSetting], jobs: int = 2
) -> dict[Key, Curves]:
    """Run every method and data set of `settings`, five times."""
    units = {
        key: [Unit(_curves, (*key, repeat, *setting)) for repeat in range(REPEATS)]
        for key, setting in settings.items()
    }
    curves = {}
    for key, repeats in store.collect(units, jobs, "curves").items():
        train_ap, precision, seconds = zip(*repeats, strict=True)
        curves[key] = {
            "method": key[0],
            "data": key[1],
            "setting": settings[key]._asdict(),
            "train_ap": train_ap,
            "precision": precision,
            "seconds_per_round": float(np.median(seconds)),
        }
    return curves


def precision_at(y: Mask, scores: Floats) -> Floats:
    """Precision of the smallest number of alerts that reaches each recall of RECALL."""
    precision, recall, _ = precision_recall_curve(y, scores)
    # Recall falls along the curve, so search from its end.
    return np.asarray(precision[::-1][np.searchsorted(recall[::-1], RECALL - 1e-12)])


def _curves(method: str, name: str, repeat: int, *values: float) -> list[Any]:
    """Training AP at AT, precision at RECALL and seconds per round."""
    setting, data = LinearSetting(*values), load(name, repeat)
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

    median = float(np.median([seconds() for _ in range(5)]))
    return [train_ap, precision_at(data.y_test, scores).tolist(), median / ROUNDS]


def _in_parts(draws: Any) -> Callable[[int], Any]:
    """Serve the batches of an uninterrupted run in parts, so that stops change nothing."""
    taken = 0

    def part(rounds: int) -> Any:
        nonlocal taken
        begin, taken = taken, taken + rounds
        fields = {name: getattr(draws, name)[begin:taken] for name in draws._fields[1:]}
        return draws._replace(**fields)

    return part
