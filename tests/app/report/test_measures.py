"""The numbers behind the charts, against apmax.metrics, scikit-learn and plain resampling."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import average_precision_score
from sklearn.metrics import precision_recall_curve as sklearn_curve
from tests.report.cases import make_scored

from apmax import average_precision, operating_point, precision_recall_curve
from apmax.app.report import Scored
from apmax.app.report.alerts import WISHES, count_alerts, operating_points, shorten
from apmax.app.report.bootstrap import bootstrap_band
from apmax.app.report.calibration import reliability


@pytest.mark.parametrize("digits", [0, 1, None])
def test_alerts_equal_the_metrics_and_scikit_learn_at_every_threshold(digits: int | None) -> None:
    result = make_scored(300, digits=digits)
    alerts = count_alerts(result)
    ours = precision_recall_curve(result.y, result.scores)
    theirs = sklearn_curve(result.y, result.scores)
    for curve in (ours, theirs):
        np.testing.assert_allclose(alerts.precision, curve[0][:-1])
        np.testing.assert_allclose(alerts.recall, curve[1][:-1])
        np.testing.assert_array_equal(alerts.thresholds, curve[2])


def test_a_thinned_curve_is_exact_where_it_is_drawn() -> None:
    result = make_scored(50_000, digits=None)
    alerts = count_alerts(result)
    assert 300 <= alerts.thresholds.size <= 400
    for k in range(0, alerts.thresholds.size, 7):
        reached = result.scores >= alerts.thresholds[k]
        assert alerts.all[k] == reached.sum()
        assert alerts.true[k] == result.y[reached].sum()


def test_a_thinned_curve_loses_no_area_that_could_be_seen() -> None:
    result = make_scored(50_000, digits=None)
    alerts = count_alerts(result)
    area = -np.diff(alerts.recall, append=0.0) @ alerts.precision
    assert area == pytest.approx(average_precision(result.y, result.scores), abs=0.003)


def test_operating_points_are_those_of_the_metrics_and_stay_on_a_thinned_curve() -> None:
    result = make_scored(50_000, digits=None)
    points = operating_points(result)
    assert tuple(points) == WISHES
    reached = [point for point in points.values() if point is not None]
    assert reached
    alerts = count_alerts(result, tuple(point.threshold for point in reached))
    for wish, point in points.items():
        if point is not None:
            assert point == operating_point(result.y, result.scores, precision=wish)
            assert alerts.precision[alerts.index_of(point.threshold)] == point.precision


def test_a_precision_out_of_reach_is_none() -> None:
    points = operating_points(Scored("m", [0, 1, 0, 0], [0.9, 0.5, 0.2, 0.1]))
    assert points[0.5] is not None
    assert points[0.8] is points[0.9] is points[0.95] is None


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=30, unique=True))
def test_a_shortened_threshold_alerts_on_the_same_examples(scores: list[float]) -> None:
    ascending = np.sort(np.array(scores) + 0.0)
    for below, threshold in pairwise(ascending):
        copied = float(shorten(threshold, below))
        np.testing.assert_array_equal(ascending >= copied, ascending >= threshold)


def test_a_threshold_is_written_as_shortly_as_its_neighbour_allows() -> None:
    assert shorten(0.123456, -np.inf) == "0.123"
    assert shorten(0.123456, 0.1234) == "0.12345"
    assert shorten(0.3, -np.inf) == "0.3"
    assert shorten(-0.123456, -1.0) == "-0.124"
    assert shorten(-0.0, -1.0) == "0.0"
    assert shorten(12345.678, 0.0) == "12300"
    assert shorten(1.23456e-9, 0.0) == "1.23e-09"


@pytest.mark.parametrize("digits", [1, None])
def test_the_band_contains_the_curve(digits: int | None) -> None:
    result = make_scored(digits=digits)
    band = bootstrap_band(result)
    curve = precision_recall_curve(result.y, result.scores)
    for recall, precision, low, high in zip(
        band.recall, band.precision, band.low, band.high, strict=True
    ):
        highest_threshold = np.flatnonzero(curve.recall >= recall - 1e-9)[-1]
        assert precision == pytest.approx(curve.precision[highest_threshold])
        assert 0 <= low <= precision <= high <= 1
    assert band.ap_low <= band.ap <= band.ap_high


def test_the_band_is_that_of_resampling_examples_one_by_one() -> None:
    result = make_scored(400)
    rng = np.random.default_rng(1)
    positives, negatives = np.flatnonzero(result.y), np.flatnonzero(~result.y)
    aps = []
    for _ in range(1500):
        rows = np.concatenate([rng.choice(group, group.size) for group in (positives, negatives)])
        aps.append(average_precision_score(result.y[rows], result.scores[rows]))
    band = bootstrap_band(result, resamples=1500)
    assert band.ap == pytest.approx(average_precision_score(result.y, result.scores))
    expected = np.quantile(aps, [0.025, 0.975])
    np.testing.assert_allclose([band.ap_low, band.ap_high], expected, atol=0.015)


def test_the_band_is_the_same_each_time() -> None:
    first, second = (bootstrap_band(make_scored()) for _ in range(2))
    np.testing.assert_array_equal(first.low, second.low)


def test_more_positives_than_bins_change_the_interval_by_nothing_that_shows() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(30_000) < 0.3
    result = Scored("m", y, rng.normal(size=y.size) + y)
    band = bootstrap_band(result)
    assert band.ap_high - band.ap_low < 0.03
    assert band.ap_low < band.ap < band.ap_high


def test_reliability_equals_scikit_learn_where_no_scores_are_tied() -> None:
    result = make_scored(1000, digits=None)
    bins = reliability(result)
    observed, predicted = calibration_curve(
        result.y, result.probabilities, n_bins=10, strategy="quantile"
    )
    np.testing.assert_allclose(bins.observed, observed)
    np.testing.assert_allclose(bins.predicted, predicted)
    assert bins.examples.sum() == 1000
    assert bins.positives.sum() == 100
    assert (bins.low <= bins.observed).all()
    assert (bins.observed <= bins.high).all()


def test_tied_scores_share_a_bin() -> None:
    bins = reliability(Scored("m", [1, 0, 0, 0], [0.25] * 4))
    assert bins.examples.tolist() == [4]
    assert bins.predicted.tolist() == bins.observed.tolist() == [0.25]
