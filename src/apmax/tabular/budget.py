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
PILOT_ROWS = 1000, 4000
"""Rows of the fits that predict how long the others take."""
FEW_ROWS = 250
"""Rows of a fit before them, which compiles what is not compiled yet."""
GROWTH = 1.0, 1.3
"""Limits of the exponent of the number of rows in the predicted time of a fit."""
LEAST_ROWS = 5000
"""Number of rows below which models are left out rather than more rows."""
RESERVE = 0.8
"""Share of the remaining time that is planned for."""
PILOT_SHARE = 0.35
"""Share of the budget after which no further model is tried on a few rows."""
SECOND_PILOT = 0.15
"""Share of the budget that the fits to more rows may take."""


class Plan(NamedTuple):
    """The models to fit, and the number of rows."""

    models: list[str]
    rows: int


class OutOfTime(Exception):
    """Ends the fit of a model when the budget is used up."""


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

    def check(self, name: str) -> None:
        """Raise OutOfTime if the budget is used up."""
        if self.left < 0:
            raise OutOfTime(f"`time_budget` was used up during {name}")

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
        sizes = np.unique(np.geomspace(min(rows, PILOT_ROWS[0]), rows, 50).astype(int))
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
) -> tuple[dict[str, float], Search]:
    """Leave out models and sample rows if the search would exceed the budget; warn about it.

    One or two fits of each model to few rows predict how long the others take. The model `needed`,
    or else the simplest one, is never left out. Returns the predicted seconds of each model.
    """
    n = search.data.positive.size
    predicted = _predicted(names, search, budget, needed)
    plan = budget.plan(predicted, n)
    dropped = [name for name in names if name != STACK and name not in plan.models]
    message = f"`time_budget` = {budget.seconds:g} s"
    if dropped:
        warnings.warn(f"{message} leaves no time for {', '.join(dropped)}", stacklevel=4)
    kept = {name: predicted[name](plan.rows) for name in names if name in plan.models}
    if plan.rows == n:
        return kept, search
    warnings.warn(
        f"{message} is short for {n} rows: fitted to a weighted sample of {plan.rows}", stacklevel=4
    )
    return kept, search.sampled(plan.rows)


def _predicted(
    names: list[str], search: Search, budget: Budget, needed: str | None
) -> dict[str, Callable[[int], float]]:
    """Return the seconds of each model by number of rows."""
    n, folds = search.data.positive.size, len(search.splits)
    pilots: dict[str, list[tuple[int, float]]] = {}
    for size in PILOT_ROWS:
        if pilots and 4 * sum(of_model[-1][1] for of_model in pilots.values()) > (
            SECOND_PILOT * (budget.seconds or np.inf)
        ):
            break
        for name in sorted(names, key=lambda name: (name != needed, name == ADDITIVE)):
            first = size == PILOT_ROWS[0]
            if name == STACK or (first and pilots and budget.used > PILOT_SHARE):
                continue
            try:
                if first:
                    search.pilot(name, min(FEW_ROWS, n))
                measured = min(size, n), search.pilot(name, min(size, n))
            except ValueError as error:  # of a sample that is too small for the model
                logger.info("no prediction of the time of %s: %s", name, error)
                continue
            pilots.setdefault(name, []).append(measured)
        if n <= size:
            break
    fits = folds * 0.8 + (not search.partition)
    fits /= min(effective_n_jobs(search.n_jobs), folds)
    return {
        name: partial(_extrapolated, folds / DEFAULT_FOLDS if name == ADDITIVE else fits, of_model)
        for name, of_model in pilots.items()
    }


def _extrapolated(fits: float, pilots: list[tuple[int, float]], rows: int) -> float:
    """Return the seconds of so many fits to a number of rows, from those of the pilots."""
    growth, (size, seconds) = GROWTH[0], pilots[-1]
    if len(pilots) > 1:
        ratio = max(seconds, 1e-9) / max(pilots[0][1], 1e-9)
        growth = float(np.clip(np.log(ratio) / np.log(size / pilots[0][0]), *GROWTH))
    return float(fits * seconds * max(1.0, rows / size) ** growth)
