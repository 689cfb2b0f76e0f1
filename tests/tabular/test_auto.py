"""AutoAPClassifier: the best of a small library, and the stack."""

from __future__ import annotations

import pickle
import signal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy.special import expit
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, TimeSeriesSplit

from apmax import AdditiveAPClassifier, AutoAPClassifier, average_precision, errors, interrupts
from apmax.splits import with_most_rows
from apmax.tabular import NAMES
from tests.tabular.additive_table import LOG_ODDS, TEST, TRAIN, N, X, Y

ROWS = np.arange(N)
SMALL = AutoAPClassifier(["logistic", "boosting-5x100", "stack"], cv=2)
MODEL = clone(SMALL).fit(X[TRAIN], Y[TRAIN])


def test_trees_beat_logistic_regression_where_effects_are_not_linear() -> None:
    board = {one.model: one for one in MODEL.leaderboard_}
    assert set(board) == {"logistic", "boosting-5x100", "stack"}
    assert board["boosting-5x100"].ap > board["logistic"].ap + 0.1
    assert MODEL.best_ in {"boosting-5x100", "stack"}
    assert MODEL.leaderboard_[0].difference == 0
    best = average_precision(Y[TEST], LOG_ODDS[TEST])
    assert MODEL.score(X[TEST], Y[TEST]) > best - 0.15


@pytest.mark.parametrize("name", NAMES[:-1])
def test_each_model_of_the_library_predicts(name: str) -> None:
    model = clone(SMALL).set_params(models=[name]).fit(X[TRAIN], Y[TRAIN])
    assert [one.model for one in model.leaderboard_] == [model.best_] == [name]
    assert model.stack_weights_ == {}
    probability = model.predict_proba(X[TEST])[:, 1]
    assert average_precision(Y[TEST], probability) > 1.5 * Y[TEST].mean()
    assert model.predict_proba(X[TRAIN])[:, 1].mean() == pytest.approx(Y[TRAIN].mean(), rel=0.15)


def test_the_additive_model_is_compared_on_the_same_folds() -> None:
    model = clone(SMALL).set_params(models=["logistic", "additive"]).fit(X[TRAIN], Y[TRAIN])
    assert model.best_ == "additive"
    (additive,) = model.models_["additive"]
    assert isinstance(additive, AdditiveAPClassifier)
    ranking = np.argsort(additive.decision_function(X[TEST]))
    np.testing.assert_array_equal(np.argsort(model.decision_function(X[TEST])), ranking)


def test_models_that_are_not_named_are_not_fitted() -> None:
    model = clone(SMALL).set_params(models=["boosting-5x100", "logistic"]).fit(X[TRAIN], Y[TRAIN])
    assert [*model.out_of_fold_] == ["logistic", "boosting-5x100"]  # the simplest first
    assert model.stack_weights_ == {}


def test_stack_weights_are_not_negative_and_name_the_models() -> None:
    assert [*MODEL.stack_weights_] == ["logistic", "boosting-5x100"]
    assert min(MODEL.stack_weights_.values()) >= 0
    assert max(MODEL.stack_weights_.values()) > 0


def test_probabilities_are_calibrated() -> None:
    probability = MODEL.predict_proba(X[TEST])[:, 1]
    assert probability.mean() == pytest.approx(Y[TEST].mean(), rel=0.2)
    sure = probability > 0.5
    assert Y[TEST][sure].mean() > 0.5 > 2 * Y[TEST][~sure].mean()


def test_without_lightgbm_trees_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apmax.tabular.library.has_lightgbm", lambda: False)
    model = clone(SMALL).fit(X[TRAIN], Y[TRAIN])
    assert isinstance(model.models_["boosting-5x100"][0], HistGradientBoostingClassifier)
    assert model.score(X[TEST], Y[TEST]) > MODEL.score(X[TEST], Y[TEST]) - 0.1


def test_arrays_pandas_and_polars_give_the_same_model() -> None:
    expected = MODEL.decision_function(X[TEST])
    split = np.flatnonzero(TEST)[0]
    for table in (X.to_numpy(dtype=object), pl.from_pandas(X), X.astype({"colour": "category"})):
        train, test = table[:split], table[split:]
        model = clone(SMALL).fit(train, Y[TRAIN])
        np.testing.assert_array_equal(model.decision_function(test), expected)


def test_new_categories_and_missing_values_are_predicted() -> None:
    rows = X[TEST].assign(colour="violet", distance=np.nan)
    assert np.isfinite(MODEL.decision_function(rows)).all()


def test_pos_label_is_the_same_model_mirrored() -> None:
    labels = np.where(Y, "fraud", "ok")
    model = clone(SMALL).set_params(pos_label="fraud").fit(X[TRAIN], labels[TRAIN])
    expected = -MODEL.decision_function(X[TEST])
    np.testing.assert_array_equal(model.decision_function(X[TEST]), expected)
    assert model.score(X[TEST], labels[TEST]) == MODEL.score(X[TEST], Y[TEST])


def test_weights_change_the_share_of_positives() -> None:
    weight = np.where(Y, 3.0, 1.0)
    model = clone(SMALL).fit(X[TRAIN], Y[TRAIN], sample_weight=weight[TRAIN])
    share = np.average(Y[TRAIN], weights=weight[TRAIN])
    mean = np.average(model.predict_proba(X[TRAIN])[:, 1], weights=weight[TRAIN])
    assert mean == pytest.approx(share, rel=0.15)


def test_rows_of_weight_0_do_not_count() -> None:
    weight = np.where(TRAIN, 1.0, 0.0)
    model = clone(SMALL).fit(X, np.where(TRAIN, Y, ~Y), sample_weight=weight)
    expected = MODEL.decision_function(X[TEST])
    np.testing.assert_allclose(model.decision_function(X[TEST]), expected, rtol=1e-9)


def test_groups_are_never_on_both_sides_of_a_split() -> None:
    groups = ROWS[TRAIN] // 10
    splits = StratifiedGroupKFold(2, shuffle=True, random_state=0)
    by_rows = clone(SMALL).set_params(cv=[*splits.split(X[TRAIN], Y[TRAIN], groups)])
    expected = by_rows.fit(X[TRAIN], Y[TRAIN]).decision_function(X[TEST])
    for cv, exact in ((2, True), (GroupKFold(2), False)):
        model = clone(SMALL).set_params(cv=cv).fit(X[TRAIN], Y[TRAIN], groups=groups)
        assert np.array_equal(model.decision_function(X[TEST]), expected) is exact


def test_forward_chaining_predicts_with_models_of_all_rows() -> None:
    model = clone(SMALL).set_params(cv=TimeSeriesSplit(3)).fit(X[TRAIN], Y[TRAIN])
    assert [len(models) for models in model.models_.values()] == [1] * len(model.blend_.members)
    assert model.score(X[TEST], Y[TEST]) > MODEL.score(X[TEST], Y[TEST]) - 0.1


def test_probabilities_after_forward_chaining_are_those_of_late_models() -> None:
    cv = TimeSeriesSplit(5)
    model = AutoAPClassifier(["boosting-20x300"], cv=cv).fit(X[TRAIN], Y[TRAIN])
    held_out = ~np.isnan(model.out_of_fold_["boosting-20x300"])
    *_, (_, before), (_, last) = cv.split(X[TRAIN])  # the last two have 50 positives
    np.testing.assert_array_equal(np.flatnonzero(held_out), [*before, *last])
    # The calibration is that of these rows: as many positives as expected.
    expected = expit(model.out_of_fold_["boosting-20x300"][held_out]).sum()
    assert expected == pytest.approx(Y[TRAIN][held_out].sum(), rel=0.2)


def test_splits_with_most_rows_hold_out_fifty_positives_if_they_can() -> None:
    positive = np.arange(600) % 10 == 0
    chained = list(TimeSeriesSplit(5).split(positive))
    assert with_most_rows(chained, positive) == [0, 1, 2, 3, 4]
    assert with_most_rows(chained, np.arange(600) % 2 == 0) == [4]
    assert with_most_rows(chained, np.arange(600) % 3 == 0) == [3, 4]
    folds = list(GroupKFold(4).split(positive, groups=np.arange(600)))
    assert with_most_rows(folds, positive) == [0, 1, 2, 3]


def test_a_fit_is_reproducible_and_survives_pickling() -> None:
    model = clone(MODEL).fit(X[TRAIN], Y[TRAIN])
    expected = MODEL.decision_function(X[TEST])
    np.testing.assert_array_equal(model.decision_function(X[TEST]), expected)
    stored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(stored.decision_function(X[TEST]), expected)
    assert stored.leaderboard_ == model.leaderboard_


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_the_output_of_transformers_may_be_a_frame_by_default(output: str) -> None:
    expected = MODEL.decision_function(X[TEST])
    with sklearn.config_context(transform_output=output):
        model = clone(SMALL).fit(X[TRAIN], Y[TRAIN])
        np.testing.assert_array_equal(model.decision_function(X[TEST]), expected)


def test_the_seed_decides() -> None:
    forest = clone(SMALL).set_params(models=["random-forest"])
    first, again, other = (
        clone(forest).set_params(random_state=seed).fit(X[TRAIN], Y[TRAIN]).predict_proba(X[TEST])
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_processes_change_nothing() -> None:
    model = clone(SMALL).set_params(n_jobs=2).fit(X[TRAIN], Y[TRAIN])
    expected = MODEL.decision_function(X[TEST])
    np.testing.assert_array_equal(model.decision_function(X[TEST]), expected)


REFUSED: dict[str, tuple[dict[str, Any], Any, Any, type[Exception], str]] = {
    "unknown model": ({"models": ["forest"]}, X, Y, errors.UnknownNameError, "'forest': choose"),
    "a name alone": ({"models": "logistic"}, X, Y, errors.ParameterError, r"models=\['logistic'\]"),
    "no model": ({"models": []}, X, Y, errors.ParameterError, "nothing to fit"),
    "stack of none": ({"models": ["stack"]}, X, Y, errors.ParameterError, "nothing to fit"),
    "budget 0": ({"time_budget": 0}, X, Y, errors.ParameterError, "number of seconds"),
    "budget text": ({"time_budget": "1 h"}, X, Y, errors.ParameterError, "number of seconds"),
    "small budget": ({"time_budget": 1e-9}, X, Y, errors.ParameterError, "too small for one"),
    "one positive": ({}, X, ROWS == 7, errors.ParameterError, "one class has 1"),
    "infinity": ({}, X.assign(age=-np.inf), Y, errors.NonFiniteError, "'age'"),
    "missing labels": (
        {},
        X,
        np.where(ROWS % 9, Y.astype(object), None),
        errors.LabelError,
        "`y` has 134 missing",
    ),
    "unknown rule": ({"select": "1se"}, X, Y, errors.ParameterError, "'1se' must be 'one-se', 'be"),
    "select another": ({"select": "additive"}, X, Y, errors.ParameterError, "one of the models"),
    "stack of one": (
        {"models": ["logistic", "stack"], "select": "stack"},
        X,
        Y,
        errors.ParameterError,
        "'stack'",
    ),
    "three classes": ({}, X, ROWS % 3, errors.LabelError, r"OneVsRestClassifier\(AutoAP"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_fit_that_fails_leaves_no_trace(name: str) -> None:
    options, table, labels, error, message = REFUSED[name]
    model = clone(SMALL).set_params(**options)
    before = dict(vars(model))
    with pytest.raises(error, match=message):
        model.fit(table, labels)
    assert vars(model) == before


@pytest.mark.parametrize("positives", [[5, 900], [5, 400, 900], [5, 7, 400, 900]])
def test_few_positives_give_finite_probabilities(positives: list[int]) -> None:
    model = clone(SMALL).fit(X, np.isin(ROWS, positives))
    assert np.isfinite(model.decision_function(X)).all()


def test_noise_gives_the_share_of_positives() -> None:
    rng = np.random.default_rng(5)
    noise, labels = rng.normal(size=(300, 3)), rng.random(300) < 0.2
    model = clone(SMALL).fit(noise, labels)
    probability = model.predict_proba(rng.normal(size=(300, 3)))[:, 1]
    assert probability.mean() == pytest.approx(labels.mean(), abs=0.1)


def ctrl_c(*_: Any) -> None:
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_keeps_the_models_that_are_complete() -> None:
    model = clone(SMALL)
    model.on_progress = lambda stage, *_: ctrl_c() if stage == "boosting-5x100" else None
    model.fit(X[TRAIN], Y[TRAIN])
    assert [*model.models_] == [model.best_] == ["logistic"]
    assert model.result_.interrupted
    assert not model.result_.converged
    assert model.result_.message == "interrupted: only logistic compared"
    assert np.isfinite(model.decision_function(X[TEST])).all()
    assert not interrupts.interrupted()


def test_a_worker_process_that_ctrl_c_stops_does_not_count_as_a_second_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(*_: Any) -> None:
        ctrl_c()
        raise KeyboardInterrupt  # of the worker

    monkeypatch.setattr("apmax.tabular.search.fit_trees", stopped)
    model = clone(SMALL).fit(X[TRAIN], Y[TRAIN])
    assert [*model.models_] == ["logistic"]


def test_ctrl_c_in_the_additive_model_keeps_those_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_fold = AdditiveAPClassifier._fit_terms

    def interrupted(self: Any, *arguments: Any) -> None:
        self.on_progress = ctrl_c
        on_fold(self, *arguments)

    monkeypatch.setattr(AdditiveAPClassifier, "_fit_terms", interrupted)
    model = clone(SMALL).set_params(models=["logistic", "additive"]).fit(X[TRAIN], Y[TRAIN])
    assert [*model.models_] == ["logistic"]


def test_ctrl_c_before_the_first_model_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        ctrl_c()

    monkeypatch.setattr("apmax.tabular.search.fit_path", interrupted)
    model = clone(SMALL)
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[TRAIN], Y[TRAIN])
    assert vars(model) == before
    assert not interrupts.interrupted()


def test_progress_is_reported_fit_by_fit() -> None:
    reports: list[Any] = []
    model = clone(SMALL).set_params(models=["logistic", "additive", "boosting-5x100"])
    model.on_progress = lambda *report: reports.append(report)
    model.fit(X[TRAIN], Y[TRAIN])
    # The additive model reserves ten fits: those of small alphas and of rows that pairs are
    # judged by may not be needed.
    stages, done, totals, ap = (list(each) for each in zip(*reports, strict=True))
    assert [stage for k, stage in enumerate(stages) if stage not in stages[:k]] == model.models
    assert stages.count("logistic") == stages.count("boosting-5x100") == 2
    assert 6 <= stages.count("additive") <= 10
    assert done[:2] == [1, 2]
    assert (np.diff(done) > 0).all()
    assert done[-1] == 14
    assert set(totals) == {14}
    assert all(0 < one <= 1 for one in ap)


def test_a_wide_table_is_fitted() -> None:
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(200, 1000))).rename(columns=str)
    labels = rng.random(200) < 1 / (1 + np.exp(-3 * wide["0"]))
    model = clone(SMALL).set_params(models=["boosting-5x100"]).fit(wide, labels)
    assert model.score(wide, labels) > 0.7


def test_it_fits_under_metadata_routing() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(SMALL).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(
        model.decision_function(X[TEST]), MODEL.decision_function(X[TEST])
    )


def test_few_positives_warn() -> None:
    with pytest.warns(UserWarning, match="`y` holds 20 positive examples"):
        clone(SMALL).fit(X, np.isin(ROWS, ROWS[Y][:20]))


def test_huge_numbers_are_clipped_for_trees() -> None:
    table = X.assign(distance=X["distance"] * 1e250)
    model = AutoAPClassifier(["logistic", "boosting-5x100", "random-forest"], cv=2)
    model.fit(table[TRAIN], Y[TRAIN])
    assert model.score(table[TEST], Y[TEST]) > 1.5 * Y[TEST].mean()


def test_random_state_may_be_none_or_a_generator() -> None:
    for seed in (None, np.random.RandomState(0)):
        model = clone(SMALL).set_params(models=["boosting-5x100"], random_state=seed)
        assert model.fit(X[TRAIN], Y[TRAIN]).best_ == "boosting-5x100"
