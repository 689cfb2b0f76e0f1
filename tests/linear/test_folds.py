"""Splits for APClassifierCV: in any form that scikit-learn takes, and refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
)

from apmax import errors
from tests.linear.six_features import SMALL, N, X, Y

ROWS = np.arange(N)
SPLITS = list(StratifiedKFold(3).split(X, Y))


def fitted(cv: Any, **options: Any) -> Any:
    return clone(SMALL).set_params(cv=cv, **options).fit(X, Y)


FORMS: dict[str, Callable[[], Any]] = {
    "a splitter": lambda: StratifiedKFold(3),
    "a generator": lambda: StratifiedKFold(3).split(X, Y),
    "lists": lambda: [(train.tolist(), test.tolist()) for train, test in SPLITS],
    "masks": lambda: [(np.isin(ROWS, train), np.isin(ROWS, test)) for train, test in SPLITS],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_the_same_splits_in_any_form_give_the_same_model(form: str, n_jobs: int | None) -> None:
    model = clone(SMALL).set_params(n_jobs=n_jobs)
    model.cv = FORMS[form]()  # not a parameter of a clone, which would copy a generator
    np.testing.assert_allclose(model.fit(X, Y).coef_, fitted(SPLITS).coef_, rtol=1e-9)


def test_none_is_five_shuffled_folds() -> None:
    np.testing.assert_array_equal(fitted(None).coef_, fitted(5).coef_)


@pytest.mark.parametrize("fewest", [2, 4, 7])
def test_none_is_no_more_folds_than_the_rarer_class_has_examples(fewest: int) -> None:
    y = np.isin(ROWS, ROWS[Y][:fewest])
    with pytest.warns(UserWarning, match=f"holds {fewest} positive"):
        model = clone(SMALL).set_params(cv=None).fit(X, y)
    assert model.scores_[model.scale_].shape == (2, min(fewest, 5))


def test_one_example_of_a_class_cannot_be_split() -> None:
    with pytest.raises(errors.ParameterError, match=r"one class has 1: .* use APClassifier"):
        clone(SMALL).set_params(cv=None).fit(X, ROWS == 3)


def test_time_ordered_splits_need_not_hold_out_every_row() -> None:
    splitter = TimeSeriesSplit(3)
    assert sum(test.size for _, test in splitter.split(X)) < N
    model = fitted(splitter)
    assert model.scores_[model.scale_].shape == (2, 3)


REFUSED: dict[str, tuple[Any, str]] = {
    "groups that are not there": (GroupKFold(3), r"fit\(X, y, groups=groups\)"),
    "one group": (StratifiedGroupKFold(3), r"fit\(X, y, groups=groups\)"),
    "nothing": ([], "no split"),
    "triples": ([(ROWS, ROWS, ROWS)], "pairs of rows"),
    "rows that are not there": (
        [(ROWS, ROWS + 1)],
        f"cannot split the {N} rows of X .*out of bounds",
    ),
    "one fold": (1, "at least 2"),
    "more folds than positives": (10**6, "lower cv"),
    "a fit without negatives": ([(ROWS[Y], ROWS)], "split 0 of `cv` fits no negative"),
    "a fit without positives": ([SPLITS[0], (ROWS[~Y], ROWS)], "split 1 of `cv` fits no positive"),
    "a test without negatives": ([(ROWS, ROWS[Y])], "split 0 of `cv` holds out no negative"),
    "an empty test": ([(ROWS, [])], "split 0 of `cv` holds out no positive"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_splits_that_cannot_be_used_are_refused_by_name(name: str) -> None:
    cv, message = REFUSED[name]
    with pytest.raises(errors.ParameterError, match=message):
        fitted(cv)


def test_a_fold_of_sorted_labels_is_refused() -> None:
    order = np.argsort(Y)
    with pytest.raises(errors.ParameterError, match="StratifiedKFold"):
        clone(SMALL).set_params(cv=KFold(3)).fit(X[order], Y[order])


def test_positives_of_weight_0_do_not_count() -> None:
    weight = np.where(Y & np.isin(ROWS, SPLITS[0][1]), 0.0, 1.0)
    with pytest.raises(errors.ParameterError, match="split 0 of `cv` holds out no positive"):
        clone(SMALL).set_params(cv=SPLITS).fit(X, Y, sample_weight=weight)
