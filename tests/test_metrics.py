"""Metrics equal scikit-learn's, and say what an operating point really costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as peers

from apmax import average_precision, operating_point
from apmax.errors import UnreachableTargetError
from apmax.validation import Floats, Mask
from tests.examples import CASE_NAMES, CASES, Case, labelled_scores
from tests.oracle import equations

Example = tuple[Floats, Mask]


@pytest.mark.parametrize("case", CASES, ids=CASE_NAMES)
def test_average_precision_equals_sklearn_and_equation_1(case: Case) -> None:
    actual = average_precision(case.positive, case.scores, sample_weight=case.weight)
    weight = None if case.weight is None else case.weight / case.weight.max()
    theirs = peers.average_precision_score(case.positive, case.scores, sample_weight=weight)
    assert actual == pytest.approx(theirs, abs=1e-12)
    oracle = equations.average_precision(case.scores, case.positive, weight)
    assert actual == pytest.approx(oracle, abs=1e-12)


@given(labelled_scores())
def test_average_precision_of_small_examples(example: Example) -> None:
    scores, positive = example
    expected = peers.average_precision_score(positive, scores)
    assert average_precision(positive, scores) == pytest.approx(expected, abs=1e-12)


@given(labelled_scores())
def test_monotone_transforms_leave_average_precision_unchanged(example: Example) -> None:
    scores, positive = example
    expected = average_precision(positive, scores)
    for transformed in (scores + 3, 2 * scores, np.exp(scores), np.arctan(scores)):
        assert average_precision(positive, transformed) == expected


@given(labelled_scores(), st.data())
def test_permutations_leave_average_precision_unchanged(
    example: Example, data: st.DataObject
) -> None:
    scores, positive = example
    order = np.array(data.draw(st.permutations(range(scores.size))))
    expected = average_precision(positive, scores)
    assert average_precision(positive[order], scores[order]) == pytest.approx(expected, abs=1e-14)


@given(labelled_scores(), st.data())
def test_a_weight_counts_like_repetition(example: Example, data: st.DataObject) -> None:
    scores, positive = example
    counts = st.lists(st.integers(0, 3), min_size=scores.size, max_size=scores.size)
    weight = np.array(data.draw(counts))
    weight[np.flatnonzero(positive)[0]] = 2
    repeated = np.repeat(np.arange(scores.size), weight)
    weighted = average_precision(positive, scores, sample_weight=weight)
    expected = average_precision(positive[repeated], scores[repeated])
    assert weighted == pytest.approx(expected, abs=1e-12)


def test_scores_a_last_bit_apart_are_not_tied() -> None:
    below = np.nextafter(0.3, 0)
    assert average_precision([1, 0], [0.3, below]) == 1.0
    assert average_precision([1, 0], [below, 0.3]) == 0.5
    assert average_precision([1, 0], [0.3, 0.3]) == 0.5


def test_the_whole_range_of_doubles_is_ranked() -> None:
    scores = np.array([1.7e308, -1.7e308, 5e-324, 0.0, 1e-308, 1e308])
    y = np.array([0, 1, 1, 0, 1, 1])
    assert average_precision(y, scores) == pytest.approx(peers.average_precision_score(y, scores))


@given(labelled_scores(), st.sampled_from([0.1, 0.5, 0.75, 1.0]))
def test_an_operating_point_is_the_best_of_all_thresholds(example: Example, wish: float) -> None:
    scores, positive = example
    points = []
    for threshold in np.unique(scores):
        alert = scores >= threshold
        precision = positive[alert].mean()
        recall = positive[alert].sum() / positive.sum()
        points.append((threshold, precision, recall, alert.mean()))

    threshold, precision, recall, alert_rate = operating_point(positive, scores, recall=wish)
    fitting = [p for p in points if p[2] >= wish]
    best = max(fitting, key=lambda p: (p[1], p[0]))
    assert (threshold, precision, recall, alert_rate) == pytest.approx(best, abs=1e-12)

    fitting = [p for p in points if p[1] >= wish]
    if fitting:
        best = max(fitting, key=lambda p: (p[2], p[0]))
        found = operating_point(positive, scores, precision=wish)
        assert tuple(found) == pytest.approx(best, abs=1e-12)


@given(labelled_scores(), st.sampled_from([0.1, 0.5, 0.75, 1.0]))
def test_the_top_share_has_at_least_its_number_of_rows(example: Example, share: float) -> None:
    scores, positive = example
    expected = np.sort(scores)[-int(np.ceil(share * scores.size))]
    assert operating_point(positive, scores, top=share).threshold == expected
    for weight in (0.3, 1, 7):
        weights = np.full(scores.size, weight)
        found = operating_point(positive, scores, top=share, sample_weight=weights)
        assert found.threshold == expected


@given(labelled_scores(), st.sampled_from([(1, 1), (1, 2), (2, 5), (1, 20), (3, 1)]))
def test_the_cheapest_threshold_is_the_best_of_all(
    example: Example, cost: tuple[float, float]
) -> None:
    scores, positive = example
    false_alarm, missed = cost
    costs = {}
    for threshold in np.unique(scores):
        alert = scores >= threshold
        false_alarms, misses = (alert & ~positive).sum(), (~alert & positive).sum()
        costs[threshold] = false_alarm * false_alarms + missed * misses
    lowest = min(costs.values())
    if lowest >= missed * positive.sum():
        with pytest.raises(UnreachableTargetError, match="no alert at all is cheapest"):
            operating_point(positive, scores, cost=cost)
    else:
        found = operating_point(positive, scores, cost=cost)
        assert costs[found.threshold] == lowest
        assert found.threshold == max(one for one in costs if costs[one] == lowest)


def test_an_operating_point_counts_weights() -> None:
    y, scores, weight = [1, 0, 1, 0], [4, 3, 2, 1], [1, 2, 1, 4]
    point = operating_point(y, scores, recall=1, sample_weight=weight)
    assert point == pytest.approx((2, 0.5, 1.0, 0.5))
    assert operating_point(y, scores, top=0.3, sample_weight=weight).threshold == 3
    assert operating_point(y, scores, cost=(1, 1), sample_weight=weight).threshold == 4
    assert operating_point(y, scores, cost=(1, 3), sample_weight=weight).threshold == 2


@pytest.mark.parametrize("target", ["precision", "recall"])
@pytest.mark.parametrize("seed", range(20))
def test_equal_weights_change_no_operating_point(target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    positive, scores = rng.random(30) < 0.5, -np.arange(30.0)
    found, alerts = np.cumsum(positive), np.arange(1, 31)
    for share in {"precision": found / alerts, "recall": found / positive.sum()}[target]:
        goal = {target: max(float(share), 1 / 30)}
        plain = operating_point(positive, scores, **goal)
        weighted = operating_point(positive, scores, sample_weight=np.full(30, 0.1), **goal)
        assert weighted.threshold == plain.threshold


def test_costs_may_be_huge() -> None:
    assert operating_point([1, 0, 1], [3, 2, 1], cost=(1e308, 1.7e308)).threshold == 1
