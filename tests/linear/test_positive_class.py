"""Which class is the positive one, and what scikit-learn makes of it."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, make_scorer, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.multiclass import OneVsRestClassifier

from apmax import APClassifier, StochasticAPClassifier, average_precision, errors
from tests.linear.six_features import SMALL, N, X, Y

ESTIMATORS = [APClassifier(), SMALL, StochasticAPClassifier(max_iter=500, random_state=0)]
FRAUD = np.where(Y, "fraud", "ok")
MODEL = APClassifier(pos_label="fraud")
AP = make_scorer(average_precision_score, response_method="decision_function", pos_label="fraud")


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize(
    ("first", "last"),
    [("fraud", "ok"), (0, 1), (False, True), (-1, 1), (3.0, 7.0)],
    ids=["text", "0 and 1", "bool", "-1 and 1", "floats"],
)
def test_pos_label_gives_the_model_of_that_class_against_the_other(
    model: Any, first: Any, last: Any
) -> None:
    chosen = clone(model).set_params(pos_label=first).fit(X, np.where(Y, first, last))
    expected = clone(model).fit(X, Y)
    assert chosen.pos_label_ == first
    assert chosen.classes_.tolist() == [first, last]
    np.testing.assert_allclose(chosen.decision_function(X), -expected.decision_function(X))
    np.testing.assert_allclose(chosen.predict_proba(X), expected.predict_proba(X)[:, ::-1])
    np.testing.assert_array_equal(chosen.predict(X) == first, expected.predict(X))


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_score_is_the_average_precision_of_the_positive_class(model: Any) -> None:
    weight = np.arange(N) % 3 + 1.0
    chosen = clone(model).set_params(pos_label="fraud").fit(X, FRAUD)
    probability = chosen.predict_proba(X)[:, list(chosen.classes_).index(chosen.pos_label_)]
    assert chosen.score(X, FRAUD) == pytest.approx(average_precision(Y, probability))
    assert chosen.score(X, FRAUD, weight) == pytest.approx(
        average_precision_score(Y, probability, sample_weight=weight)
    )


def test_the_positive_class_is_the_last_by_default() -> None:
    model = APClassifier().fit(X, np.where(Y, "spam", "ham"))
    assert model.pos_label_ == "spam"
    assert model.score(X, np.where(Y, "spam", "ham")) == APClassifier().fit(X, Y).score(X, Y)


def test_score_without_a_positive_names_the_class() -> None:
    model = clone(MODEL).fit(X, FRAUD)
    with pytest.raises(errors.NoPositiveError, match=r"no label equals 'fraud'.*False, True"):
        model.score(X, Y)


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_an_unknown_pos_label_leaves_the_estimator_unfitted(model: Any) -> None:
    model = clone(model).set_params(pos_label="Fraud")
    with pytest.raises(errors.LabelError, match="choose 'fraud' or 'ok'"):
        model.fit(X, FRAUD)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_a_frequent_class_that_sorts_last_warns_where_fit_is_called(model: Any) -> None:
    message = r"positive class is 'ok'.*9\d\.\d% of `y`: to detect 'fraud', pass pos_label='fraud'"
    with pytest.warns(UserWarning, match=message) as caught:
        clone(model).fit(X, FRAUD)
    assert caught[0].filename == __file__


def test_more_than_half_of_the_weight_is_frequent() -> None:
    y, weight = np.where(Y, 2, 1), np.where(Y, N, 1.0)
    with pytest.warns(UserWarning, match="pos_label=1"):
        APClassifier().fit(X, y, sample_weight=weight)
    with pytest.warns(UserWarning, match="pos_label='fraud'"):
        APClassifier().fit(X, np.where(np.arange(N) < N // 2 + 1, "ok", "fraud"))


SILENT: dict[str, tuple[Any, Any]] = {
    "a rare class that sorts last": (np.where(Y, "yes", "no"), None),
    "half of the rows": (np.where(np.arange(N) % 2, "ok", "fraud"), None),
    "a chosen rare class": (FRAUD, "fraud"),
    "a chosen frequent class": (FRAUD, "ok"),
    "frequent True": (~Y, None),
    "frequent 1 of 0 and 1": ((~Y).astype(int), None),
    "frequent 1 of -1 and 1": (np.where(Y, -1, 1), None),
}


@pytest.mark.parametrize("name", SILENT)
def test_no_warning_where_the_positive_class_is_clear(name: str) -> None:
    y, pos_label = SILENT[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        APClassifier(pos_label=pos_label).fit(X, y)


def test_scorers_with_pos_label_agree_with_score() -> None:
    expected = cross_val_score(MODEL, X, FRAUD, cv=3)
    for method in ("decision_function", "predict_proba"):
        scorer = make_scorer(average_precision_score, response_method=method, pos_label="fraud")
        actual = cross_val_score(MODEL, X, FRAUD, cv=3, scoring=scorer)
        np.testing.assert_allclose(actual, expected)


@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss", "accuracy", "f1_macro"])
def test_scorers_without_pos_label_agree_with_those_of_a_bool_target(scoring: str) -> None:
    actual = cross_val_score(MODEL, X, FRAUD, cv=3, scoring=scoring)
    np.testing.assert_allclose(actual, cross_val_score(APClassifier(), X, Y, cv=3, scoring=scoring))


def test_grid_search_maximises_average_precision_by_default() -> None:
    grid = {"alpha": [10.0, 0.1]}
    by_default = GridSearchCV(MODEL, grid, cv=3).fit(X, FRAUD).cv_results_["mean_test_score"]
    by_ap = GridSearchCV(MODEL, grid, cv=3, scoring=AP).fit(X, FRAUD).cv_results_["mean_test_score"]
    np.testing.assert_allclose(by_default, by_ap)


META: dict[str, Callable[[Any], Any]] = {
    "calibrated": lambda model: CalibratedClassifierCV(model, cv=3),
    "threshold": lambda model: TunedThresholdClassifierCV(
        model, cv=3, scoring=make_scorer(f1_score, pos_label="fraud")
    ),
    "grid": lambda model: GridSearchCV(model, {"alpha": [1.0]}, cv=3),
}
ENCODING: dict[str, Callable[[Any], Any]] = {
    "bagging": lambda model: BaggingClassifier(model, 3, random_state=0),
    "voting": lambda model: VotingClassifier(
        [("ap", model), ("lr", LogisticRegression())], voting="soft"
    ),
}


def fraud_auc(model: Any) -> float:
    column = list(model.classes_).index("fraud")
    return float(roc_auc_score(Y, model.predict_proba(X)[:, column]))


@pytest.mark.parametrize("name", META)
def test_meta_estimators_rank_the_positive_class_high(name: str) -> None:
    assert fraud_auc(META[name](clone(MODEL)).fit(X, FRAUD)) > 0.7


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # logistic regression
@pytest.mark.parametrize("name", ENCODING)
def test_meta_estimators_that_encode_labels_take_pos_label_0(name: str) -> None:
    assert fraud_auc(ENCODING[name](APClassifier(pos_label=0)).fit(X, FRAUD)) > 0.7


def test_cross_val_predict_gives_columns_of_sorted_classes() -> None:
    model = APClassifier(pos_label=0)  # it encodes the labels
    probabilities = cross_val_predict(model, X, FRAUD, cv=3, method="predict_proba")
    assert roc_auc_score(Y, probabilities[:, 0]) > 0.7


def test_permutation_importance_is_the_loss_of_average_precision() -> None:
    model = clone(MODEL).fit(X, FRAUD)
    importance = permutation_importance(model, X, FRAUD, random_state=0).importances_mean
    assert importance[0] > 0.05 > abs(importance[5])


def test_one_model_per_class_for_more_than_two() -> None:
    y = np.digitize(X[:, 0], [-1, 1.5])
    model = OneVsRestClassifier(APClassifier()).fit(X, y)
    assert np.mean(model.predict(X) == y) > 0.7


def test_a_model_pickled_before_pos_label_existed_has_the_last_class() -> None:
    model = APClassifier().fit(X, np.where(Y, "spam", "ham"))
    state = model.__getstate__()
    del state["pos_label"], state["pos_label_"]
    old = APClassifier.__new__(APClassifier)
    old.__setstate__(state)
    restored = pickle.loads(pickle.dumps(old))
    assert (restored.pos_label, restored.pos_label_) == (None, "spam")
    assert clone(restored).get_params()["pos_label"] is None
    assert restored.score(X, np.where(Y, "spam", "ham")) == APClassifier().fit(X, Y).score(X, Y)


@pytest.mark.parametrize("missing", [None, np.nan])
@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_missing_labels_are_counted_and_located(model: Any, missing: Any) -> None:
    labels = np.where(np.arange(N) % 100 == 7, missing, FRAUD.astype(object))
    message = rf"`y` has {-(-(N - 7) // 100)} missing labels .* position 7: drop"
    with pytest.raises(errors.LabelError, match=message):
        clone(model).fit(X, labels)


@pytest.mark.parametrize("kind", [bytes, object])
def test_labels_of_bytes_are_refused_with_the_remedy(kind: Any) -> None:
    labels = np.where(Y, b"yes", b"no").astype(kind)
    with pytest.raises(errors.LabelError, match=r"labels of type bytes.*\.decode\(\)"):
        APClassifier().fit(X, labels)


def test_labels_of_bytes_and_text_are_mixed() -> None:
    labels = np.where(Y, "yes", "no").astype(object)
    labels[3] = b"no"
    with pytest.raises(errors.LabelError, match="mixes labels of different types"):
        APClassifier().fit(X, labels)
