"""Full-batch fits by L-BFGS: logistic regression and the exact AP objective.

All work on a :class:`~apmax.linear.design.Design`, so on scaled features without a copy of X. The
parameters are (w, b); the intercept b is never penalised.
"""

from __future__ import annotations

import numpy as np

from apmax.lbfgs import Minimum, Objective, minimise
from apmax.linear.design import Design
from apmax.objective.exact import evaluate_margins
from apmax.objective.surrogates import Surrogate
from apmax.validation import Floats, Mask, shares


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
