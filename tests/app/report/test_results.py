"""The data model of reports: what it accepts, what it refuses, and what it concludes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import ttest_rel
from tests.report.cases import make_history, make_scored

from apmax import errors
from apmax.app.report import Comparison, FoldScores, Report, Scored

Y = [1, 0, 1, 0]
S = [2.0, 1.0, -1.0, -2.0]


def compare(first: Any, second: Any, **more: Any) -> Comparison:
    return Comparison([FoldScores("old", first), FoldScores("new", second)], **more)


def test_labels_and_scores_become_clean_arrays() -> None:
    result = Scored("m", [-1, 1], [0, 1])
    assert result.y.tolist() == [False, True]
    assert result.scores.dtype == np.float64


def test_scores_within_0_and_1_are_probabilities_and_others_log_odds() -> None:
    assert Scored("m", Y, [0.9, 0.1, 0.2, 0.0]).probabilities.tolist() == [0.9, 0.1, 0.2, 0.0]
    np.testing.assert_allclose(Scored("m", Y, S).probabilities, expit(S))


def test_log_odds_that_happen_to_lie_within_0_and_1_can_be_declared() -> None:
    result = Scored("m", Y, [0.9, 0.1, 0.2, 0.0], scale="log-odds")
    np.testing.assert_allclose(result.probabilities, expit([0.9, 0.1, 0.2, 0.0]))


def test_an_empty_history_is_none() -> None:
    assert Scored("m", Y, S, history={}).history is None
    assert Scored("m", Y, S, history=make_history(0)).history is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("", Y, S), errors.ParameterError, "`name` must be text, got ''"),
        (("m", [0, 0, 0, 0], S), errors.NoPositiveError, "no positive"),
        (("m", Y, [1, 2, 3]), errors.ShapeError, "4 elements.*3"),
        (("m", Y, [1, 2, 3, np.nan]), errors.NonFiniteError, "nan at position 3"),
        (("m", Y, S, {"step": [1]}), errors.ParameterError, "lacks 'seconds'.*history_"),
        (("m", Y, S, {"step": [1], "seconds": []}), errors.ShapeError, "1 elements.*0"),
        (("m", Y, S, None, [("a", np.inf)]), errors.NonFiniteError, "inf for 'a'"),
        (("m", Y, S, None, None, "odds"), errors.ParameterError, "'log-odds', 'probability'"),
        (("m", Y, S, None, None, "probability"), errors.ParameterError, "from -2 to 2.*predict"),
    ],
)
def test_what_cannot_be_reported_is_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        Scored(*arguments)


def test_a_report_needs_models_with_names_of_their_own_and_the_same_examples() -> None:
    with pytest.raises(errors.EmptyInputError, match="at least one Scored"):
        Report("t", [])
    with pytest.raises(errors.ParameterError, match="two models named 'a model'"):
        Report("t", [make_scored(), make_scored()])
    with pytest.raises(errors.ShapeError, match=r"'a model' has 600 with 60.*'b' has 500 with 50"):
        Report("t", [make_scored(), make_scored(500, name="b")])


def test_differences_are_taken_fold_by_fold() -> None:
    rng = np.random.default_rng(0)
    old = rng.uniform(0.3, 0.5, 12)
    new = old + rng.normal(0.01, 0.02, 12)
    (gain,) = compare(old, new).differences()
    assert gain.mean == pytest.approx(np.mean(new - old))
    assert gain.standard_error == pytest.approx(np.std(new - old, ddof=1) / np.sqrt(12))
    assert (gain.wins, gain.losses) == ((new > old).sum(), (new < old).sum())
    assert gain.interval == pytest.approx(tuple(ttest_rel(new, old).confidence_interval()))


def test_the_overlap_of_folds_widens_the_error_as_nadeau_and_bengio_say() -> None:
    old, new = np.array([0.5, 0.6, 0.4, 0.5]), np.array([0.6, 0.6, 0.5, 0.7])
    plain = compare(old, new).differences()[0].standard_error
    corrected = compare(old, new, test_fraction=0.25).differences()[0].standard_error
    assert corrected / plain == pytest.approx(math.sqrt((1 / 4 + 1 / 3) / (1 / 4)))


@pytest.mark.parametrize(
    ("gains", "start", "end"),
    [
        ([0.1, 0.11, 0.09], "new is better than old by 0.100 AP", "wins 3 and loses 0 of 3 folds."),
        ([-0.1, -0.11, -0.09], "new is worse than old by 0.100 AP", "On this data, use old."),
        ([0.1, -0.1, 0.02], "No difference between new and old", "no reason to prefer new."),
        ([0.0, 0.0, 0.0], "new and old have the same AP", "in every fold."),
        ([0.1], "new is 0.100 AP higher than old on a single fold", "repeat it on more."),
    ],
)
def test_the_sentence_says_no_more_than_the_folds(gains: Any, start: str, end: str) -> None:
    (gain,) = compare(np.full(len(gains), 0.5), 0.5 + np.array(gains)).differences()
    assert gain.sentence().startswith(start)
    assert gain.sentence().endswith(end)


def test_one_fold_has_no_spread() -> None:
    row = FoldScores("m", [0.5])
    assert row.mean == 0.5
    assert math.isnan(row.std)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Comparison([]), errors.EmptyInputError, "one FoldScores per model"),
        (lambda: compare([0.5], [0.5, 0.6]), errors.ShapeError, "'old' has 1 and 'new' has 2"),
        (lambda: compare([0.5], [1.5]), errors.ParameterError, "`ap` must be .*got .*1.5"),
        (lambda: compare([0.5], [0.5], test_fraction=1), errors.ParameterError, "five folds"),
        (lambda: Comparison([FoldScores("m", [1])] * 2), errors.ParameterError, "twice"),
    ],
)
def test_a_comparison_refuses_what_cannot_be_compared(make: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make()
