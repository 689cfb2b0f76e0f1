"""Comparison of models on the same folds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from apmax import average_precision
from apmax.app import leaderboard
from apmax.app.io import Dataset
from apmax.app.leaderboard import Leaderboard, candidates, compare
from apmax.errors import ParameterError

RNG = np.random.default_rng(0)
TIME = RNG.random(1500)
WORDS = np.eye(4)[RNG.integers(0, 4, 1500)]
Y = RNG.random(1500) < 1 / (1 + np.exp(-(5 * (TIME - 0.5) - 2)))
DATASET = Dataset(sp.csr_matrix(np.column_stack([TIME, WORDS])), Y, Path("a"), 1, 0)


def test_every_model_scores_every_row_once_per_repeat() -> None:
    runs = list(compare(DATASET, folds=3, repeats=1))
    names = list(candidates(DATASET.X.toarray()))
    assert [run.name for run in runs] == names * 3
    for name in names:
        rows = np.concatenate([run.rows for run in runs if run.name == name])
        assert np.array_equal(np.sort(rows), np.arange(Y.size))
    first = runs[0]
    assert first.ap == average_precision(Y[first.rows], first.scores)
    assert all(run.ap > 1.5 * Y.mean() for run in runs)


@pytest.mark.parametrize("limit", [1 << 31, 0], ids=["dense", "sparse"])
def test_a_feature_far_from_zero_is_no_handicap_for_logistic_regression(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaderboard, "MAX_DENSE_BYTES", limit)
    offset = 1000.0 if limit else 0.0
    X = sp.csr_matrix(np.column_stack([TIME + offset, WORDS]))
    runs = {run.name: run for run in compare(Dataset(X, Y, Path("a")), folds=2, repeats=1)}
    assert ("gradient boosting" in runs) == bool(limit)
    assert runs["logistic regression"].ap > 1.8 * Y.mean()


def test_too_few_rows_of_a_class_are_refused() -> None:
    y = np.zeros(1500, bool)
    y[:5] = True
    with pytest.raises(ParameterError, match="use more data"):
        next(compare(Dataset(DATASET.X, y, Path("a"))))


def test_differences_have_corrected_standard_errors() -> None:
    rng = np.random.default_rng(1)
    old = 0.5 + 0.05 * rng.normal(size=10)
    gains = 0.02 + 0.01 * rng.normal(size=10)
    board = Leaderboard({"old": old, "new": old + gains}, test_fraction=0.2)
    one = board.differences()["new"]
    assert one.mean == pytest.approx(gains.mean())
    expected = gains.std(ddof=1) * np.sqrt(1 / 10 + 0.25)  # Nadeau and Bengio, 2003
    assert one.standard_error == pytest.approx(expected)
    assert (one.wins, one.losses) == ((gains > 0).sum(), (gains < 0).sum())
    assert list(board.summary("old")) == pytest.approx([old.mean(), old.std(ddof=1)])
    assert board.folds == 10


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([0.1, 0.1, 0.1, 0.11], "new is better than old: +0.10"),
        ([-0.1, -0.1, -0.1, -0.11], "new is worse than old"),
        ([0.1, -0.1, 0.1, -0.11], "does not differ significantly"),
        ([0.0, 0.0], "the same AP in every fold"),
        ([0.1], "a single fold"),
    ],
)
def test_the_sentence_says_what_the_folds_show(gains: list[float], verdict: str) -> None:
    old = np.full(len(gains), 0.5)
    board = Leaderboard({"old": old, "new": old + gains}, test_fraction=0.2)
    assert verdict in board.differences()["new"].sentence()
