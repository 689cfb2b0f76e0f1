r"""Full-batch fits by L-BFGS: logistic regression and the exact AP objective.

All work on a :class:`~apmax.linear.design.Design`, so on scaled features without a copy of X,
and on parameters (w, b) whose intercept is never penalised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from apmax.linear.design import Design
from apmax.objective.exact import surrogate_ap
from apmax.objective.surrogates import Surrogate
from apmax.validation import Floats, Mask, shares

Objective = Callable[[Floats], tuple[float, Floats]]
EachIteration = Callable[[Floats, float, Floats], None]
"""(w, value, gradient) after an iteration; may raise StopIteration to end the fit."""


CORRECTIONS = 10, 40
"""Steps that L-BFGS remembers, at least and at most. A path to small alphas takes half the
iterations with 40 of them that it takes with 10 (w8a), and each is two vectors in memory."""
REMEMBERED = 1 << 22
"""Numbers beyond which, of steps and of gradients each, no more than the least is remembered."""


class Minimum(NamedTuple):
    """Where L-BFGS ended, and why."""

    w: Floats
    iterations: int
    converged: bool
    message: str


def fit_logistic(
    design: Design,
    positive: Mask,
    weight: Floats | None,
    *,
    C: float,
    total: float,
    start: Floats | None = None,
) -> Minimum:
    """Logistic regression with scikit-learn's C and stopping rule; `total` is Σ weights."""
    objective = logistic_objective(design, positive, weight, 1 / (2 * C * total))
    first = np.zeros(design.parameters) if start is None else start
    rounding = 64 * float(np.finfo(np.float64).eps)
    return minimise(objective, first, max_iter=1000, tol=1e-4, least_gain=rounding)


def logistic_objective(
    design: Design, positive: Mask, weight: Floats | None, penalty: float
) -> Objective:
    """Mean log-loss + penalty·‖w‖²; scikit-learn's C is 1 / (2 · penalty · Σ weights)."""
    from apmax.linear._logloss import log_loss

    share = shares(weight, positive.size)
    slopes = np.empty(positive.size)

    def objective(w: Floats) -> tuple[float, Floats]:
        value = log_loss(design.margins(w), positive, share, slopes)
        gradient = design.pull_back(slopes)
        gradient[:-1] += 2.0 * penalty * w[:-1]
        return float(value + penalty * (w[:-1] @ w[:-1])), gradient

    return objective


def relative_penalty(alpha: float, anchor: Floats) -> float:
    """alpha / ‖w_anchor‖², so that alpha means the same on any data; alpha if that is 0."""
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
    """−ÂP of the scores σ(z) + penalty·‖w − anchor‖², the intercept left free."""

    def objective(w: Floats) -> tuple[float, Floats]:
        scores = expit(design.margins(w))
        exact = surrogate_ap(
            scores, positive, surrogate=surrogate, gamma=gamma, sample_weight=weight
        )
        gradient = design.pull_back(-exact.gradient * scores * (1.0 - scores))
        away = w[:-1] - anchor[:-1]
        gradient[:-1] += 2.0 * penalty * away
        return -exact.value + penalty * float(away @ away), gradient

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
    """L-BFGS from `start`, until no entry of the gradient is above `tol` or an iteration gains
    less than `least_gain` of the value. With `each_iteration`, a KeyboardInterrupt keeps what
    has been reached; without, it is the caller's.
    """
    iterations: list[int] = []
    last: list[tuple[Floats, float, Floats]] = []

    def remember(w: Floats) -> tuple[float, Floats]:
        value, gradient = objective(w)
        last[:] = [(w.copy(), value, gradient)]
        return value, gradient

    reached: list[Floats] = [start]

    def callback(w: Floats) -> None:
        reached.append(w.copy())
        del reached[1:-1]
        iterations.append(1)
        if each_iteration is not None:
            at, value, gradient = last[0]
            if not np.array_equal(at, w):
                value, gradient = objective(w)
            each_iteration(w, value, gradient)

    remembered = _corrections(start.size)
    options = {"maxiter": max_iter, "gtol": tol, "ftol": least_gain, "maxcor": remembered}
    try:
        found = minimize(
            remember, start, jac=True, method="L-BFGS-B", callback=callback, options=options
        )
    except KeyboardInterrupt:
        if each_iteration is None:  # a step on the way: stop altogether
            raise
        kept = "interrupted: kept the last iteration"
        return Minimum(reached[-1], len(iterations), False, kept)
    stopped = found.status == 99 or "callback" in str(found.message).lower()
    message = {0: "converged", 1: f"stopped at max_iter = {max_iter}"}.get(
        found.status, f"stopped by the line search ({str(found.message).lower()})"
    )
    if stopped:
        return Minimum(found.x, found.nit, True, "stopped early")
    # A line search that cannot improve further has reached the precision of the objective.
    return Minimum(found.x, found.nit, found.status != 1, message)


def _corrections(parameters: int) -> int:
    least, most = CORRECTIONS
    return max(least, min(most, parameters, REMEMBERED // parameters))
