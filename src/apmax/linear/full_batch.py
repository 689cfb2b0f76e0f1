"""Full-batch fits by L-BFGS: logistic regression and the exact AP objective.

All work on a :class:`~apmax.linear.design.Design`, so on scaled features without a copy of X. The
parameters are (w, b); the intercept b is never penalised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from apmax.interrupts import interrupted
from apmax.linear.design import Design
from apmax.objective.exact import evaluate_margins
from apmax.objective.surrogates import Surrogate
from apmax.validation import Floats, Mask, shares

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


def fit_logistic(
    design: Design,
    positive: Mask,
    weight: Floats | None,
    *,
    C: float,
    total: float,
    start: Floats | None = None,
    least_gain: float = 64 * float(np.finfo(np.float64).eps),
) -> Minimum:
    """Fit logistic regression with scikit-learn's C and stopping rule; `total` is Σ weights."""
    objective = logistic_objective(design, positive, weight, 1 / (2 * C * total))
    first = np.zeros(design.parameters) if start is None else start
    return minimise(objective, first, max_iter=1000, tol=1e-4, least_gain=least_gain)


def logistic_objective(
    design: Design, positive: Mask, weight: Floats | None, penalty: float
) -> Objective:
    """Return mean log-loss + penalty·‖w‖²; scikit-learn's C is 1 / (2 · penalty · Σ weights)."""
    from apmax.linear._logloss import log_loss

    share = shares(weight, positive.size)
    slopes = np.empty(positive.size)

    def objective(w: Floats) -> tuple[float, Floats]:
        value = log_loss(design.margins(w), positive, share, slopes)
        gradient = design.vjp(slopes)
        gradient[:-1] += 2.0 * penalty * w[:-1]
        return float(value + penalty * (w[:-1] @ w[:-1])), gradient

    return objective


def relative_penalty(alpha: float, anchor: Floats) -> float:
    """Return alpha / ‖w_anchor‖², so that alpha means the same on any data; alpha if that is 0."""
    return alpha / (float(anchor[:-1] @ anchor[:-1]) or 1.0)


def ap_objective(
    design: Design,
    positive: Mask,
    weight: Floats | None,
    *,
    surrogate: Surrogate,
    gamma: float,
    penalty: float,
    anchor: Floats,
) -> Objective:
    """Return −ÂP of the scores σ(z) + penalty·‖w − anchor‖², with a free intercept."""

    def objective(w: Floats) -> tuple[float, Floats]:
        value, slopes = evaluate_margins(design.margins(w), positive, weight, surrogate, gamma)
        gradient = design.vjp(-slopes)
        away = w[:-1] - anchor[:-1]
        gradient[:-1] += 2.0 * penalty * away
        return -value + penalty * float(away @ away), gradient

    return objective


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
    was pressed.
    """
    last: list[tuple[Floats, float, Floats]] = []

    def remember(w: Floats) -> tuple[float, Floats]:
        value, gradient = objective(w)
        last[:] = [(w.copy(), value, gradient)]
        return value, gradient

    def callback(w: Floats) -> None:
        if each_iteration is not None:
            at, value, gradient = last[0]
            if not np.array_equal(at, w):
                value, gradient = objective(w)
            each_iteration(w, value, gradient)
        if interrupted():
            raise StopIteration

    options = {
        "maxiter": max_iter,
        "gtol": tol,
        "ftol": least_gain,
        "maxcor": _corrections(start.size),
    }
    found = minimize(
        remember, start, jac=True, method="L-BFGS-B", callback=callback, options=options
    )
    if interrupted():
        return Minimum(found.x, found.nit, False, True, "interrupted: kept the last iteration")
    message = {0: "converged", 1: f"stopped at max_iter = {max_iter}"}.get(
        found.status, f"stopped by the line search ({str(found.message).lower()})"
    )
    # A line search that cannot improve further has reached the precision of the objective.
    converged = found.status == 0 or (found.status != 1 and found.nit > 0)
    return Minimum(found.x, found.nit, converged, False, message)


def _corrections(parameters: int) -> int:
    least, most = CORRECTIONS
    return max(least, min(most, parameters, MAX_REMEMBERED // parameters))
