"""The table of logistic pairs: one exp per score where possible, otherwise one per pair."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from scipy.special import expit

from apmax.objective._batch import LOGISTIC, MAX_EXPONENT, fill_pairs, new_side


@njit
def logistic_pairs(gamma, s, scores):
    side = new_side(s.size, scores.size)
    for k in range(scores.size):
        side.scores[k] = scores[k]
    fill_pairs(LOGISTIC, gamma, s, side)
    return side.values, side.slopes


@pytest.mark.parametrize(
    "gamma", [1e-150, 0.1, 40.0, MAX_EXPONENT - 1, MAX_EXPONENT + 1, 1e6, 1e150]
)
def test_logistic_pairs_are_sigma_and_its_slope(gamma: float) -> None:
    rng = np.random.default_rng(0)
    s, scores = rng.random(5), rng.random(9)
    s[0], scores[0] = 0.0, 1.0
    values, slopes = logistic_pairs(gamma, s, scores)
    x = gamma * (scores[None, :] - s[:, None])
    np.testing.assert_allclose(values, expit(x), rtol=1e-12)
    np.testing.assert_allclose(slopes, gamma * expit(x) * expit(-x), rtol=1e-12, atol=1e-290)


def test_a_score_that_is_not_a_number_stays_in_its_column() -> None:
    values, _ = logistic_pairs(40.0, np.array([0.2, 0.4]), np.array([0.1, np.nan, 0.3]))
    assert np.isfinite(values[:, [0, 2]]).all()
    assert np.isnan(values[:, 1]).all()


def test_a_side_without_scores_has_no_pairs() -> None:
    values, _ = logistic_pairs(40.0, np.array([0.2, 0.4]), np.empty(0))
    assert values.shape == (2, 0)
