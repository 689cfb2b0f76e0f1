"""Averaging of linear models: their weights, and standardised coefficients."""

from __future__ import annotations

import numpy as np

from apmax.linear.design import Design
from apmax.linear.platt import centre_and_spread
from apmax.splits import standard_error
from apmax.validation import Floats, shares

TEMPERATURE = 4 / 3
"""Standard errors below the best at which a model weighs 1/e of it."""
CLEARLY_WORSE = 4 / 3
"""Standard errors below the best at which a model is left out. Of five folds, a standard error is
1.5 times that of independent values, so this is two of those."""
CANCELLED = 1e-9
"""Deviation of a mean of standardised models below which they cancel out but for rounding."""


def weigh_by_score(scores: Floats, test_share: float) -> Floats:
    r"""Weight models by their AP on the same folds; `scores` has shape (models, folds).

    With the mean difference δ of each model to the best, fold by fold, and se the median of the
    positive standard errors of these differences,

    .. math:: p_k \propto \exp\frac{-3\,\delta_k}{4\,\mathrm{se}}, \quad
              p_k = 0 \text{ if } \delta_k > \tfrac43\,\mathrm{se}_k.

    A standard error of few folds is often too small by chance, so se_k is at least the median
    standard error of the gains over the first model. With a single fold, the best model has all
    the weight. The weights sum to 1.
    """
    best = int(np.argmax(scores.mean(axis=1)))
    behind, errors = mean_and_error(scores[best] - scores, test_share)
    scale = TEMPERATURE * float(np.median(errors[errors > 0])) if errors.any() else 0.0
    weights = np.exp(-behind / scale) if scale > 0 else np.ones(behind.size)
    _, of_gains = mean_and_error(scores - scores[0], test_share)
    least = float(np.median(of_gains[of_gains > 0])) if of_gains.any() else 0.0
    weights[behind > CLEARLY_WORSE * np.maximum(errors, least)] = 0.0
    return np.asarray(weights / weights.sum())


def mean_and_error(differences: Floats, test_share: float) -> tuple[Floats, Floats]:
    """Return the mean over the folds, the last axis, and its standard error (0 for one fold)."""
    return differences.mean(axis=-1), np.nan_to_num(standard_error(differences, test_share))


def gains_over_first(scores: Floats, test_share: float) -> bool:
    """Return whether the best model beats the first by more than a standard error."""
    best = int(np.argmax(scores.mean(axis=1)))
    gain, error = mean_and_error(scores[best] - scores[0], test_share)
    return bool(gain > error)


def standardised(
    design: Design, w: Floats, weight: Floats | None, least_spread: float = 0.0
) -> Floats:
    """Return w for the features as given, with scores of mean 0 and deviation 1.

    The result is zero if the deviation of the scores of w is at most `least_spread`.
    """
    margins = design.margins(w)
    centre, spread = centre_and_spread(margins, shares(weight, margins.size))
    if spread <= least_spread:
        return np.zeros(w.size)
    scaled = design.unscaled(w) / spread
    scaled[-1] -= centre / spread
    return scaled
