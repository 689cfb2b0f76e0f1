"""Weighted samples of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from apmax import APClassifierCV, average_precision, sampling
from apmax.binary_target import BinaryTarget
from apmax.linear.base import TrainingSet
from apmax.sampling import sample_rows
from apmax.validation import Floats

RNG = np.random.default_rng(0)
N = 1000
ROWS = np.arange(N)
RARE = ROWS % 50 == 0
WEIGHT = np.where(ROWS % 7 == 0, 0.0, 1.0 + ROWS % 3)


def test_all_positives_are_kept_if_they_are_at_most_half() -> None:
    rows, weight = sample_rows(RARE, None, 100, seed=0)
    assert rows.size == 100
    assert RARE[rows].sum() == RARE.sum() == 20
    assert (weight[RARE[rows]] == 1).all()
    np.testing.assert_allclose(weight[~RARE[rows]], 980 / 80)
    rows, _ = sample_rows(RARE, None, 30, seed=0)
    assert RARE[rows].sum() == 15


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("count", [2, 30, 500, N, 10 * N])
def test_each_class_keeps_its_weight(weight: Any, count: int) -> None:
    rows, weights = sample_rows(RARE, weight, count, seed=1)
    given = np.ones(N) if weight is None else weight
    assert weights[RARE[rows]].sum() == pytest.approx(given[RARE].sum())
    assert weights[~RARE[rows]].sum() == pytest.approx(given[~RARE].sum())
    assert (given[rows] > 0).all()
    assert (np.diff(rows) > 0).all()
    assert rows.size <= min(count, N)


def test_the_seed_decides() -> None:
    first, again, other = (sample_rows(RARE, None, 100, seed)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


MANY = 3000
X = RNG.normal(size=(MANY, 3))
Y = RNG.random(MANY) < 1 / (1 + np.exp(3 - X[:, 0] - np.maximum(X[:, 1], 0)))


def training_set(weight: Floats | None = None, matrix: Any = X) -> TrainingSet:
    return TrainingSet(matrix, BinaryTarget(Y, weight, float(MANY), np.array([0, 1]), 1))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MOST_POSITIVES", 150)
    monkeypatch.setattr(sampling, "LEAST_NEGATIVES", 500)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("weight", [None, RNG.uniform(0.5, 2, MANY)], ids=["plain", "weighted"])
@pytest.mark.parametrize("matrix", [X, sp.csr_matrix(X)], ids=["dense", "CSR"])
def test_a_sample_for_the_search_keeps_the_weight_of_each_class_and_the_sample_its_total(
    weight: Any, matrix: Any
) -> None:
    sample = training_set(weight, matrix).thinned(0)
    assert np.count_nonzero(sample.positive) == 150
    assert np.count_nonzero(~sample.positive) == 750
    assert sample.X.shape == (900, 3)
    assert sample.total == MANY
    assert sample.weight is not None
    given = np.ones(MANY) if weight is None else weight
    for of_sample, of_data in ((sample.positive, Y), (~sample.positive, ~Y)):
        assert sample.weight[of_sample].sum() == pytest.approx(given[of_data].sum())


@pytest.mark.usefixtures("few")
def test_ap_of_a_sample_is_an_estimate_of_ap() -> None:
    estimates = []
    for seed in range(200):
        sample = training_set().thinned(seed)
        score = sample.X[:, 0]
        estimates.append(average_precision(sample.positive, score, sample_weight=sample.weight))
    error = np.std(estimates) / np.sqrt(200)
    assert np.mean(estimates) == pytest.approx(average_precision(Y, X[:, 0]), abs=0.005 + 3 * error)


def test_a_sample_for_the_search_has_at_least_an_eighth_of_the_negatives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "LEAST_NEGATIVES", 10)
    monkeypatch.setattr(sampling, "NEGATIVES_PER_POSITIVE", 0)
    sample = training_set().thinned(0)
    assert np.count_nonzero(~sample.positive) == np.count_nonzero(~Y) // 8


def test_small_data_are_not_thinned() -> None:
    data = training_set()
    assert data.thinned(0) is data
    assert data.thinned(0, np.arange(10)).X.shape == (10, 3)


def test_a_fit_with_thinned_folds_is_nearly_the_fit_with_all_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = APClassifierCV(cv=3, Cs=3).fit(X, Y)
    monkeypatch.setattr(sampling, "LEAST_NEGATIVES", 800)
    monkeypatch.setattr(sampling, "NEGATIVES_PER_POSITIVE", 1)
    part = APClassifierCV(cv=3, Cs=3).fit(X, Y)
    assert (part.coef_ != whole.coef_).any()
    np.testing.assert_allclose(part.predict_proba(X)[:, 1].mean(), Y.mean(), atol=0.01)
    agreement = np.corrcoef(part.decision_function(X), whole.decision_function(X))[0, 1]
    assert agreement > 0.98
