"""Linear models of a sparse matrix, compared on the same folds."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from apmax.app.linear_search import LINEAR, fit_linear
from apmax.linear import APClassifierCV
from apmax.splits import make_splits
from apmax.tabular.library import LOGISTIC

RNG = np.random.default_rng(0)
X = sp.random(600, 20, 0.3, format="csr", random_state=0)
Y = np.asarray(X.sum(axis=1)).ravel() + RNG.normal(size=600) > 4.5


def press_in_the_second_model(times: int) -> Callable[..., None]:
    def press(stage: str, *_: object) -> None:
        if stage != LOGISTIC:
            for _press in range(times):
                signal.raise_signal(signal.SIGINT)

    return press


def fitted(on_progress: Callable[..., None]) -> Any:
    names = [LOGISTIC, LINEAR]
    return fit_linear(X, Y, None, make_splits(2, X, Y), names, jobs=1, on_progress=on_progress)


def test_ctrl_c_keeps_the_models_that_are_complete() -> None:
    found = fitted(press_in_the_second_model(times=1))
    assert found.interrupted
    assert [*found.out_of_fold] == [LOGISTIC]


def test_a_second_ctrl_c_ends_the_comparison() -> None:
    with pytest.raises(KeyboardInterrupt):
        fitted(press_in_the_second_model(times=2))


def test_a_model_without_held_out_scores_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while alpha is chosen ends the fit of APClassifierCV with logistic regression."""
    average_path = APClassifierCV._average_path

    def press(self: Any, *arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return average_path(self, *arguments)

    monkeypatch.setattr(APClassifierCV, "_average_path", press)
    found = fitted(lambda *_: None)
    assert found.interrupted
    assert [one.model for one in found.leaderboard] == [LOGISTIC]
    with pytest.raises(KeyboardInterrupt):
        fit_linear(X, Y, None, make_splits(2, X, Y), [LINEAR], jobs=1, on_progress=None)
