"""AdditiveAPClassifier: one function per column."""

from __future__ import annotations

import pickle
import signal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, TimeSeriesSplit
from threadpoolctl import threadpool_info, threadpool_limits

from apmax import average_precision, errors
from apmax.tabular.effects import CategoryEffect, NumberEffect, PairEffect
from apmax.tabular.terms import MAX_FUNCTIONS, MAX_WIDTH
from tests.tabular.additive_table import (
    AGE,
    COLOUR,
    DISTANCE,
    LOG_ODDS,
    OF_COLOUR,
    PLAIN,
    TEST,
    TRAIN,
    N,
    X,
    Y,
)

ROWS = np.arange(N)
MODEL = clone(PLAIN).fit(X[TRAIN], Y[TRAIN])
WITH_PAIRS = clone(PLAIN).set_params(interactions=2).fit(X[TRAIN], Y[TRAIN])
OBJECTS = X.to_numpy(dtype=object)


def test_it_recovers_functions_that_are_not_linear() -> None:
    one_hot = pd.get_dummies(X.fillna({"age": 40.0})).to_numpy(float)
    logistic = LogisticRegression(max_iter=1000).fit(one_hot[TRAIN], Y[TRAIN])
    baseline = average_precision(Y[TEST], logistic.decision_function(one_hot[TEST]))
    found = MODEL.score(X[TEST], Y[TEST])
    best = average_precision(Y[TEST], LOG_ODDS[TEST])
    assert found > baseline + 0.2
    assert found > best - 0.05
    distance, colour = MODEL.shape_functions_["distance"], MODEL.shape_functions_["colour"]
    assert isinstance(distance, NumberEffect)
    assert isinstance(colour, CategoryEffect)
    central = np.abs(distance.grid) < 2
    found_shape = np.corrcoef(distance.effect[central], np.abs(distance.grid[central]))[0, 1]
    assert found_shape > 0.95
    assert sorted(colour.levels, key=OF_COLOUR.__getitem__) == [
        colour.levels[k] for k in np.argsort(colour.effect)
    ]
    age = MODEL.shape_functions_["age"]
    assert isinstance(age, NumberEffect)
    assert age.missing > age.effect.max()


@pytest.mark.parametrize("model", [MODEL, WITH_PAIRS], ids=["main effects", "pairs"])
def test_explained_rows_sum_to_the_log_odds(model: Any) -> None:
    frames = (X[TEST], pl.from_pandas(X[TEST]))
    for table in frames:
        explained = model.explain(table)
        assert isinstance(explained, type(table))
        assert [*explained.columns] == [*model.shape_functions_, "(intercept)"]
        total = np.asarray(explained).sum(axis=1)
        np.testing.assert_allclose(total, model.decision_function(table), rtol=1e-12)
    pd.testing.assert_index_equal(model.explain(X[TEST]).index, X[TEST].index)


def test_rows_of_an_array_are_explained_by_an_array() -> None:
    model = clone(PLAIN).fit(OBJECTS[TRAIN], Y[TRAIN])
    explained = model.explain(OBJECTS[TEST])
    assert isinstance(explained, np.ndarray)
    np.testing.assert_allclose(explained.sum(axis=1), model.decision_function(OBJECTS[TEST]))
    np.testing.assert_allclose(explained, MODEL.explain(X[TEST]))
    assert [*model.shape_functions_] == ["x0", "x1", "x2"]


def test_a_square_table_of_polars_is_explained_row_by_row() -> None:
    rows = pl.from_pandas(X[TEST][: len(MODEL.shape_functions_) + 1])
    np.testing.assert_array_equal(MODEL.explain(rows), MODEL.explain(rows.to_pandas()))


def test_shape_functions_by_hand_are_the_columns_of_explain() -> None:
    explained = MODEL.explain(X[TEST])
    distance, age = (MODEL.shape_functions_[name] for name in ("distance", "age"))
    by_hand = np.interp(DISTANCE[TEST], distance.grid, distance.effect)
    np.testing.assert_allclose(explained["distance"], by_hand, rtol=1e-12)
    by_hand = np.interp(AGE[TEST], age.grid, age.effect)
    by_hand[np.isnan(AGE[TEST])] = age.missing
    np.testing.assert_allclose(explained["age"], by_hand, rtol=1e-12)
    colour = MODEL.shape_functions_["colour"]
    effect = dict(zip(colour.levels, colour.effect, strict=True))
    np.testing.assert_allclose(explained["colour"], [effect[one] for one in COLOUR[TEST]])
    assert (explained["(intercept)"] == MODEL.intercept_).all()


def test_a_pair_by_hand_is_its_column_of_explain() -> None:
    pair = next(one for one in WITH_PAIRS.shape_functions_.values() if isinstance(one, PairEffect))
    rows = X[TEST].dropna()[:5]
    expected = []
    for _, row in rows.iterrows():
        weights = []
        for margin in (pair.first, pair.second):
            if margin.knots is None:
                weights.append(np.array([row[margin.name] == level for level in margin.levels]))
            else:
                hats = np.eye(margin.size)
                weights.append([np.interp(row[margin.name], margin.knots, hat) for hat in hats])
        expected.append(np.asarray(weights[0]) @ pair.effect @ np.asarray(weights[1]))
    np.testing.assert_allclose(WITH_PAIRS.explain(rows)[pair.name], expected, rtol=1e-12)


@pytest.mark.parametrize("weight", [None, np.linspace(0, 3, N)], ids=["plain", "weighted"])
@pytest.mark.parametrize("interactions", [0, 2])
def test_effects_have_mean_0_over_the_training_data(weight: Any, interactions: int) -> None:
    model = clone(PLAIN).set_params(interactions=interactions).fit(X, Y, sample_weight=weight)
    explained = model.explain(X).drop(columns="(intercept)")
    mean = np.average(explained, axis=0, weights=weight)
    np.testing.assert_allclose(mean, 0, atol=1e-12)
    functions = model.shape_functions_
    deviation = np.sqrt(np.average(explained**2, axis=0, weights=weight))
    importance = [one.importance for one in functions.values()]
    np.testing.assert_allclose(importance[:3], deviation[:3], rtol=0.02)
    assert np.all(importance >= 0.99 * deviation)


def test_a_strictly_increasing_transform_changes_nothing() -> None:
    """Of a column with fewer distinct values than grid points."""
    rounded = X.assign(distance=np.round(DISTANCE, 1))
    stretched = rounded.assign(distance=np.exp(3 * rounded["distance"]), age=X["age"] ** 3)
    expected = clone(PLAIN).fit(rounded[TRAIN], Y[TRAIN]).decision_function(rounded[TRAIN])
    actual = clone(PLAIN).fit(stretched[TRAIN], Y[TRAIN]).decision_function(stretched[TRAIN])
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


def test_outliers_do_not_matter() -> None:
    far = X.copy()
    far.loc[[1, 5], "distance"] = [1e12, -1e12]
    model = clone(PLAIN).fit(far[TRAIN], Y[TRAIN])
    expected = MODEL.decision_function(X[TEST])
    assert np.corrcoef(model.decision_function(X[TEST]), expected)[0, 1] > 0.99


def test_values_beyond_the_data_have_the_effect_of_the_outermost() -> None:
    rows = X[TEST][:2].assign(distance=[DISTANCE[TRAIN].max(), 1e12])
    rows = rows.assign(colour="red", age=30.0)
    assert np.diff(MODEL.decision_function(rows)) == 0


def test_new_categories_have_no_effect() -> None:
    rows = X[TEST].assign(colour="violet")
    assert (MODEL.explain(rows)["colour"] == 0).all()


def test_few_missing_values_have_no_effect() -> None:
    few = X.assign(distance=np.where(ROWS < 9, np.nan, DISTANCE))
    model = clone(PLAIN).fit(few, Y)
    assert (model.explain(few[:9])["distance"] == 0).all()


def test_missing_values_at_prediction_only_have_no_effect() -> None:
    rows = X[TEST].assign(distance=np.nan)
    assert (MODEL.explain(rows)["distance"] == 0).all()
    assert np.isfinite(WITH_PAIRS.decision_function(rows)).all()


def test_pos_label_is_the_same_model_mirrored() -> None:
    labels = np.where(Y, "fraud", "ok")
    model = clone(PLAIN).set_params(pos_label="fraud").fit(X[TRAIN], labels[TRAIN])
    expected = MODEL.decision_function(X[TEST])
    np.testing.assert_array_equal(model.decision_function(X[TEST]), -expected)
    np.testing.assert_array_equal(model.explain(X[TEST]), MODEL.explain(X[TEST]))
    np.testing.assert_allclose(model.predict_proba(X[TEST])[:, 0], expit(expected))
    assert model.score(X[TEST], labels[TEST]) == MODEL.score(X[TEST], Y[TEST])


@pytest.mark.parametrize("interactions", [0, 1])
def test_a_weight_of_2_is_the_row_twice(interactions: int) -> None:
    fold = ROWS % 2 == 0
    twice = np.concatenate([ROWS, np.flatnonzero(ROWS % 3 == 0)])
    cv = [(np.flatnonzero(fold), np.flatnonzero(~fold))]
    cv_twice = [(np.flatnonzero(fold[twice]), np.flatnonzero(~fold[twice]))]
    model = clone(PLAIN).set_params(interactions=interactions)
    weighted = clone(model).set_params(cv=cv).fit(X, Y, 1.0 + (ROWS % 3 == 0))
    repeated = clone(model).set_params(cv=cv_twice).fit(X.iloc[twice], Y[twice])
    assert [*weighted.shape_functions_] == [*repeated.shape_functions_]
    expected = repeated.decision_function(X)
    np.testing.assert_allclose(weighted.decision_function(X), expected, atol=1e-4)


def test_a_weight_of_0_is_no_row() -> None:
    """The category and the missing values of rows without weight do not exist either."""
    extra = X[:300].assign(colour="violet", distance=99.0)
    every = pd.concat([X, extra], ignore_index=True)
    labels, weight = np.concatenate([Y, ~Y[:300]]), np.repeat([1.0, 0.0], [N, 300])
    expected = clone(PLAIN).fit(X, Y).decision_function(X)
    for table in (every, pl.from_pandas(every), every.to_numpy(dtype=object)):
        model = clone(PLAIN).fit(table, labels, weight)
        np.testing.assert_allclose(model.decision_function(table[:N]), expected, atol=1e-6)


def test_groups_are_never_on_both_sides_of_a_split() -> None:
    groups = ROWS // 20
    splits = StratifiedGroupKFold(2, shuffle=True, random_state=0).split(X, Y, groups)
    expected = clone(PLAIN).set_params(cv=[*splits]).fit(X, Y).decision_function(X)
    actual = clone(PLAIN).fit(X, Y, groups=groups).decision_function(X)
    np.testing.assert_array_equal(actual, expected)
    by_splitter = clone(PLAIN).set_params(cv=GroupKFold(2)).fit(X, Y, groups=groups)
    assert by_splitter.score(X, Y) > 0.5


def test_forward_chaining_is_accepted() -> None:
    model = clone(PLAIN).set_params(cv=TimeSeriesSplit(3)).fit(X[TRAIN], Y[TRAIN])
    assert model.score(X[TEST], Y[TEST]) > MODEL.score(X[TEST], Y[TEST]) - 0.05


def test_a_fit_is_reproducible_and_survives_pickling() -> None:
    model = clone(MODEL)
    assert model.get_params() == PLAIN.get_params()
    model.fit(X[TRAIN], Y[TRAIN])
    expected = MODEL.decision_function(X[TEST])
    np.testing.assert_array_equal(model.decision_function(X[TEST]), expected)
    stored = pickle.dumps(model)
    np.testing.assert_array_equal(pickle.loads(stored).decision_function(X[TEST]), expected)


def test_processes_change_nothing() -> None:
    model = clone(PLAIN).set_params(n_jobs=2).fit(X[TRAIN], Y[TRAIN])
    expected = MODEL.decision_function(X[TEST])
    np.testing.assert_array_equal(model.decision_function(X[TEST]), expected)


def test_all_stages_use_one_blas_thread() -> None:
    seen: dict[str, set[int]] = {}

    def record(stage: str, *_: Any) -> None:
        pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        seen.setdefault(stage, set()).update(pool["num_threads"] for pool in pools)

    model = clone(PLAIN).set_params(interactions=1)
    model.on_progress = record
    with threadpool_limits(2, user_api="blas"):
        model.fit(X[TRAIN], Y[TRAIN])
    assert len(seen) > 2
    assert set.union(*seen.values()) == {1}


class CtrlC:
    """Sends SIGINT to this process at the k-th progress report of a fit."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, *_: Any) -> None:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_on_the_path_keeps_logistic_regression() -> None:
    model = clone(PLAIN)
    model.on_progress = CtrlC(at=3)  # after logistic regression on both folds
    with pytest.warns(ConvergenceWarning, match="kept logistic regression"):
        model.fit(X[TRAIN], Y[TRAIN])
    assert model.result_.interrupted
    assert model.score(X[TEST], Y[TEST]) > MODEL.score(X[TEST], Y[TEST]) - 0.05


def test_ctrl_c_while_pairs_are_judged_keeps_the_model() -> None:
    model = clone(PLAIN).set_params(interactions=1)
    stages: list[str] = []

    def stop(stage: str, *_: Any) -> None:
        stages.append(stage)
        if stage == "held-out rows":
            signal.raise_signal(signal.SIGINT)

    model.on_progress = stop
    with pytest.warns(ConvergenceWarning, match="helped to choose the pairs"):
        model.fit(X[TRAIN], Y[TRAIN])
    assert stages.count("held-out rows") == 1
    assert model.result_.interrupted
    whole = clone(model).fit(X[TRAIN], Y[TRAIN])
    rank = np.argsort(whole.decision_function(X[TEST]))
    np.testing.assert_array_equal(np.argsort(model.decision_function(X[TEST])), rank)


def test_ctrl_c_before_that_leaves_no_trace() -> None:
    model = clone(PLAIN)
    model.on_progress = CtrlC(at=1)
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[TRAIN], Y[TRAIN])
    assert vars(model) == before


REFUSED: dict[str, tuple[dict[str, Any], Any, Any, type[Exception], str]] = {
    "interactions < 0": ({"interactions": -1}, X, Y, errors.ParameterError, "or 'auto'"),
    "interactions text": ({"interactions": "all"}, X, Y, errors.ParameterError, "or 'auto'"),
    "interactions True": ({"interactions": True}, X, Y, errors.ParameterError, "or 'auto'"),
    "infinity": ({}, X.assign(age=np.inf), Y, errors.NonFiniteError, "'age'"),
    "unknown column": (
        {"categorical_features": ["size"]},
        X,
        Y,
        errors.ParameterError,
        "'size', but X has the columns distance, colour, age",
    ),
    "one class": ({}, X, np.zeros(N), errors.LabelError, "one class"),
    "lengths differ": ({}, X, Y[:-1], ValueError, "inconsistent"),
    "one positive": ({}, X, ROWS == 7, errors.ParameterError, "one class has 1"),
    "constant": ({}, np.ones((N, 2)), Y, errors.ShapeError, "nothing to learn from"),
    "no rows": ({}, X[:0], Y[:0], errors.ShapeError, "at least one row"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_fit_that_fails_leaves_no_trace(name: str) -> None:
    options, table, labels, error, message = REFUSED[name]
    model = clone(PLAIN).set_params(**options)
    before = dict(vars(model))
    with pytest.raises(error, match=message):
        model.fit(table, labels)
    assert vars(model) == before


def test_a_sparse_matrix_is_refused_with_a_remedy() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(errors.ShapeError, match="use APClassifierCV"):
        clone(PLAIN).fit(sparse.eye_array(N, 5, format="csr"), Y)


def test_columns_in_another_order_are_refused() -> None:
    with pytest.raises(ValueError, match="must be in the same order"):
        MODEL.predict(X[["colour", "distance", "age"]])
    with pytest.raises(ValueError, match="unseen at fit time"):
        MODEL.predict(X.rename(columns={"age": "years"}))


def test_few_positives_give_finite_probabilities() -> None:
    rare = np.isin(ROWS, [5, 400, 900])
    model = clone(PLAIN).fit(X, rare)
    assert np.isfinite(model.decision_function(X)).all()
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(3 / N, rel=0.2)


@pytest.fixture
def wide() -> tuple[Any, Any]:
    columns = MAX_WIDTH // MAX_FUNCTIONS + 1
    rng = np.random.default_rng(0)
    table = rng.lognormal(sigma=3, size=(150, columns))
    return table, rng.random(150) < expit(2 * np.log(table[:, 0]) / 3 - 1)


def test_a_wide_table_has_one_function_per_column(wide: tuple[Any, Any]) -> None:
    table, labels = wide
    with pytest.warns(UserWarning, match=f"{table.shape[1]} numeric columns.*normal scores"):
        model = clone(PLAIN).fit(table, labels)
    assert model.linear_.coef_.shape == (1, table.shape[1])
    first = model.shape_functions_["x0"]
    assert np.corrcoef(first.effect, np.log(first.grid))[0, 1] > 0.95


def test_a_column_with_one_value_besides_missing_ones_has_mean_effect_0() -> None:
    seldom = np.where(np.isnan(AGE), np.nan, 7.0)
    table = pd.DataFrame({"distance": DISTANCE, "seldom": seldom})
    model = clone(PLAIN).fit(table, Y)
    contribution = model.explain(table)["seldom"]
    assert contribution.mean() == pytest.approx(0, abs=1e-9)
    assert contribution[np.isnan(AGE)].mean() > contribution[~np.isnan(AGE)].mean() + 0.5
    fitted = model.shape_functions_["seldom"]
    assert fitted.importance == pytest.approx(contribution.std(ddof=0))
    assert model.predict_proba(table)[:, 1].mean() == pytest.approx(Y.mean(), rel=0.1)


def test_few_positives_warn() -> None:
    with pytest.warns(UserWarning, match="`y` holds 20 positive examples"):
        clone(PLAIN).fit(X, np.isin(ROWS, ROWS[Y][:20]))


def test_lists_of_numbers_and_text_keep_their_numbers() -> None:
    rows = [list(row) for row in zip(DISTANCE.tolist(), COLOUR.tolist(), strict=True)]
    model = clone(PLAIN).fit(rows, Y)
    assert isinstance(model.shape_functions_["x0"], NumberEffect)
    assert isinstance(model.shape_functions_["x1"], CategoryEffect)
