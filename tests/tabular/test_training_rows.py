"""Which rows are accepted, and splits of some of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from apmax import AdditiveAPClassifier, AutoAPClassifier, errors
from apmax.binary_target import binary_target
from apmax.splits import mean_held_out, restricted
from apmax.tabular.training_data import without_weightless_rows

N = 1000
ROWS = np.arange(N)
RARE = ROWS % 50 == 0
WEIGHT = np.where(ROWS % 7 == 0, 0.0, 1.0 + ROWS % 3)


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


def test_held_out_values_are_averaged_over_splits() -> None:
    splits = [(ROWS[5:], ROWS[:5]), (ROWS[:3], ROWS[3:6])]
    found = mean_held_out(splits, [np.ones(5), np.array([3.0, 5.0, 7.0])], 7)
    np.testing.assert_array_equal(found, [1.0, 1.0, 1.0, 2.0, 3.0, 7.0, np.nan])


@pytest.mark.parametrize("estimator", [AdditiveAPClassifier, AutoAPClassifier])
def test_equal_names_of_columns_are_refused_before_scikit_learn_sees_them(estimator: Any) -> None:
    X = pd.DataFrame(np.column_stack([ROWS, -ROWS]), columns=["a", "a"])
    with pytest.raises(errors.ShapeError, match="two columns named 'a': rename or drop"):
        estimator().fit(X, RARE)


@pytest.mark.parametrize("estimator", [AdditiveAPClassifier, AutoAPClassifier])
@pytest.mark.parametrize("kind", ["Table", "RecordBatch"])
def test_tables_of_arrow_are_refused_with_the_remedy(estimator: Any, kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    X = getattr(pa, kind).from_pydict({"a": ROWS, "b": -ROWS})
    with pytest.raises(errors.ShapeError, match=rf"Arrow {kind}.*pass X\.to_pandas\(\)"):
        estimator().fit(X, RARE)
