"""Scores, weights and features at the limits of double precision."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apmax import (
    AdditiveAPClassifier,
    APClassifier,
    APClassifierCV,
    StochasticAPClassifier,
    average_precision,
    operating_point,
    surrogate_ap,
)
from apmax.errors import NonFiniteError, WeightError

MILLION = 10**6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = X[:, 0] + RNG.normal(size=200) > 0.8


def test_a_million_identical_scores_have_the_precision_of_the_base_rate() -> None:
    y, scores = np.arange(MILLION) % 1000 == 0, np.full(MILLION, 0.3)
    assert average_precision(y, scores) == pytest.approx(1e-3, rel=1e-12)
    assert operating_point(y, scores, recall=0.5) == pytest.approx((0.3, 1e-3, 1.0, 1.0))
    for surrogate in ("squared_hinge", "logistic"):
        found = surrogate_ap(scores, y, surrogate=surrogate)
        assert found.value == pytest.approx(1e-3, rel=1e-9)
        np.testing.assert_allclose(found.gradient[y], found.gradient[y][0], rtol=1e-9)
        np.testing.assert_allclose(found.gradient[~y], found.gradient[~y][0], rtol=1e-9)
        assert found.gradient[y].sum() == pytest.approx(-found.gradient[~y].sum(), rel=1e-9)


def exact_average_precision(y: list[bool], scores: list[int], weight: list[float]) -> Fraction:
    """Equation (1) in rational numbers."""
    rows = list(zip(y, scores, map(Fraction, weight), strict=True))
    positives = [(score, w) for positive, score, w in rows if positive]
    total = Fraction(0)
    for score, w in positives:
        above = sum((v for s, v in positives if s >= score), Fraction(0))
        total += w * above / sum((v for _, s, v in rows if s >= score), Fraction(0))
    return total / sum((w for _, w in positives), Fraction(0))


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 9), st.floats(-48, 48)), min_size=1, max_size=30
    ),
    st.sampled_from([1e-252, 1e-100, 1.0, 1e200, 1e252]),
)
def test_weights_from_1e_minus_300_to_1e300_count_as_rational_numbers(
    rows: list[tuple[bool, int, float]], unit: float
) -> None:
    y, scores = [True, *(row[0] for row in rows)], [5, *(row[1] for row in rows)]
    weight = [unit, *(unit * 10.0 ** row[2] for row in rows)]
    exact = exact_average_precision(y, scores, weight)
    found = average_precision(y, scores, sample_weight=weight)
    assert found == pytest.approx(float(exact), rel=1e-12)


LINEAR = [APClassifier(), StochasticAPClassifier(max_iter=60, random_state=0), APClassifierCV(cv=2)]


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e200, 1e307], ids=str)
@pytest.mark.parametrize("model", LINEAR, ids=str)
def test_linear_models_refuse_features_whose_squares_are_not_representable(
    model: Any, scale: float
) -> None:
    with pytest.raises(NonFiniteError, match=r"(under|over)flows: (multiply|divide) the feature"):
        model.fit(X * scale, Y)


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e200, 1e299], ids=str)
def test_additive_models_take_features_from_subnormal_to_1e300(scale: float) -> None:
    model, plain = (AdditiveAPClassifier(cv=2, interactions=1) for _ in range(2))
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        found = model.fit(X * scale, Y).decision_function(X * scale)
        expected = plain.fit(X, Y).decision_function(X)
    assert np.isfinite(found).all()
    # 1e-320 leaves three digits.
    np.testing.assert_allclose(found, expected, atol=(0.3 if scale < 1e-300 else 1e-6))


@pytest.mark.parametrize("weight", [1e-300, 1e300, 1.7e308], ids=str)
@pytest.mark.parametrize("model", [*LINEAR, AdditiveAPClassifier(cv=2, interactions=0)], ids=str)
def test_equal_weights_of_any_size_give_finite_scores_and_nearly_the_ap_without_weights(
    model: Any, weight: float
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = average_precision(Y, model.fit(X, Y).decision_function(X))
        scores = model.fit(X, Y, np.full(Y.size, weight)).decision_function(X)
    assert np.isfinite(scores).all()
    assert average_precision(Y, scores) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("unit", [1e-252, 1.0, 1e252], ids=str)
@pytest.mark.parametrize("model", [*LINEAR, AdditiveAPClassifier(cv=2, interactions=0)], ids=str)
def test_weights_of_very_different_sizes_give_finite_scores(model: Any, unit: float) -> None:
    for seed in range(3):
        weight = unit * 10.0 ** np.random.default_rng(seed).uniform(-48, 48, Y.size)
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            scores = model.fit(X, Y, weight).decision_function(X)
        assert np.isfinite(scores).all()
        assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("model", [*LINEAR, AdditiveAPClassifier(cv=2, interactions=0)], ids=str)
def test_weights_beyond_the_range_are_refused(model: Any) -> None:
    weight = np.where(np.arange(Y.size) == 0, 1e-101, 1.0)
    with pytest.raises(WeightError, match="too wide"):
        model.fit(X, Y, weight)


@pytest.mark.parametrize("weight", [5e-324, 1e-300, 1e300, 1.7e308], ids=str)
def test_fits_of_files_refuse_weights_whose_sums_of_products_are_not_representable(
    weight: float, tmp_path: Path
) -> None:
    table = pd.DataFrame(X, columns=list("abc")).assign(y=Y, w=weight)
    table.to_parquet(tmp_path / "data.parquet")
    with pytest.raises(WeightError, match="divide all weights by their mean"):
        APClassifier().fit_files(tmp_path / "data.parquet", "y", sample_weight="w")
