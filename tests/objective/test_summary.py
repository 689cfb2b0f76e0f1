"""ÂP of scores σ(z) from moments, against the pairwise oracle."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from apmax.objective._summary import MAX_GAMMA, LogisticSummary
from apmax.objective.exact import evaluate_margins
from apmax.objective.surrogates import LOGISTIC, resolve
from apmax.validation import Floats
from tests.oracle import equations

RNG = np.random.default_rng(0)
N = 400
POSITIVE = RNG.random(N) < 0.1
WEIGHT = RNG.uniform(0.01, 1, N)
MARGINS: dict[str, Floats] = {
    "spread": RNG.normal(size=N) * 2 + POSITIVE,
    "nearly equal": 1e-6 * RNG.normal(size=N) - 3,
    "equal": np.full(N, -1.0),
    "saturated": 800.0 * RNG.normal(size=N),
    "apart": np.where(POSITIVE, 9.0, -9.0),
}


@pytest.mark.parametrize("gamma", [0.3, 1.0, 20.0, MAX_GAMMA, 2 * MAX_GAMMA])
@pytest.mark.parametrize("name", MARGINS)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_value_and_slopes_equal_the_oracle(name: str, gamma: float, weight: Floats | None) -> None:
    margins = MARGINS[name]
    value, slopes = evaluate_margins(margins, POSITIVE, weight, LOGISTIC, gamma)
    scores = expit(margins.astype(np.longdouble))
    surrogate = resolve("logistic")
    expected = -equations.objective(scores, POSITIVE, surrogate, gamma, weight)
    gradient = -equations.objective_gradient(scores, POSITIVE, surrogate, gamma, weight)
    chained = gradient * scores * (1 - scores)
    assert value == pytest.approx(float(expected), rel=1e-9)
    largest = float(np.abs(gradient).max())  # terms cancel where scores are equal
    np.testing.assert_allclose(slopes, chained.astype(float), rtol=0, atol=1e-8 * largest + 1e-15)


def test_one_positive() -> None:
    value, slopes = LogisticSummary(20.0).evaluate(np.zeros(5), np.arange(5) == 2, None)
    assert value == pytest.approx(1 / 5)
    assert slopes.sum() == pytest.approx(0, abs=1e-12)
