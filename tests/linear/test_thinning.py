"""The weighted sample on which hyperparameters are chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from apmax import APClassifierCV, average_precision
from apmax.linear import thinning
from apmax.linear.base import TrainingSet
from apmax.linear.thinning import thinned
from apmax.validation import Floats

RNG = np.random.default_rng(0)
N = 3000
X = RNG.normal(size=(N, 3))
Y = RNG.random(N) < 1 / (1 + np.exp(3 - X[:, 0] - np.maximum(X[:, 1], 0)))


def training_set(weight: Floats | None = None, matrix: Any = X) -> TrainingSet:
    return TrainingSet(matrix, Y, weight, float(N), np.array([0, 1]))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "MOST_POSITIVES", 150)
    monkeypatch.setattr(thinning, "LEAST_NEGATIVES", 500)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("weight", [None, RNG.uniform(0.5, 2, N)], ids=["plain", "weighted"])
@pytest.mark.parametrize("matrix", [X, sp.csr_matrix(X)], ids=["dense", "CSR"])
def test_each_class_keeps_its_weight_and_the_sample_its_total(weight: Any, matrix: Any) -> None:
    sample = thinned(training_set(weight, matrix), 0)
    assert np.count_nonzero(sample.positive) == 150
    assert np.count_nonzero(~sample.positive) == 750
    assert sample.X.shape == (900, 3)
    assert sample.total == N
    assert sample.weight is not None
    given = np.ones(N) if weight is None else weight
    for of_sample, of_data in ((sample.positive, Y), (~sample.positive, ~Y)):
        assert sample.weight[of_sample].sum() == pytest.approx(given[of_data].sum())


@pytest.mark.usefixtures("few")
def test_ap_of_a_sample_is_an_estimate_of_ap() -> None:
    estimates = []
    for seed in range(200):
        sample = thinned(training_set(), seed)
        score = sample.X[:, 0]
        estimates.append(average_precision(sample.positive, score, sample_weight=sample.weight))
    error = np.std(estimates) / np.sqrt(200)
    assert np.mean(estimates) == pytest.approx(average_precision(Y, X[:, 0]), abs=0.005 + 3 * error)


def test_small_data_are_not_thinned() -> None:
    data = training_set()
    assert thinned(data, 0) is data


def test_a_fit_with_thinned_folds_is_nearly_the_fit_with_all_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = APClassifierCV(cv=3, Cs=3).fit(X, Y)
    monkeypatch.setattr(thinning, "LEAST_NEGATIVES", 800)
    monkeypatch.setattr(thinning, "NEGATIVES_PER_POSITIVE", 1)
    part = APClassifierCV(cv=3, Cs=3).fit(X, Y)
    assert (part.coef_ != whole.coef_).any()
    np.testing.assert_allclose(part.predict_proba(X)[:, 1].mean(), Y.mean(), atol=0.01)
    agreement = np.corrcoef(part.decision_function(X), whole.decision_function(X))[0, 1]
    assert agreement > 0.98
