"""A time budget for a search: which models and how many rows fit into it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from apmax.errors import ParameterError
from apmax.tabular.library import ADDITIVE, STACK
from apmax.tabular.sampling import sample_rows
from apmax.tabular.search import Search

PILOT_ROWS = 1000
"""Rows of the fits that predict how long the others take."""
LEAST_ROWS = 5000
"""Number of rows below which models are left out rather than more rows."""
GROWTH = 1.1
"""Exponent of the number of rows in the time of a fit."""
RESERVE = 0.8
"""Share of the remaining time that is planned for."""
PILOT_SHARE = 0.25
"""Share of the budget after which no further model is tried on a few rows."""


class Plan(NamedTuple):
    """The models to fit, and the number of rows."""

    models: list[str]
    rows: int


class Budget:
    """Seconds that are left of a budget; None is unlimited."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.start = time.perf_counter()

    @property
    def left(self) -> float:
        """Return the seconds that are left."""
        if self.seconds is None:
            return float("inf")
        return self.seconds - (time.perf_counter() - self.start)

    def plan(self, predicted: Mapping[str, Callable[[int], float]], rows: int) -> Plan:
        """Choose models and rows; `predicted` gives the seconds of a model by number of rows.

        The most expensive models are left out until the others can have LEAST_ROWS rows. The
        simplest model is never left out.
        """
        models = list(predicted)
        time_left = RESERVE * self.left

        def seconds(rows: int) -> float:
            return sum(predicted[name](rows) for name in models)

        enough = min(rows, LEAST_ROWS)
        while len(models) > 1 and seconds(enough) > time_left:
            models.remove(max(models[1:], key=lambda name: predicted[name](enough)))
        sizes = np.unique(np.geomspace(min(rows, PILOT_ROWS), rows, 50).astype(int))
        fitting = [int(size) for size in sizes if seconds(int(size)) <= time_left]
        if not fitting:
            raise ParameterError(
                f"`time_budget` = {self.seconds:g} s is too small for one model: {models[0]} takes "
                f"about {seconds(int(sizes[0])):.2g} s on {sizes[0]} rows; use 60 s or more"
            )
        return Plan(models, fitting[-1])


def planned(names: list[str], search: Search, budget: Budget) -> tuple[list[str], Search]:
    """Leave out models and sample rows if the search would exceed the budget; warn about it.

    A fit of each model to a few rows predicts how long the others take.
    """
    assert budget.seconds is not None
    n, folds = search.data.positive.size, len(search.splits)
    rows, weight = sample_rows(search.data.positive, search.data.weight, PILOT_ROWS, search.seed)
    predicted: dict[str, Callable[[int], float]] = {}
    for name in names:
        in_time = budget.left > (1 - PILOT_SHARE) * budget.seconds
        if name != STACK and (in_time or not predicted):
            fits = 1.0 if name == ADDITIVE else folds * 0.8
            predicted[name] = partial(
                _extrapolated, fits * search.pilot(name, rows, weight), rows.size
            )
    plan = budget.plan(predicted, n)
    dropped = [name for name in names if name != STACK and name not in plan.models]
    kept = [name for name in names if name not in dropped]
    message = f"`time_budget` = {budget.seconds:g} s"
    if dropped:
        warnings.warn(f"{message} leaves no time for {', '.join(dropped)}", stacklevel=5)
    if plan.rows == n:
        return kept, search
    warnings.warn(
        f"{message} is short for {n} rows: fitted to a weighted sample of {plan.rows}", stacklevel=5
    )
    rows, weight = sample_rows(search.data.positive, search.data.weight, plan.rows, search.seed)
    return kept, search.sampled(rows, weight)


def _extrapolated(seconds: float, measured: int, rows: int) -> float:
    """Return the seconds for this number of rows, from those measured with fewer."""
    return float(seconds * max(1.0, rows / measured) ** GROWTH)
