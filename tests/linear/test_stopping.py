"""When fits stop, what they keep, and what they say of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from tests.linear.six_features import SMALL, N, X, Y

from apmax import APClassifier, errors, surrogate_ap
from apmax.linear.design import Design
from apmax.linear.history import History, Watched


def test_history_tells_what_happened() -> None:
    model = APClassifier(alpha=1e-3, early_stopping=True, random_state=0).fit(X, Y)
    assert set(model.history_) == {
        "step", "seconds", "surrogate_ap", "train_ap", "validation_ap", "gradient_norm"
    }  # fmt: skip
    assert len(model.history_["step"]) >= 1
    assert (np.diff(model.history_["seconds"]) >= 0).all()
    assert np.isfinite(model.history_["validation_ap"]).all()
    assert str(model.status_)
    rounds = APClassifier("adap-adam", max_iter=1200, random_state=0).fit(X, Y)
    assert rounds.history_["step"].tolist() == [0, 500, 1000, 1200]
    assert rounds.n_iter_ == 1200
    passes = 3 * N / 4 / 500  # a record takes a look at all data, so there are fewer of them
    seldom = APClassifier("adap-adam", max_iter=1200, batch_size=4, random_state=0).fit(X, Y)
    assert 1 < passes <= 2
    assert seldom.history_["step"].tolist() == [0, 1000, 1200]
    seldom.set_params(early_stopping=True).fit(X, Y)  # held-out data choose among the records
    assert seldom.history_["step"].tolist() == [0, 500, 1000, 1200]
    assert ((rounds.history_["surrogate_ap"] > 0) & (rounds.history_["surrogate_ap"] <= 1)).all()


def test_early_stopping_keeps_the_best_point_on_held_out_data() -> None:
    model = APClassifier(
        "soap-sgd", early_stopping=True, n_iter_no_change=2, max_iter=50_000, random_state=0
    ).fit(X, Y)
    assert model.n_iter_ < 50_000
    assert "stopped early" in str(model.status_)


def test_warm_start_goes_on_from_where_it_was() -> None:
    model = APClassifier(alpha=1e-3, warm_start=True).fit(X, Y)
    assert model.fit(X, Y).n_iter_ <= 3


def test_too_few_iterations_warn_with_a_remedy() -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter = 1: raise max_iter"):
        model = APClassifier(alpha=1e-6, max_iter=1).fit(X, Y)
    assert not model.status_.converged


def test_a_diverging_learning_rate_leaves_finite_weights_and_a_warning() -> None:
    with pytest.warns(ConvergenceWarning, match="lower learning_rate"), np.errstate(all="ignore"):
        model = APClassifier(
            "soap-sgd", learning_rate=1e308, alpha=1.0, random_state=0, max_iter=2000
        ).fit(X, Y)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("solver", ["lbfgs", "moap-v2"])
def test_ctrl_c_keeps_what_has_been_reached(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {"n": 0}
    original = History.record

    def interrupt(self: Any, *arguments: Any) -> bool:
        calls["n"] += 1
        if calls["n"] == 2:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(History, "record", interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = APClassifier(solver, alpha=1e-6, random_state=0).fit(X, Y)
    assert np.isfinite(model.coef_).all()
    assert calls["n"] == 2


def test_early_stopping_holds_out_some_of_the_rarest_class() -> None:
    y = np.isin(np.arange(N), [3, 500, 900])
    model = APClassifier(early_stopping=True, random_state=0).fit(X, y)
    assert np.isfinite(model.history_["validation_ap"]).all()


def test_a_history_keeps_the_point_with_the_best_held_out_ap_and_knows_when_to_stop() -> None:
    held_out = Watched(
        Design(np.array([[1.0], [2.0], [3.0]])), np.array([False, False, True]), None
    )
    history = History(train=held_out, validation=held_out, patience=2, verbose=False)
    good, bad = np.array([1.0, 0.0]), np.array([-1.0, 0.0])
    assert [history.record(k, w, 0.5, 0.1) for k, w in enumerate((bad, good, bad, bad))] == [
        False, False, False, True
    ]  # fmt: skip
    assert history.best is not None
    np.testing.assert_array_equal(history.best, good)
    assert history.best_ap == max(history.columns()["validation_ap"]) == 1.0


def test_early_stopping_returns_the_best_point_and_not_the_last() -> None:
    options: dict[str, Any] = {"early_stopping": True, "random_state": 1, "schedule": "constant"}
    model = APClassifier("soap-sgd", n_iter_no_change=3, **options).fit(X, Y)
    best = int(np.argmax(model.history_["validation_ap"]))
    assert model.history_["step"][best] < model.n_iter_
    best_step = int(model.history_["step"][best])
    shorter = APClassifier("soap-sgd", max_iter=best_step, **options).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, shorter.coef_)


@pytest.mark.parametrize("model", [APClassifier(), SMALL])
def test_ctrl_c_on_the_way_to_the_last_fit_stops_it(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Design, "pull_back", interrupt)
    with pytest.raises(KeyboardInterrupt):
        clone(model).fit(X, Y)


@pytest.mark.parametrize("solver", ["soap-adam", "adap-adam", "sox"])
def test_a_rate_that_saturates_all_scores_is_told(solver: str) -> None:
    model = APClassifier(solver, learning_rate=1e6, random_state=0)
    with pytest.warns(ConvergenceWarning, match="no better than at the start; lower learning_rate"):
        model.fit(X, Y)
    assert not model.status_.converged
    assert np.isfinite(model.coef_).all()


def test_a_run_that_ends_badly_is_no_divergence_if_its_best_point_is_kept() -> None:
    options = {"learning_rate": 1e6, "random_state": 0, "max_iter": 2000}
    with pytest.warns(ConvergenceWarning, match="no better than at the start"):
        APClassifier("soap-adam", **options).fit(X, Y)
    held_out = {"early_stopping": True, "n_iter_no_change": 100, "validation_fraction": 0.3}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = APClassifier("soap-adam", **options, **held_out).fit(X, Y)
    assert max(model.history_["validation_ap"]) > model.history_["validation_ap"][0]


def test_a_warm_start_from_a_good_fit_is_no_divergence() -> None:
    model = APClassifier("soap-adam", warm_start=True, random_state=0, max_iter=500).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, Y)
    assert model.status_.converged


@pytest.mark.parametrize("rate", [1e3, 1e200])
def test_a_learning_rate_that_ruins_the_ranking_is_told(rate: float) -> None:
    with pytest.warns(ConvergenceWarning, match="lower learning_rate"):
        APClassifier("soap-sgd", learning_rate=rate, random_state=0, alpha=1.0).fit(X, Y)


def test_warm_start_with_other_features_is_refused() -> None:
    model = APClassifier(warm_start=True).fit(X, Y)
    for fewer in (X[:, :3], X[:, :3].tolist()):
        with pytest.raises(errors.ParameterError, match="6 features and X has 3"):
            model.fit(fewer, Y)
    assert model.predict(X).shape == Y.shape  # as it was


@pytest.mark.parametrize("surrogate", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("weight", [None, np.arange(1.0, N + 1)], ids=["plain", "weighted"])
def test_the_history_starts_at_the_surrogate_of_equal_scores(surrogate: str, weight: Any) -> None:
    model = APClassifier("soap-sgd", surrogate=surrogate, max_iter=500, random_state=0)
    first = model.fit(X, Y, sample_weight=weight).history_["surrogate_ap"][0]
    exact = surrogate_ap(np.full(N, 0.5), Y, surrogate=surrogate, sample_weight=weight)
    assert first == pytest.approx(exact.value, rel=1e-9)
