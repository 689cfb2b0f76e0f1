"""A time budget for a search: which models and how many rows fit into it."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs

from apmax.errors import ParameterError
from apmax.splits import DEFAULT_FOLDS
from apmax.tabular.library import ADDITIVE, STACK
from apmax.tabular.search import Search

logger = logging.getLogger("apmax")
PILOT_ROWS = 250, 1000
"""Rows of the fits that predict how long the others take."""
MOST_GROWTH = 1.1
"""Largest exponent of the number of rows in the predicted time of a fit."""
LEAST_ROWS = 5000
"""Number of rows below which models are left out rather than more rows."""
RESERVE = 0.8
"""Share of the remaining time that is planned for."""
PILOT_SHARE = 0.35
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

    @property
    def used(self) -> float:
        """Return the share of the budget that is used up."""
        return 0.0 if self.seconds is None else 1.0 - self.left / self.seconds

    def plan(self, predicted: Mapping[str, Callable[[int], float]], rows: int) -> Plan:
        """Choose models and rows; `predicted` gives the seconds of a model by number of rows.

        The most expensive models are left out until the others can have LEAST_ROWS rows. The
        first model is never left out.
        """
        models = list(predicted)
        time_left = RESERVE * self.left

        def seconds(rows: int) -> float:
            return sum(predicted[name](rows) for name in models)

        enough = min(rows, LEAST_ROWS)
        while len(models) > 1 and seconds(enough) > time_left:
            models.remove(max(models[1:], key=lambda name: predicted[name](enough)))
        sizes = np.unique(np.geomspace(min(rows, PILOT_ROWS[1]), rows, 50).astype(int))
        fitting = [int(size) for size in sizes if seconds(int(size)) <= time_left]
        if not fitting:
            needed = seconds(int(sizes[0]))
            spent = (self.seconds or 0.0) - self.left
            raise ParameterError(
                f"`time_budget` = {self.seconds:g} s is too small for one model: {models[0]} takes "
                f"about {needed:.2g} s on {sizes[0]} rows, after {spent:.2g} s of trial fits; use "
                f"{np.ceil(4 * (needed + spent)):g} s or more"
            )
        return Plan(models, fitting[-1])


def planned(
    names: list[str], search: Search, budget: Budget, needed: str | None = None
) -> tuple[list[str], Search]:
    """Leave out models and sample rows if the search would exceed the budget; warn about it.

    Two fits of each model to few rows predict how long the others take. The model `needed`, or
    else the simplest one, is never left out.
    """
    n, folds = search.data.positive.size, len(search.splits)
    predicted: dict[str, Callable[[int], float]] = {}
    order = sorted(names, key=lambda name: (name != needed, name == ADDITIVE))
    for name in order:  # the first is never left out, and the most expensive one comes last
        if name != STACK and (budget.used < PILOT_SHARE or not predicted):
            fits = (
                folds / DEFAULT_FOLDS if name == ADDITIVE else folds * 0.8 + (not search.partition)
            )
            try:
                search.pilot(name, min(PILOT_ROWS[0], n))  # compiles what is not compiled yet
                few, more = (search.pilot(name, min(size, n)) for size in PILOT_ROWS)
            except ValueError as error:  # of a sample that is too small for the model
                logger.info("no prediction of the time of %s: %s", name, error)
                continue
            fits /= 1 if name == ADDITIVE else min(effective_n_jobs(search.n_jobs), folds)
            predicted[name] = partial(_extrapolated, fits * few, fits * more)
    plan = budget.plan(predicted, n)
    dropped = [name for name in names if name != STACK and name not in plan.models]
    kept = [name for name in names if name not in dropped]
    message = f"`time_budget` = {budget.seconds:g} s"
    if dropped:
        warnings.warn(f"{message} leaves no time for {', '.join(dropped)}", stacklevel=4)
    if plan.rows == n:
        return kept, search
    warnings.warn(
        f"{message} is short for {n} rows: fitted to a weighted sample of {plan.rows}", stacklevel=4
    )
    return kept, search.sampled(plan.rows)


def _extrapolated(few: float, more: float, rows: int) -> float:
    """Return the seconds for a number of rows from those for each of PILOT_ROWS."""
    ratio = PILOT_ROWS[1] / PILOT_ROWS[0]
    growth = np.clip(np.log(max(more, 1e-9) / max(few, 1e-9)) / np.log(ratio), 0.5, MOST_GROWTH)
    return float(more * max(1.0, rows / PILOT_ROWS[1]) ** growth)
