"""Minimisation by L-BFGS that Ctrl-C stops between iterations; shared by all full-batch fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from apmax.interrupts import CooperativeInterrupt, interrupted
from apmax.validation import Floats

Objective = Callable[[Floats], tuple[float, Floats]]
EachIteration = Callable[[Floats, float, Floats], None]
"""Callback (w, value, gradient) after an iteration."""

CORRECTIONS = 10, 40
"""Least and most steps that L-BFGS remembers. A path to small alphas takes half as many iterations
with 40 as with 10 (w8a)."""
MAX_REMEMBERED = 1 << 22
"""Largest number of entries in the remembered steps before only the least are kept."""


class Minimum(NamedTuple):
    """Where L-BFGS ended, and why."""

    w: Floats
    iterations: int
    converged: bool
    interrupted: bool
    message: str


def minimise(
    objective: Objective,
    start: Floats,
    *,
    max_iter: int,
    tol: float,
    least_gain: float = 1e-9,
    each_iteration: EachIteration | None = None,
) -> Minimum:
    """Minimise by L-BFGS from `start`.

    It stops when no entry of the gradient is above `tol`, when an iteration gains less than
    `least_gain` of the value, after `max_iter` iterations, or after an iteration in which Ctrl-C
    was pressed. An objective that raises CooperativeInterrupt ends it at the last iteration.
    """
    last: list[tuple[Floats, float, Floats]] = []
    last_iterate, iterations = start, 0

    def remember(w: Floats) -> tuple[float, Floats]:
        value, gradient = objective(w)
        last[:] = [(w.copy(), value, gradient)]
        return value, gradient

    def callback(w: Floats) -> None:
        nonlocal last_iterate, iterations
        if each_iteration is not None:
            at, value, gradient = last[0]
            if not np.array_equal(at, w):
                value, gradient = objective(w)
            each_iteration(w, value, gradient)
        last_iterate, iterations = w.copy(), iterations + 1
        if interrupted():
            raise StopIteration

    options = {
        "maxiter": max_iter,
        "gtol": tol,
        "ftol": least_gain,
        "maxcor": _corrections(start.size),
    }
    kept = "interrupted: kept the last iteration"
    try:
        found = minimize(
            remember, start, jac=True, method="L-BFGS-B", callback=callback, options=options
        )
    except CooperativeInterrupt:
        return Minimum(last_iterate, iterations, False, True, kept)
    if interrupted():
        return Minimum(found.x, found.nit, False, True, kept)
    message = {0: "converged", 1: f"stopped at max_iter = {max_iter}"}.get(
        found.status, f"stopped by the line search ({str(found.message).lower()})"
    )
    # A line search that cannot improve further has reached the precision of the objective.
    converged = found.status == 0 or (found.status != 1 and found.nit > 0)
    return Minimum(found.x, found.nit, converged, False, message)


def _corrections(parameters: int) -> int:
    least, most = CORRECTIONS
    return max(least, min(most, parameters, MAX_REMEMBERED // parameters))
