"""Averaging of linear models: their weights, and standardised coefficients."""

from __future__ import annotations

import numpy as np

from apmax.linear.design import Design
from apmax.linear.platt import centre_and_spread
from apmax.validation import Floats, shares

TEMPERATURE = 2.0
"""Standard errors below the best at which a model weighs 1/e of it."""
NEGLIGIBLE = 1e-3
"""Share of the best model's weight below which a model is left out."""


def weigh_by_gain(scores: Floats, baseline: Floats) -> Floats:
    r"""Weight models by their AP on the same folds.

    With the mean gain ḡ of each model over the baseline, fold by fold, and se the median of the
    positive standard errors of these gains,

    .. math:: p_k \propto \exp\frac{\bar g_k - \max_l \bar g_l}{2\,\mathrm{se}}.

    With a single fold, the best model has all the weight.

    `scores` has shape (models, folds), `baseline` (folds,). The weights sum to 1.
    """
    gains, errors = _gains(scores, baseline)
    scale = TEMPERATURE * float(np.median(errors[errors > 0])) if errors.any() else 0.0
    behind = gains.max() - gains
    weights = np.exp(-behind / scale) if scale > 0 else (behind == 0).astype(np.float64)
    weights[weights < NEGLIGIBLE] = 0.0
    return np.asarray(weights / weights.sum())


def _gains(scores: Floats, baseline: Floats) -> tuple[Floats, Floats]:
    """Return the mean gain over the baseline and its standard error (0 for one fold)."""
    gains = scores - baseline
    folds = gains.shape[1]
    spread = gains.std(axis=1, ddof=1) if folds > 1 else np.zeros(gains.shape[0])
    return gains.mean(axis=1), spread / np.sqrt(folds)


def standardised(design: Design, w: Floats, weight: Floats | None) -> Floats:
    """Return w for the features as given, with scores of mean 0 and deviation 1.

    The result is zero if all scores of w are equal.
    """
    margins = design.margins(w)
    centre, spread = centre_and_spread(margins, shares(weight, margins.size))
    if not spread:
        return np.zeros(w.size)
    scaled = design.unscaled(w) / spread
    scaled[-1] -= centre / spread
    return scaled
