"""Folds in time and by groups, and held-out rows."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from apmax.app.folds import forward_splits, hold_out, make_folds
from apmax.app.io import Dataset, load
from apmax.app.roles import Roles
from apmax.errors import ParameterError

N = 300
RNG = np.random.default_rng(0)
Y = RNG.random(N) < 0.2
DATA = Dataset(pd.DataFrame({"x": RNG.normal(size=N)}), Y, Path("t.csv"), "yes", "no", "y")


def assert_both_classes(*parts: NDArray[np.intp]) -> None:
    for rows in parts:
        assert 0 < Y[rows].sum() < rows.size


def test_plain_folds_hold_every_row_out_once_per_repeat() -> None:
    splits = make_folds(DATA, 4, repeats=2, seed=3)
    held_out = np.concatenate([test for _, test in splits])
    np.testing.assert_array_equal(np.bincount(held_out), np.full(N, 2))
    few = DATA.rows(np.r_[np.flatnonzero(Y)[:3], np.flatnonzero(~Y)])
    assert len(make_folds(few)) == 3
    with pytest.raises(ParameterError, match="only one row"):
        make_folds(DATA.rows(np.r_[np.flatnonzero(Y)[:1], np.flatnonzero(~Y)]))


def test_forward_folds_train_on_the_past_and_divide_no_time() -> None:
    times = RNG.integers(0, 40, N).astype(float)
    splits = make_folds(replace(DATA, times=times))
    assert len(splits) == 5
    for train, test in splits:
        assert times[train].max() < times[test].min()
        assert_both_classes(train, test)
    for (_, earlier), (train, _) in itertools.pairwise(splits):
        assert set(earlier) <= set(train)
    assert max(times[splits[-1][1]]) == times.max()


def test_there_are_fewer_forward_folds_if_a_part_had_one_class() -> None:
    times = np.arange(N, dtype=float)
    y = np.zeros(N, dtype=bool)
    y[[10, 290]] = True
    assert len(forward_splits(times, y, 5)) == 1
    with pytest.raises(ParameterError, match="only one class"):
        forward_splits(times, times > 250, 5)


def test_held_out_rows_are_a_share_of_each_class_whole_groups_or_the_latest() -> None:
    learnt, tested = hold_out(DATA, 0.2)
    assert tested.labels().sum() == round(0.2 * Y.sum())
    assert learnt.labels().size + tested.labels().size == N
    groups = RNG.integers(0, 30, N).astype(str)
    learnt, tested = hold_out(replace(DATA, groups=groups), 0.2)
    assert learnt.groups is not None
    assert not set(learnt.groups) & set(tested.groups)
    times = RNG.permutation(N).astype(float)
    learnt, tested = hold_out(replace(DATA, times=times), 0.25)
    assert learnt.times is not None
    assert tested.times is not None
    assert learnt.times.max() < tested.times.min()
    assert tested.labels().size == pytest.approx(0.25 * N, abs=1)
    with pytest.raises(ParameterError, match="between 0 and 1"):
        hold_out(DATA, 1.5)
    with pytest.raises(ParameterError, match="only one class"):
        hold_out(DATA.rows(np.r_[np.flatnonzero(Y)[:1], np.flatnonzero(~Y)]), 0.2)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (["2024-03-01", "2023-01-31", "2024-02-29"] * 8, [2, 0, 1]),
        (["1.3.2024", "31.1.2023", "29.2.2024"] * 8, [2, 0, 1]),
        ([2024.5, 2019, 2021] * 8, [2, 0, 1]),
    ],
)
def test_times_are_dates_or_numbers_and_no_feature_unless_asked_for(
    tmp_path: Path, column: list[object], expected: list[int]
) -> None:
    frame = pd.DataFrame({"t": column, "x": range(24), "y": [0, 1] * 12})
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = load(tmp_path / "t.csv", target="y", roles=Roles(time="t"))
    assert data.times is not None
    assert np.argsort(np.argsort(data.times[:3])).tolist() == expected
    assert list(data.X.columns) == ["x"]
    used = load(tmp_path / "t.csv", target="y", roles=Roles(time="t", only=("t,x",)))
    assert list(used.X.columns) == ["t", "x"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["a", "b", "c"] * 8, "is text"),
        (["2024-01-31", "2023-01-31"] * 11 + ["2023-02-28", None], "row 24 has"),
        ([*list(range(23)), "?"], "row 24 has"),
    ],
)
def test_times_that_cannot_be_ordered_are_refused(
    tmp_path: Path, column: list[object], message: str
) -> None:
    frame = pd.DataFrame({"t": column, "x": range(24), "y": [0, 1] * 12})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ParameterError, match=message):
        load(tmp_path / "t.csv", target="y", roles=Roles(time="t"))
    with pytest.raises(ParameterError, match="exclude each other"):
        load(tmp_path / "t.csv", target="y", roles=Roles(time="t", group="x"))
