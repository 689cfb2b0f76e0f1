"""Groups: rows that belong together are never in both parts of a split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    LeaveOneGroupOut,
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from apmax import errors
from apmax.splits import make_splits
from tests.linear.six_features import SMALL, N, X, Y

ROWS = np.arange(N)
GROUPS = ROWS // 40
NAMES = np.array([f"customer {group}" for group in GROUPS])


def shares_no_group(splits: Any, groups: Any) -> bool:
    return not any(set(groups[train]) & set(groups[test]) for train, test in splits)


@pytest.mark.parametrize("cv", [None, 2, 3, 5, GroupKFold(4), LeaveOneGroupOut()], ids=str)
def test_no_group_is_on_both_sides(cv: Any) -> None:
    groups = ROWS % 6 if isinstance(cv, LeaveOneGroupOut) else NAMES
    splits = make_splits(cv, X, Y, groups=groups)
    assert shares_no_group(splits, groups)
    held_out = np.concatenate([test for _, test in splits])
    np.testing.assert_array_equal(np.sort(held_out), ROWS)


def test_a_number_of_folds_is_a_shuffled_stratified_group_k_fold() -> None:
    splitter = StratifiedGroupKFold(3, shuffle=True, random_state=0)
    expected = clone(SMALL).set_params(cv=list(splitter.split(X, Y, GROUPS))).fit(X, Y)
    actual = clone(SMALL).set_params(cv=3).fit(X, Y, groups=GROUPS)
    np.testing.assert_array_equal(actual.coef_, expected.coef_)


def test_a_splitter_gets_the_groups() -> None:
    expected = clone(SMALL).set_params(cv=list(GroupKFold(3).split(X, Y, GROUPS))).fit(X, Y)
    actual = clone(SMALL).set_params(cv=GroupKFold(3)).fit(X, Y, groups=GROUPS)
    np.testing.assert_array_equal(actual.coef_, expected.coef_)


@pytest.mark.parametrize("fewest", [2, 3, 4])
def test_none_is_no_more_folds_than_groups_with_positives(fewest: int) -> None:
    groups = np.where(Y, ROWS % fewest, ROWS)
    splits = make_splits(None, X, Y, groups=groups)
    assert len(splits) == fewest
    assert shares_no_group(splits, groups)


def test_none_takes_fewer_folds_until_each_holds_both_classes() -> None:
    """Each class is in three groups, but three folds of these rows cannot all hold both."""
    positive = np.array([False, True, False, False, True, True])
    groups = np.array([3, 2, 4, 2, 3, 1])
    splits = make_splits(None, None, positive, groups=groups)
    assert len(splits) == 2
    assert all(np.unique(positive[part]).size == 2 for split in splits for part in split)


def test_rows_of_weight_0_are_in_no_numbered_fold() -> None:
    weight = (ROWS % 5 > 0).astype(float)
    splits = make_splits(3, X, Y, weight, GROUPS)
    assert all(weight[part].all() for split in splits for part in split)
    kept = weight > 0
    expected = clone(SMALL).fit(X[kept], Y[kept], groups=GROUPS[kept])
    actual = clone(SMALL).fit(X, Y, sample_weight=weight, groups=GROUPS)
    np.testing.assert_allclose(actual.coef_, expected.coef_, rtol=1e-9)


REFUSED: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "too short": (3, GROUPS[:-1], errors.ShapeError, "one group per row"),
    "two columns": (3, np.ones((N, 2)), errors.ShapeError, "one group per row"),
    "missing numbers": (3, np.where(GROUPS == 3, np.nan, GROUPS), errors.ParameterError, "missing"),
    "missing names": (
        3,
        np.where(GROUPS == 3, None, NAMES),  # type: ignore[call-overload]
        errors.ParameterError,
        "missing",
    ),
    "one group": (None, np.zeros(N), errors.ParameterError, r"in 1: .* use APClassifier"),
    "more folds than groups": (51, GROUPS, errors.ParameterError, r"lower cv, .* use APClassifier"),
    "splits as rows": (
        list(StratifiedKFold(3).split(X, Y)),
        GROUPS,
        errors.ParameterError,
        "`groups` has no effect",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_groups_that_cannot_be_used_are_refused(name: str) -> None:
    cv, groups, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        clone(SMALL).set_params(cv=cv).fit(X, Y, groups=groups)


@pytest.mark.parametrize("cv", [3, GroupKFold(3)], ids=["a number", "a splitter"])
def test_groups_and_weights_are_routed_through_a_pipeline(cv: Any) -> None:
    weight = ROWS % 2 + 1.0
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(SMALL).set_params(cv=cv).set_fit_request(groups=True, sample_weight=True)
        model.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        found = cross_validate(
            make_pipeline(scaler, model),
            X,
            Y,
            cv=GroupKFold(2),
            params={"groups": GROUPS, "sample_weight": weight},
            return_estimator=True,
        )
    train, test = next(GroupKFold(2).split(X, Y, GROUPS))
    alone = make_pipeline(StandardScaler(), clone(SMALL).set_params(cv=cv))
    routed = {"groups": GROUPS[train], "sample_weight": weight[train]}
    alone.fit(X[train], Y[train], **{f"apclassifiercv__{k}": v for k, v in routed.items()})
    np.testing.assert_array_equal(found["estimator"][0][-1].coef_, alone[-1].coef_)
    expected = alone[-1].score(alone[:-1].transform(X[test]), Y[test], weight[test])
    assert found["test_score"][0] == pytest.approx(expected)


@pytest.mark.parametrize("cv", [3, GroupKFold(3)], ids=["a number", "a splitter"])
def test_groups_are_requested_by_default(cv: Any) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(SMALL).set_params(cv=cv)
        found = cross_validate(
            model, X, Y, cv=GroupKFold(2), params={"groups": GROUPS}, return_estimator=True
        )
    train, _ = next(GroupKFold(2).split(X, Y, GROUPS))
    expected = clone(SMALL).set_params(cv=cv).fit(X[train], Y[train], groups=GROUPS[train])
    np.testing.assert_array_equal(found["estimator"][0].coef_, expected.coef_)
