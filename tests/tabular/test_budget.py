"""Time budgets: which models and how many rows. Times are given, not measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from apmax import AutoAPClassifier, errors
from apmax.tabular import budget
from apmax.tabular.budget import LEAST_ROWS, Budget
from apmax.tabular.search import Search
from tests.tabular.additive_table import N, X, Y

SMALL = AutoAPClassifier(["logistic", "boosting-5x100", "boosting-20x300"], cv=2)
HOUR = 3600.0


def per_row(**seconds: float) -> dict[str, Any]:
    return {name: (lambda rows, each=each: each * rows) for name, each in seconds.items()}


def test_everything_fits_into_a_large_budget() -> None:
    plan = Budget(HOUR).plan(per_row(cheap=1e-4, dear=1e-3), 10_000)
    assert (plan.models, plan.rows) == (["cheap", "dear"], 10_000)


def test_rows_are_sampled_before_models_are_left_out() -> None:
    plan = Budget(HOUR).plan(per_row(cheap=0.01, dear=0.1), 1_000_000)
    assert plan.models == ["cheap", "dear"]
    assert LEAST_ROWS < plan.rows < 0.8 * HOUR / 0.11


def test_the_most_expensive_models_are_left_out_first() -> None:
    plan = Budget(HOUR).plan(per_row(cheap=0.1, dear=1.0, dearest=10.0), 1_000_000)
    assert plan.models == ["cheap"]
    assert plan.rows > LEAST_ROWS


def test_the_simplest_model_stays() -> None:
    plan = Budget(HOUR).plan(per_row(simple=1.0, other=0.9), 1_000_000)
    assert plan.models == ["simple"]
    assert 1000 <= plan.rows <= 0.8 * HOUR


def test_a_budget_too_small_for_one_model_is_refused() -> None:
    with pytest.raises(errors.ParameterError, match=r"too small for one model: simple takes about"):
        Budget(HOUR).plan(per_row(simple=100.0), 1_000_000)


def test_one_model_is_fitted_to_few_rows_if_the_trial_fits_took_all_the_time() -> None:
    late = Budget(HOUR)
    late.start -= 2 * HOUR
    plan = late.plan(per_row(simple=0.1, other=0.2), 1_000_000)
    assert (plan.models, plan.rows) == (["simple"], 1000)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan small tables like large ones."""
    monkeypatch.setattr(budget, "SMALL_ENTRIES", 0)


@pytest.mark.usefixtures("planned")
def test_models_that_are_left_out_are_named_in_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"logistic": 1.0, "boosting-5x100": 10.0, "boosting-20x300": 1e6}
    monkeypatch.setattr(Search, "pilot", lambda self, name, count: seconds[name])
    with pytest.warns(UserWarning, match="limit leaves no time for boosting-20x300"):
        model = clone(SMALL).set_params(time_budget=HOUR).fit(X, Y)
    assert [*model.out_of_fold_] == ["logistic", "boosting-5x100"]


@pytest.mark.usefixtures("planned")
def test_the_selected_model_is_never_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"logistic": 1e6, "boosting-5x100": 1e6, "boosting-20x300": 100.0}
    monkeypatch.setattr(Search, "pilot", lambda self, name, count: seconds[name])
    model = clone(SMALL).set_params(time_budget=HOUR, select="boosting-20x300")
    with pytest.warns(UserWarning, match="leaves no time for logistic, boosting-5x100"):
        model.fit(X, Y)
    assert [*model.models_] == [model.best_] == ["boosting-20x300"]


def test_rows_are_sampled_with_a_warning_and_probabilities_stay_calibrated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Search, "pilot", lambda self, name, count: 1.6 * count)
    table = np.tile(X["distance"], 10)[:, None] + np.arange(10 * N)[:, None] * 1e-9
    labels = np.tile(Y, 10)
    model = clone(SMALL).set_params(models=["logistic"], time_budget=4 * HOUR)
    with pytest.warns(UserWarning, match=rf"short for {10 * N:,} rows: .* sample of [\d,]+"):
        model.fit(table, labels)
    assert model.predict_proba(table)[:, 1].mean() == pytest.approx(labels.mean(), rel=0.05)
    sampled = np.isfinite(model.out_of_fold_["logistic"])
    assert sampled.size == 10 * N
    assert sampled.sum() < 10 * N
    assert sampled[labels].mean() > sampled[~labels].mean()


def test_small_tables_need_no_trial_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> float:
        raise AssertionError("a trial fit")

    monkeypatch.setattr(Search, "pilot", refuse)
    model = clone(SMALL).set_params(time_budget=HOUR).fit(X, Y)
    assert [*model.out_of_fold_] == SMALL.models


def test_a_small_table_keeps_the_models_that_are_complete_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fit = Search.fit

    def slow(self: Search, name: str) -> Any:
        found = fit(self, name)
        monkeypatch.setattr(Budget, "left", -1.0)  # from the end of the first model on
        return found

    monkeypatch.setattr(Search, "fit", slow)
    with pytest.warns(UserWarning, match="leaves no time for boosting-5x100, boosting-20x300"):
        model = clone(SMALL).set_params(time_budget=HOUR).fit(X, Y)
    assert [*model.out_of_fold_] == ["logistic"]


@pytest.mark.usefixtures("planned")
def test_a_large_budget_changes_nothing() -> None:
    expected = clone(SMALL).fit(X, Y).decision_function(X)
    actual = clone(SMALL).set_params(time_budget=10 * HOUR).fit(X, Y).decision_function(X)
    np.testing.assert_array_equal(actual, expected)
