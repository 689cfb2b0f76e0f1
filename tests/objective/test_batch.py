"""The table of logistic pairs: one exp per score where it can be, one per pair where not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from apmax.objective._batch import LOGISTIC, MAX_EXPONENT, fill_pairs, new_side


@pytest.mark.parametrize(
    "gamma", [1e-150, 0.1, 40.0, MAX_EXPONENT - 1, MAX_EXPONENT + 1, 1e6, 1e150]
)
def test_logistic_pairs_are_sigma_and_its_slope(gamma: float) -> None:
    rng = np.random.default_rng(0)
    s, side = rng.random(5), new_side(5, 9)
    s[0], side.scores[:] = 0.0, rng.random(9)
    side.scores[0] = 1.0
    fill_pairs(LOGISTIC, gamma, s, side)
    x = gamma * (side.scores[None, :] - s[:, None])
    np.testing.assert_allclose(side.values, expit(x), rtol=1e-12)
    np.testing.assert_allclose(side.slopes, gamma * expit(x) * expit(-x), rtol=1e-12, atol=1e-290)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_score_that_is_no_number_shows(bad: float) -> None:
    side = new_side(2, 3)
    side.scores[:] = [0.1, bad, 0.3]
    fill_pairs(LOGISTIC, 40.0, np.array([0.2, 0.4]), side)
    assert np.isfinite(side.values[:, [0, 2]]).all()
    assert np.isnan(side.values[:, 1]).all() or (side.values[:, 1] == 1).all()


def test_a_side_without_scores_has_no_pairs() -> None:
    side = new_side(2, 0)
    fill_pairs(LOGISTIC, 40.0, np.array([0.2, 0.4]), side)
    assert side.values.shape == (2, 0)
