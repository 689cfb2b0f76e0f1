"""Weighted samples of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from apmax.binary_target import binary_target
from apmax.tabular.sampling import restricted, sample_rows, without_weightless_rows

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


def test_splits_are_restricted_to_the_sample() -> None:
    splits = [(ROWS[ROWS % 2 == 0], ROWS[ROWS % 2 == 1])]
    rows = np.array([1, 4, 10, 11, 700])
    ((train, test),) = restricted(splits, rows, N)
    assert rows[train].tolist() == [4, 10, 700]
    assert rows[test].tolist() == [1, 11]


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, pl.DataFrame])
def test_rows_without_weight_are_left_out(kind: Any) -> None:
    X = np.column_stack([ROWS, -ROWS])
    target = binary_target(RARE, WEIGHT)
    table, kept, splits = without_weightless_rows(kind(X), target, [(ROWS[:500], ROWS[500:])])
    expected = WEIGHT > 0
    np.testing.assert_array_equal(np.asarray(table), X[expected])
    np.testing.assert_array_equal(kept.positive, RARE[expected])
    assert kept.total == target.total == WEIGHT.sum()
    assert splits[0][0].size == expected[:500].sum()
