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
from apmax.tabular.library import ADDITIVE
from apmax.tabular.search import Search

logger = logging.getLogger("apmax")
PILOT_ROWS = 250, 1000, 4000
"""Rows of the fits that predict how long the others take."""
EXCESS = 0.1
"""Exponent by which predicted times grow beyond a linear function of the number of rows."""
LEAST_GROWTH = 0.25
"""Least share of the time of a pilot that grows with the number of rows."""
LEAST_ROWS = 5000
"""Number of rows below which models are left out rather than more rows."""
SMALL_ENTRIES, LEAST_SECONDS = 250_000, 20.0
"""Entries of a table, and least budget, with which models are fitted until the time is used up:
trial fits would take as long as the fits."""
RESERVE = 0.8
"""Share of the remaining time that is planned for."""
PILOT_SHARE = 0.35
"""Share of the budget after which no further model is tried on a few rows."""
LARGE_PILOTS = 0.15
"""Share of the budget that the pilots with most rows may take."""
LAST_RESORT = 0.2
"""Share of the budget that one model may take if the trial fits have used it up."""


class Plan(NamedTuple):
    """The models to fit, and the number of rows."""

    models: list[str]
    rows: int


class OutOfTime(Exception):
    """Ends the fit of a model when the budget is used up."""


class TooShortError(ParameterError):
    """A budget is too small for one model; `enough` is a number of seconds that is not."""

    def __init__(self, message: str, enough: float) -> None:
        super().__init__(message)
        self.enough = enough


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

    def check(self) -> None:
        """Raise OutOfTime if the budget is used up."""
        if self.left < 0:
            raise OutOfTime

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
        needed = seconds(int(sizes[0]))
        if not fitting and needed <= LAST_RESORT * (self.seconds or 0.0):
            return Plan(models, int(sizes[0]))  # the trial fits took longer than expected
        if not fitting:
            spent = (self.seconds or 0.0) - self.left
            seconds_enough = float(np.ceil(4 * (needed + spent)))
            raise TooShortError(
                f"the time limit is too small for one model: {models[0]} takes "
                f"about {needed:.2g} s on {sizes[0]} rows, after {spent:.2g} s of trial fits; use "
                f"{seconds_enough:g} s or more",
                seconds_enough,
            )
        return Plan(models, fitting[-1])


def planned(
    names: list[str], search: Search, budget: Budget, needed: str | None = None
) -> tuple[dict[str, float], Search]:
    """Plan a search, and sample rows if it would exceed the budget, with a warning.

    Some fits of each model to few rows predict how long the others take. The model `needed`, or
    else the simplest one, comes first. Returns the predicted seconds of the models in the order in
    which to fit them: those of the plan, and then the others, for which there may be time if the
    predictions are too high. Small tables are not planned: their models have 0 seconds.
    """
    n = search.data.positive.size
    small = n <= LEAST_ROWS and search.data.matrix.size <= SMALL_ENTRIES
    if small and (budget.seconds or 0.0) >= LEAST_SECONDS:
        return dict.fromkeys(sorted(names, key=lambda name: name == ADDITIVE), 0.0), search
    predicted = _predicted(names, search, budget, needed)
    plan = budget.plan(predicted, n)
    seconds = {name: predicted[name](plan.rows) for name in predicted}
    order = sorted(seconds, key=lambda name: (name not in plan.models, name == ADDITIVE))
    if plan.rows < n:
        warnings.warn(
            f"the time limit is short for {n:,} rows: the models are fitted to, and tested on, a "
            f"weighted sample of {plan.rows:,}",
            stacklevel=4,
        )
        search = search.sampled(plan.rows)
    return {name: seconds[name] for name in order}, search


def _predicted(
    names: list[str], search: Search, budget: Budget, needed: str | None
) -> dict[str, Callable[[int], float]]:
    """Return the seconds of each model by number of rows."""
    n, folds = search.data.positive.size, len(search.splits)
    few, more, most = (min(size, n) for size in PILOT_ROWS)
    pilots: dict[str, list[tuple[int, float]]] = {}
    for name in sorted(names, key=lambda name: (name != needed, name == ADDITIVE)):
        if pilots and budget.used > PILOT_SHARE:
            break
        try:
            search.pilot(name, few)  # compiles what is not compiled yet
            pilots[name] = [(rows, search.pilot(name, rows)) for rows in (few, more)]
        except ValueError as error:  # of a sample that is too small for the model
            logger.info("no prediction of the time of %s: %s", name, error)
    cost = sum(_extrapolated(1.0, of_model, most) for of_model in pilots.values())
    if most > more and cost <= LARGE_PILOTS * (budget.seconds or np.inf):
        for name, of_model in pilots.items():
            of_model.append((most, search.pilot(name, most)))
    fits = folds * 0.8 + (not search.partition)
    fits /= min(effective_n_jobs(search.n_jobs), folds)
    return {
        name: partial(_extrapolated, folds / DEFAULT_FOLDS if name == ADDITIVE else fits, of_model)
        for name, of_model in pilots.items()
    }


def _extrapolated(fits: float, pilots: list[tuple[int, float]], rows: int) -> float:
    """Return the seconds of so many fits to a number of rows, from the last two pilots."""
    (size_before, before), (size, seconds) = pilots[-2:]
    further = max(0, rows - size)
    growth = max(seconds - before, LEAST_GROWTH * seconds) / max(size - size_before, 1)
    return float(fits * (seconds + growth * further) * max(1.0, rows / size) ** EXCESS)
