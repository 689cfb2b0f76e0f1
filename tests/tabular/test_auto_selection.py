"""AutoAPClassifier: which model predicts, what it keeps, and how it explains."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import polars as pl
import pytest
import skops.io
from scipy.special import expit
from sklearn.base import clone
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold

from apmax import AdditiveAPClassifier, AutoAPClassifier, average_precision
from apmax.tabular.leaderboard import simplest_within_error
from tests.tabular.additive_table import TEST, TRAIN, X, Y

MODELS = ["logistic", "additive", "boosting-5x100", "stack"]
SMALL = AutoAPClassifier(MODELS, cv=2)
BY_RULE = {
    rule: clone(SMALL).set_params(select=rule).fit(X[TRAIN], Y[TRAIN])
    for rule in ("one-se", "best", *MODELS)
}
STACK, ADDITIVE, LOGISTIC = (BY_RULE[name] for name in ("stack", "additive", "logistic"))


def fold_scores(model: AutoAPClassifier) -> dict[str, Any]:
    """AP on each held-out fold, from the log-odds that the model keeps."""
    folds = [
        test
        for _, test in StratifiedKFold(2, shuffle=True, random_state=0).split(X[TRAIN], Y[TRAIN])
    ]
    labels = Y[TRAIN]
    return {
        name: np.array([average_precision(labels[fold], z[fold]) for fold in folds])
        for name, z in model.out_of_fold_.items()
    }


def test_one_se_is_the_simplest_within_one_standard_error() -> None:
    model, scores = BY_RULE["one-se"], fold_scores(BY_RULE["one-se"])
    assert model.best_ == simplest_within_error(MODELS, scores, 0.5)
    for one in model.leaderboard_:
        assert one.ap == pytest.approx(scores[one.model].mean())


def test_by_default_the_first_of_the_leaderboard_predicts() -> None:
    assert SMALL.select == "best"
    model = BY_RULE["best"]
    assert model.best_ == model.leaderboard_[0].model
    assert model.leaderboard_[0].chosen


@pytest.mark.parametrize("name", MODELS)
def test_a_named_model_predicts_whichever_is_best(name: str) -> None:
    model = BY_RULE[name]
    assert model.best_ == name
    assert [one.model for one in model.leaderboard_ if one.chosen] == [name]
    assert [(one.model, one.ap) for one in model.leaderboard_] == [
        (one.model, one.ap) for one in STACK.leaderboard_
    ]


def test_only_estimators_that_predict_are_kept() -> None:
    assert [*LOGISTIC.models_] == ["logistic"]
    assert [*STACK.models_] == STACK.blend_.members
    used = [name for name, weight in STACK.stack_weights_.items() if weight > 0]
    assert STACK.blend_.members == used
    assert [*LOGISTIC.stack_weights_] == MODELS[:-1]


def test_the_stack_is_the_weighted_sum_of_log_odds() -> None:
    total = np.zeros(TEST.sum())
    for name, weight in STACK.stack_weights_.items():
        model = BY_RULE[name]
        (slope,) = model.blend_.stack.weights
        total += weight * (model.decision_function(X[TEST]) - model.blend_.stack.intercept) / slope
    difference = STACK.decision_function(X[TEST]) - total
    np.testing.assert_allclose(difference, difference[0], rtol=1e-6)


def test_a_selected_model_that_was_interrupted_is_replaced_with_a_warning() -> None:
    def stop(stage: str, done: int, *_: Any) -> None:
        if done == 3:
            signal.raise_signal(signal.SIGINT)

    model = AutoAPClassifier(["logistic", "boosting-5x100", "stack"], select="stack", cv=2)
    model.on_progress = stop
    with pytest.warns(UserWarning, match=r"`select` = 'stack' was not fitted \(interrupted: only"):
        model.fit(X[TRAIN], Y[TRAIN])
    assert model.best_ == "logistic"


def test_the_selected_model_is_fitted_first() -> None:
    stages: list[str] = []
    model = clone(SMALL).set_params(select="boosting-5x100")
    model.on_progress = lambda stage, *_: stages.append(stage)
    model.fit(X[TRAIN], Y[TRAIN])
    assert stages[:2] == ["boosting-5x100"] * 2
    assert [*model.out_of_fold_] == MODELS


def test_held_out_log_odds_are_calibrated() -> None:
    assert [*STACK.out_of_fold_] == MODELS
    for z in STACK.out_of_fold_.values():
        assert z.shape == (TRAIN.sum(),)
        assert expit(z).mean() == pytest.approx(Y[TRAIN].mean(), rel=0.1)


def test_held_out_log_odds_are_those_of_the_positive_class() -> None:
    labels = np.where(Y, "fraud", "ok")
    model = AutoAPClassifier(["boosting-5x100"], cv=2, pos_label="fraud")
    model.fit(X[TRAIN], labels[TRAIN])
    expected = STACK.out_of_fold_["boosting-5x100"]
    np.testing.assert_array_equal(model.out_of_fold_["boosting-5x100"], expected)


def test_rows_of_weight_0_have_no_held_out_log_odds() -> None:
    model = AutoAPClassifier(["boosting-5x100", "additive"], cv=2)
    model.fit(X, Y, sample_weight=TRAIN.astype(float))
    for name, z in model.out_of_fold_.items():
        assert np.isnan(z[TEST]).all()
        np.testing.assert_allclose(z[TRAIN], STACK.out_of_fold_[name], rtol=1e-6)


def test_held_out_log_odds_are_averaged_over_repeated_splits() -> None:
    splits = list(RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0).split(X, Y))
    first, second, both = (
        AutoAPClassifier(["boosting-5x100"], cv=cv).fit(X, Y)
        for cv in (splits[:2], splits[2:], splits)
    )
    raw = [(one.out_of_fold_["boosting-5x100"], one.leaderboard_[0].ap) for one in (first, second)]
    assert both.leaderboard_[0].ap == pytest.approx((raw[0][1] + raw[1][1]) / 2, abs=0.02)
    mean = (raw[0][0] + raw[1][0]) / 2
    assert np.corrcoef(mean, both.out_of_fold_["boosting-5x100"])[0, 1] > 0.99


@pytest.mark.parametrize("name", ["logistic", "additive"])
def test_contributions_sum_to_the_log_odds(name: str) -> None:
    model = BY_RULE[name]
    parts = model.explain(X[TEST])
    assert [*parts.columns[:3]] == ["distance", "colour", "age"]
    assert parts.columns[-1] == "(intercept)"
    assert (parts.index == X[TEST].index).all()
    np.testing.assert_allclose(parts.sum(axis=1), model.decision_function(X[TEST]))
    in_training = model.explain(X[TRAIN]).mean()
    np.testing.assert_allclose(in_training.drop("(intercept)"), 0.0, atol=1e-6)


def test_contributions_of_logistic_regression_are_those_of_its_columns() -> None:
    within = X[TEST].assign(distance=X[TEST]["distance"].clip(-1, 1))
    parts = LOGISTIC.explain(within)
    moved = LOGISTIC.explain(within.assign(distance=within["distance"] + 1))
    change = moved - parts
    assert (change["distance"] != 0).all()
    np.testing.assert_allclose(change.drop(columns="distance"), 0.0, atol=1e-12)
    assert np.ptp(change["distance"]) < 1e-9  # a linear function


def test_a_stack_of_models_with_contributions_explains_too() -> None:
    model = AutoAPClassifier(["logistic", "additive", "stack"], select="stack", cv=2)
    model.fit(X[TRAIN], Y[TRAIN])
    parts = model.explain(pl.from_pandas(X[TEST]))
    assert isinstance(parts, pl.DataFrame)
    np.testing.assert_allclose(parts.sum_horizontal(), model.decision_function(X[TEST]))


def test_contributions_of_trees_are_changes_from_typical_values() -> None:
    model = BY_RULE["boosting-5x100"]
    parts = model.explain(X[TEST])
    assert [*parts.columns] == ["distance", "colour", "age"]
    typical = {
        "distance": X[TRAIN]["distance"].quantile(interpolation="lower"),
        "colour": X[TRAIN]["colour"].mode()[0],
        "age": X[TRAIN]["age"].quantile(interpolation="lower"),
    }
    for name, value in typical.items():
        changed = model.decision_function(X[TEST].assign(**{name: value}))
        np.testing.assert_allclose(parts[name], model.decision_function(X[TEST]) - changed)
    polars = model.explain(pl.from_pandas(X[TEST]))
    assert isinstance(polars, pl.DataFrame)
    np.testing.assert_array_equal(polars, parts)


def test_trees_of_truth_values_with_a_category_are_explained() -> None:
    values = np.random.default_rng(0).random((300, 4)) < 0.5
    labels = values[:, 0] & values[:, 1]
    model = AutoAPClassifier(["boosting-5x100"], categorical_features=[0], cv=3)
    assert model.fit(values, labels).explain(values[:5]).shape == (5, 4)


def test_trees_of_an_array_are_explained_by_an_array() -> None:
    model = clone(BY_RULE["boosting-5x100"]).fit(X.to_numpy(dtype=object)[TRAIN], Y[TRAIN])
    parts = model.explain(X.to_numpy(dtype=object)[TEST])
    np.testing.assert_allclose(parts, BY_RULE["boosting-5x100"].explain(X[TEST]))


def test_contributions_are_of_the_positive_class() -> None:
    labels = np.where(Y, "fraud", "ok")
    model = AutoAPClassifier(["additive"], cv=2, pos_label="fraud").fit(X[TRAIN], labels[TRAIN])
    log_odds = -model.decision_function(X[TEST])
    np.testing.assert_allclose(model.explain(X[TEST]).sum(axis=1), log_odds)


def test_shape_functions_are_those_of_the_calibrated_model() -> None:
    (additive,) = ADDITIVE.models_["additive"]
    assert isinstance(additive, AdditiveAPClassifier)
    (slope,) = ADDITIVE.blend_.stack.weights
    distance = ADDITIVE.shape_functions_["distance"]
    np.testing.assert_allclose(
        distance.effect, slope * additive.shape_functions_["distance"].effect
    )
    with pytest.raises(AttributeError, match='select="additive"'):
        _ = LOGISTIC.shape_functions_


def test_logistic_models_of_the_folds_share_c_and_scale() -> None:
    steps = [model[-1] for model in LOGISTIC.models_["logistic"]]
    assert len({step.C for step in steps}) == 1
    assert LOGISTIC.blend_.stack.weights[0] == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize("name", ["logistic", "stack"])
@pytest.mark.parametrize(("size", "end"), [(1e4, "max"), (-1e4, "min"), (1e300, "max")])
def test_numbers_beyond_the_training_rows_count_as_their_end(
    name: str, size: float, end: str
) -> None:
    y = np.random.default_rng(1).random(800) < expit(2 * X.loc[TRAIN, "distance"] - 2)
    members = ["logistic", "boosting-5x100", "stack"]
    model = AutoAPClassifier(members, cv=2, select=name).fit(X[TRAIN], y)
    assert model.stack_weights_["logistic"] > 0.1
    numbers = ["distance", "age"]
    at_end = X[TEST].fillna({"age": 30.0}).assign(**X.loc[TRAIN, numbers].agg(end))
    beyond = at_end.assign(**dict.fromkeys(numbers, size))
    expected = model.predict_log_odds(at_end)
    np.testing.assert_allclose(model.predict_log_odds(beyond), expected, rtol=1e-12)
    np.testing.assert_allclose(model.explain(beyond), model.explain(at_end), atol=1e-12)
    assert np.ptp(expected) > 0.1


def test_an_implausible_number_of_a_held_out_row_does_not_decide_its_log_odds() -> None:
    fitted, held_out = next(StratifiedKFold(2).split(X[TRAIN], Y[TRAIN]))
    row, distance = held_out[0], X.loc[TRAIN, "distance"].to_numpy()
    expected, found = (
        AutoAPClassifier(["logistic"], cv=[(fitted, held_out)])
        .fit(X[TRAIN].assign(distance=np.where(np.arange(800) == row, value, distance)), Y[TRAIN])
        .out_of_fold_["logistic"]
        for value in (distance[fitted].max(), 1e6)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_column_that_is_missing_in_the_rows_of_a_fold_has_no_effect_there() -> None:
    rare = X[["distance"]].assign(rare=np.where(np.arange(len(X)) < 400, X["distance"], np.nan))
    halves = [(np.arange(400, 800), np.arange(400)), (np.arange(400), np.arange(400, 800))]
    model = AutoAPClassifier(["logistic"], cv=halves).fit(rare[TRAIN], Y[TRAIN])
    plain = AutoAPClassifier(["logistic"], cv=halves).fit(rare.loc[TRAIN, ["distance"]], Y[TRAIN])
    first, second = (one.models_["logistic"][0] for one in (model, plain))
    found = first.decision_function(rare.to_numpy())
    np.testing.assert_allclose(found, second.decision_function(rare.to_numpy()[:, :1]), atol=1e-9)


TRUSTED = {
    "apmax.linear.result.FitResult",
    "apmax.tabular.additive.AdditiveAPClassifier",
    "apmax.tabular.additive.BasisAPClassifierCV",
    "apmax.tabular.auto.AutoAPClassifier",
    "apmax.tabular.columns.Columns",
    "apmax.tabular.columns.Levels",
    "apmax.tabular.effects.CategoryEffect",
    "apmax.tabular.effects.Margin",
    "apmax.tabular.effects.NumberEffect",
    "apmax.tabular.effects.PairEffect",
    "apmax.tabular.leaderboard.Leaderboard",
    "apmax.tabular.leaderboard.Standing",
    "apmax.tabular.logistic.Clip",
    "apmax.tabular.stacking.Blend",
    "apmax.tabular.stacking.Stack",
    "collections.OrderedDict",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "numpy.dtype",
    "sklearn.tree._tree.Tree",
}


@pytest.mark.parametrize("model", [*BY_RULE.values(), "extra-trees"], ids=[*BY_RULE, "extra-trees"])
def test_skops_stores_a_fitted_model_with_few_types(model: Any) -> None:
    if model == "extra-trees":
        model = AutoAPClassifier(["extra-trees"], cv=2).fit(X[TRAIN], Y[TRAIN])
    content = skops.io.dumps(model)
    types = skops.io.get_untrusted_types(data=content)
    assert set(types) <= TRUSTED
    stored = skops.io.loads(content, trusted=types)
    np.testing.assert_array_equal(
        stored.decision_function(X[TEST]), model.decision_function(X[TEST])
    )
    assert stored.leaderboard_ == model.leaderboard_
    assert stored.result_ == model.result_


def test_skops_stores_an_additive_model_with_pairs() -> None:
    model = AdditiveAPClassifier(interactions=2, cv=2).fit(X[TRAIN], Y[TRAIN])
    content = skops.io.dumps(model)
    types = skops.io.get_untrusted_types(data=content)
    assert set(types) <= TRUSTED
    stored = skops.io.loads(content, trusted=types)
    np.testing.assert_array_equal(
        stored.decision_function(X[TEST]), model.decision_function(X[TEST])
    )


def test_held_out_log_odds_are_not_needed_to_predict() -> None:
    model = AutoAPClassifier(["additive"], cv=2).fit(X[TRAIN], Y[TRAIN])
    expected = model.decision_function(X[TEST])
    del model.out_of_fold_
    np.testing.assert_array_equal(model.decision_function(X[TEST]), expected)
