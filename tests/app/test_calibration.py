"""The verdict about calibrated probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from apmax.app.report import ScoredModel
from apmax.app.report.calibration import LEVEL, calibration


def drawn(n: int, seed: int, truth: float = 1.0, mean: float = -3.0) -> ScoredModel:
    """Return rows whose odds of being positive are `truth` times the predicted ones."""
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-rng.normal(mean, 1.5, n)))
    q = truth * p / (1 - p + truth * p)
    return ScoredModel("m", rng.random(n) < q, p)


@pytest.mark.parametrize(("n", "mean"), [(400, -1.0), (2000, -3.0), (20_000, -5.0)])
def test_the_level_of_the_test_is_kept(n: int, mean: float) -> None:
    verdicts = [calibration(drawn(n, seed, mean=mean)) for seed in range(400)]
    rejected = np.mean([not one.calibrated for one in verdicts])
    assert rejected == pytest.approx(LEVEL, abs=0.035)  # three standard errors


def test_the_level_is_kept_with_sample_weights() -> None:
    rejected = []
    for seed in range(400):
        result = drawn(3000, seed)
        weight = np.random.default_rng(seed).exponential(size=3000)
        weighted = ScoredModel("m", result.y, result.probabilities, weight)
        rejected.append(not calibration(weighted).calibrated)
    assert np.mean(rejected) == pytest.approx(LEVEL, abs=0.035)


def test_intervals_are_those_of_wilson() -> None:
    bins = calibration(drawn(5000, 0))
    for k, (count, rows) in enumerate(zip(bins.positives, bins.rows, strict=True)):
        interval = binomtest(int(count), int(rows)).proportion_ci(method="wilson")
        assert (bins.low[k], bins.high[k]) == pytest.approx((interval.low, interval.high))


def test_bins_have_the_same_variance_and_hold_all_rows() -> None:
    result = drawn(20_000, 0)
    bins = calibration(result)
    assert bins.rows.size == 10
    assert bins.rows.sum() == 20_000
    assert bins.positives.sum() == result.y.sum()
    edges = np.append(bins.lowest, np.inf)
    v = result.probabilities * (1 - result.probabilities)
    which = np.searchsorted(edges, result.probabilities, side="right") - 1
    sums = np.bincount(which, v)
    np.testing.assert_allclose(sums, v.sum() / 10, rtol=0.01)
    np.testing.assert_allclose(bins.predicted * bins.rows, np.bincount(which, result.probabilities))
    np.testing.assert_array_equal(bins.positives, np.bincount(which, result.y))
    assert (bins.low <= bins.observed).all()
    assert (bins.observed <= bins.high).all()


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (drawn(5000, 0), "calibrated within sampling error (χ² test, p = "),
        (drawn(5000, 0, truth=0.5), "not calibrated: too high by a factor of 1."),
        (drawn(5000, 0, truth=2.5), "not calibrated: too low by a factor of"),
        (drawn(1_500_000, 0, truth=1.06, mean=0.0), "within 10 % of the observed shares"),
        (drawn(30, 0), "positives are too few to judge"),
    ],
    ids=["calibrated", "too high", "too low", "close", "few"],
)
def test_the_verdict_in_words(result: ScoredModel, message: str) -> None:
    assert message in calibration(result).sentence


def test_the_verdict_says_where_probabilities_are_wrong() -> None:
    rng = np.random.default_rng(0)
    p = np.repeat([0.02, 0.1, 0.6], [4000, 1000, 500])
    y = rng.random(p.size) < np.repeat([0.02, 0.1, 0.3], [4000, 1000, 500])
    found = calibration(ScoredModel("m", y, p))
    assert found.rows.tolist() == [4000, 1000, 500]  # tied rows are not divided
    assert found.summary.startswith("too high by a factor of 2")
    assert found.summary.endswith("above 0.6")
    assert "p < 0.001, level 5 %" in found.sentence


def test_few_positives_have_counts_instead_of_a_factor() -> None:
    p = np.repeat([0.001, 0.3], [2000, 500])
    y = np.concatenate([np.arange(2000) < 9, np.arange(500) < 150])
    found = calibration(ScoredModel("m", y, p))
    assert found.summary == "too low below 0.001: 9 positives, 2 expected"
    assert "factor" not in found.sentence


def test_the_verdict_of_a_sample_with_weights_is_that_of_all_rows() -> None:
    every = drawn(200_000, 0)
    shrunk = every.probabilities**1.3
    rng = np.random.default_rng(1)
    kept = every.y | (rng.random(every.y.size) < 0.05)
    weight = np.where(every.y, 1.0, 20.0)
    whole = calibration(ScoredModel("m", every.y, shrunk))
    sample = calibration(ScoredModel("m", every.y[kept], shrunk[kept], weight[kept]))
    words = [one.sentence.split(" overall")[0] for one in (whole, sample)]
    factors = [float(text.rpartition(" ")[2]) for text in words]
    assert factors[0] == pytest.approx(factors[1], abs=0.11)
    assert factors[0] > 1.2


def test_certain_predictions_are_judged() -> None:
    y = np.arange(1000) % 10 == 0
    assert calibration(ScoredModel("right", y, y.astype(float))).calibrated
    wrong = np.where(np.arange(1000) % 100 < 2, ~y, y).astype(float)
    assert not calibration(ScoredModel("wrong", y, wrong)).calibrated
    assert calibration(ScoredModel("tied", y, np.full(1000, 0.1))).calibrated
