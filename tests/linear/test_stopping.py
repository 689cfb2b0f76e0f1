"""When fits stop, what they keep, and what they say of it."""

from __future__ import annotations

import logging
import signal
import threading
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from apmax import APClassifier, FitResult, errors, interrupts, surrogate_ap
from apmax.linear.design import Design
from apmax.linear.history import EvaluationSet, History
from apmax.linear.platt import Calibration, calibrate
from tests.linear.six_features import SMALL, N, X, Y, make


def test_history_tells_what_happened() -> None:
    model = make("soap-adam", early_stopping=True).fit(X, Y)
    assert set(model.history_) == {
        "step", "seconds", "surrogate_ap", "train_ap", "validation_ap", "gradient_norm"
    }  # fmt: skip
    assert len(model.history_["step"]) >= 1
    assert (np.diff(model.history_["seconds"]) >= 0).all()
    assert np.isfinite(model.history_["validation_ap"]).all()
    assert model.result_ == FitResult(True, False, "completed 4000 rounds", 4000)
    rounds = make("adap-adam", max_iter=1200).fit(X, Y)
    assert rounds.history_["step"].tolist() == [0, 500, 1000, 1200]
    assert rounds.n_iter_ == 1200
    passes = 3 * N / 8 / 500  # a record takes a look at all data, so there are fewer of them
    seldom = make("adap-adam", max_iter=1200, batch_size=8).fit(X, Y)
    assert 1 < passes <= 2
    assert seldom.history_["step"].tolist() == [0, 1000, 1200]
    seldom.set_params(early_stopping=True).fit(X, Y)  # held-out data choose among the records
    assert seldom.history_["step"].tolist() == [0, 500, 1000, 1200]
    assert ((rounds.history_["surrogate_ap"] > 0) & (rounds.history_["surrogate_ap"] <= 1)).all()


def test_early_stopping_keeps_the_best_point_on_held_out_data() -> None:
    options = {"early_stopping": True, "n_iter_no_change": 2, "max_iter": 50_000}
    model = make("soap-sgd", **options).fit(X, Y)
    assert model.n_iter_ < 50_000
    assert model.result_.message.startswith("stopped early")


def test_too_few_iterations_warn_with_a_remedy() -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter = 1: increase max_iter"):
        model = APClassifier(alpha=1e-6, max_iter=1).fit(X, Y)
    assert not model.result_.converged


def test_a_diverging_learning_rate_leaves_finite_weights_and_a_warning() -> None:
    with pytest.warns(ConvergenceWarning, match="lower learning_rate"), np.errstate(all="ignore"):
        model = make("soap-sgd", learning_rate=1e308, alpha=1.0, max_iter=2000).fit(X, Y)
    assert np.isfinite(model.coef_).all()


class CtrlC:
    """Sends SIGINT to this process at the k-th progress report of a fit."""

    def __init__(self, at: int, times: int = 1) -> None:
        self.left, self.calls, self.times = at, 0, times

    def __call__(self, *_: Any) -> None:
        self.calls += 1
        self.left -= 1
        if self.left == 0:
            for _press in range(self.times):
                signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("solver", ["lbfgs", "moap-v2"])
def test_ctrl_c_keeps_the_last_iteration(solver: str) -> None:
    model, ctrl_c = make(solver, alpha=1e-6), CtrlC(at=2)
    model.on_progress = ctrl_c
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X, Y)
    assert model.result_.interrupted
    assert not model.result_.converged
    assert np.isfinite(model.coef_).all()
    assert ctrl_c.calls == 2
    assert not interrupts.interrupted()


def test_ctrl_c_on_the_path_of_a_cross_validation_keeps_logistic_regression() -> None:
    model = clone(SMALL)
    model.on_progress = CtrlC(at=4)  # the first fold of the path, after 3 logistic folds
    with pytest.warns(ConvergenceWarning, match="kept logistic regression"):
        model.fit(X, Y)
    assert model.result_.interrupted
    assert model.alpha_ == np.inf
    assert model.scores_ == {}
    plain = APClassifier(alpha=1e9).fit(X, Y)
    assert np.corrcoef(model.decision_function(X), plain.decision_function(X))[0, 1] > 0.99


def test_ctrl_c_before_that_raises_and_leaves_the_estimator_as_it_was() -> None:
    model = clone(SMALL).fit(X, Y)
    before = model.coef_.copy()
    model.on_progress = CtrlC(at=1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, ~Y)
    np.testing.assert_array_equal(model.coef_, before)
    assert not interrupts.interrupted()


@pytest.mark.parametrize("at", [1, 4], ids=["choice of C", "path"])
def test_a_second_ctrl_c_ends_a_cross_validation(at: int) -> None:
    model = clone(SMALL)
    model.on_progress = ctrl_c = CtrlC(at, times=2)
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt) as raised:
        model.fit(X, Y)
    assert raised.type is KeyboardInterrupt
    assert ctrl_c.calls == at
    assert vars(model) == before
    assert not interrupts.interrupted()


def test_a_second_ctrl_c_in_the_work_of_a_fold_ends_a_cross_validation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def pressed_twice(*_: Any) -> None:
        for _press in range(2):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("apmax.linear.path.relative_penalty", pressed_twice)
    with pytest.raises(KeyboardInterrupt):
        clone(SMALL).fit(X, Y)


def test_a_worker_process_that_ctrl_c_stops_does_not_count_as_a_second_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(*_: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        raise KeyboardInterrupt  # of the worker

    monkeypatch.setattr("apmax.linear.path.relative_penalty", stopped)
    with pytest.warns(ConvergenceWarning, match="kept logistic regression"):
        assert clone(SMALL).fit(X, Y).result_.interrupted


def test_a_second_ctrl_c_that_an_error_hides_is_raised_at_the_next_safe_point() -> None:
    with interrupts.cooperative_interrupts():
        for _press in range(2):
            with suppress(KeyboardInterrupt):  # compiled code replaces it by a SystemError
                signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt) as raised:
            interrupts.raise_if_interrupted()
    assert raised.type is KeyboardInterrupt


def test_a_second_ctrl_c_raises_at_once() -> None:
    with interrupts.cooperative_interrupts():
        signal.raise_signal(signal.SIGINT)
        assert interrupts.interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert not interrupts.interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_leaves_the_outermost_block_as_keyboard_interrupt() -> None:
    seen: list[type[BaseException]] = []

    def interrupted_fit() -> None:
        with interrupts.cooperative_interrupts():
            try:
                with interrupts.cooperative_interrupts():
                    signal.raise_signal(signal.SIGINT)
                    interrupts.raise_if_interrupted()
            except KeyboardInterrupt as inner:
                seen.append(type(inner))
                raise

    with pytest.raises(KeyboardInterrupt) as outer:
        interrupted_fit()
    assert (*seen, outer.type) == (interrupts.CooperativeInterrupt, KeyboardInterrupt)


def test_early_stopping_holds_out_some_of_the_rarest_class() -> None:
    y = np.isin(np.arange(N), [3, 500, 900])
    model = make("soap-adam", early_stopping=True, max_iter=1000).fit(X, y)
    assert np.isfinite(model.history_["validation_ap"]).all()


def test_a_history_keeps_the_point_with_the_best_held_out_ap_and_knows_when_to_stop() -> None:
    held_out = EvaluationSet(
        Design(np.array([[1.0], [2.0], [3.0]])), np.array([False, False, True]), None
    )
    history = History(train=held_out, validation=held_out, patience=2)
    good, bad = np.array([1.0, 0.0]), np.array([-1.0, 0.0])
    assert [history.record(k, w, 0.5, 0.1) for k, w in enumerate((bad, good, bad, bad))] == [
        False, False, False, True
    ]  # fmt: skip
    assert history.best is not None
    np.testing.assert_array_equal(history.best, good)
    assert history.best_ap == max(history.columns()["validation_ap"]) == 1.0


def test_early_stopping_returns_the_best_point_and_not_the_last() -> None:
    options: dict[str, Any] = {"early_stopping": True, "schedule": "constant"}
    model = make("soap-sgd", n_iter_no_change=3, **options).fit(X, Y)
    best = int(np.argmax(model.history_["validation_ap"]))
    assert model.history_["step"][best] < model.n_iter_
    best_step = int(model.history_["step"][best])
    shorter = make("soap-sgd", max_iter=best_step, **options).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, shorter.coef_)


@pytest.mark.parametrize("solver", ["soap-adam", "adap-adam", "sox"])
def test_a_rate_that_saturates_all_scores_warns(solver: str) -> None:
    model = make(solver, learning_rate=1e6)
    with pytest.warns(ConvergenceWarning, match="no better than at the start; lower learning_rate"):
        model.fit(X, Y)
    assert not model.result_.converged
    assert np.isfinite(model.coef_).all()


def test_a_run_that_ends_badly_is_no_divergence_if_its_best_point_is_kept() -> None:
    options = {"learning_rate": 1e6, "max_iter": 2000}
    with pytest.warns(ConvergenceWarning, match="no better than at the start"):
        make("soap-adam", **options).fit(X, Y)
    held_out = {"early_stopping": True, "n_iter_no_change": 100, "validation_fraction": 0.3}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = make("soap-adam", **options, **held_out).fit(X, Y)
    assert max(model.history_["validation_ap"]) > model.history_["validation_ap"][0]


@pytest.mark.parametrize("rate", [1e3, 1e200])
def test_a_learning_rate_that_ruins_the_ranking_warns(rate: float) -> None:
    with pytest.warns(ConvergenceWarning, match="lower learning_rate"):
        make("soap-sgd", learning_rate=rate, alpha=1.0).fit(X, Y)


@pytest.mark.parametrize("surrogate", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("weight", [None, np.arange(1.0, N + 1)], ids=["plain", "weighted"])
def test_the_history_starts_at_the_surrogate_of_equal_scores(surrogate: str, weight: Any) -> None:
    model = make("soap-sgd", surrogate=surrogate, max_iter=500)
    first = model.fit(X, Y, sample_weight=weight).history_["surrogate_ap"][0]
    exact = surrogate_ap(np.full(N, 0.5), Y, surrogate=surrogate, sample_weight=weight)
    assert first == pytest.approx(exact.value, rel=1e-9)


@pytest.mark.parametrize("model", [APClassifier(), SMALL, make("soap-adam", max_iter=500)])
def test_a_failed_refit_leaves_every_attribute_as_it_was(model: Any) -> None:
    model = clone(model).fit(X, Y)
    before = dict(vars(model))
    for features, labels in ((X[:, :3], np.zeros(N)), (X[:, :3] * 1e200, Y)):
        with pytest.raises(errors.InputError):
            model.fit(features, labels)
        assert vars(model) == before


def test_ctrl_c_during_calibration_keeps_the_fit_and_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupted_calibrate(*arguments: Any, **options: Any) -> Calibration:
        signal.raise_signal(signal.SIGINT)
        return calibrate(*arguments, **options)

    monkeypatch.setattr("apmax.linear.base.calibrate", interrupted_calibrate)
    with caplog.at_level(logging.WARNING, "apmax"):
        model = APClassifier().fit(X, Y)
    assert model.result_.converged
    assert np.isfinite(model.coef_).all()
    assert [one.message.split(":")[0] for one in caplog.records] == [
        "stopping at the next safe point; press Ctrl-C again to stop at once",
        "Ctrl-C came after the last safe point",
    ]


def test_ctrl_c_that_ends_a_fit_is_not_reported_as_late(caplog: pytest.LogCaptureFixture) -> None:
    model = make("lbfgs", alpha=1e-6)
    model.on_progress = CtrlC(at=2)
    with caplog.at_level(logging.WARNING, "apmax"), pytest.warns(ConvergenceWarning):
        model.fit(X, Y)
    assert [one.message.split(";")[0] for one in caplog.records] == [
        "stopping at the next safe point"
    ]


def test_the_objective_is_not_validated_inside_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("validated again")

    for name in ("check_scores", "check_labels", "check_weights", "check_same_length"):
        monkeypatch.setattr(f"apmax.objective.exact.{name}", refuse)
    assert APClassifier().fit(X, Y).result_.converged


def test_ctrl_c_during_a_hold_is_not_forgotten() -> None:
    with interrupts.cooperative_interrupts():
        with interrupts.interrupt_on_hold():
            signal.raise_signal(signal.SIGINT)
        assert interrupts.interrupted()
    assert not interrupts.interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_holds_of_several_threads_that_overlap_end() -> None:
    first_began, second_began = threading.Event(), threading.Event()

    def first() -> None:
        with interrupts.interrupt_on_hold():
            first_began.set()
            second_began.wait()

    def second() -> None:
        first_began.wait()
        with interrupts.interrupt_on_hold():
            second_began.set()
            threads[0].join()

    threads = [threading.Thread(target=one) for one in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with interrupts.cooperative_interrupts():
        signal.raise_signal(signal.SIGINT)
        assert interrupts.interrupted()
