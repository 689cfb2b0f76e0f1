"""The mean of several linear models: what each of them weighs, and how they are made alike."""

from __future__ import annotations

import numpy as np

from apmax.linear.design import Design
from apmax.linear.platt import centre_and_spread
from apmax.validation import Floats, shares

DOUBT = 2.0
"""Standard errors by which a model may be worse than the best and weigh 1/e as much."""
NEGLIGIBLE = 1e-3
"""Of the best one's weight; below, a model is left out, and need not be fitted."""

STANDARD_ERRORS = 0.5
"""How many of them a gain must exceed: choices within the noise stay near logistic regression."""


def weigh(scores: Floats, standard: Floats) -> Floats:
    r"""Weights of models by their AP on the same folds, which sum to 1.

    With the mean gain ḡ of each over the `standard`, fold by fold, and the standard error of a
    typical one, the median of those above 0,

    .. math:: p_k \propto \exp\frac{\bar g_k - \max_l \bar g_l}{2\,\mathrm{se}}.

    Differences within the noise of the folds hardly count, and clear ones decide. One fold
    tells nothing of its noise: the best model has all the weight.

    Parameters
    ----------
    scores : (models, folds).
    standard : (folds,), AP of what they are measured against.
    """
    gains, errors = _gains(scores, standard)
    doubt = DOUBT * float(np.median(errors[errors > 0])) if errors.any() else 0.0
    behind = gains.max() - gains
    weights = np.exp(-behind / doubt) if doubt > 0 else (behind == 0).astype(np.float64)
    weights[weights < NEGLIGIBLE] = 0.0
    return np.asarray(weights / weights.sum())


def all_on_the_surest(scores: Floats, standard: Floats) -> Floats:
    """All weight on the gain that, less its doubt, is largest; on the first if none is above 0."""
    gains, errors = _gains(scores, standard)
    sure = gains - STANDARD_ERRORS * errors
    sure[0] = 0.0  # the logistic regression that gains are measured against
    weights = np.zeros(sure.size)
    weights[int(np.argmax(sure))] = 1.0
    return weights


def _gains(scores: Floats, standard: Floats) -> tuple[Floats, Floats]:
    """Mean gain over the standard and its standard error, which is 0 for one fold."""
    gains = scores - standard
    folds = gains.shape[1]
    spread = gains.std(axis=1, ddof=1) if folds > 1 else np.zeros(gains.shape[0])
    return gains.mean(axis=1), spread / np.sqrt(folds)


def standardised(design: Design, w: Floats, weight: Floats | None) -> Floats:
    """w for features as given, with scores of mean 0 and deviation 1 on the design's rows.

    All zeros if the scores of w are all the same.
    """
    margins = design.margins(w)
    centre, spread = centre_and_spread(margins, shares(weight, margins.size))
    if not spread:
        return np.zeros(w.size)
    alike = design.unscaled(w) / spread
    alike[-1] -= centre / spread
    return alike
