"""A second Ctrl-C ends the fit of a model of tables at once and leaves the model as it was."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from apmax import AdditiveAPClassifier, AutoAPClassifier, interrupts
from tests.tabular.additive_table import TRAIN, X, Y


def press_twice_in(wanted: str) -> Callable[..., None]:
    def press(stage: str, *_: Any) -> None:
        if stage.startswith(wanted):
            for _press in range(2):
                signal.raise_signal(signal.SIGINT)

    return press


@pytest.mark.parametrize(
    ("model", "stage"),
    [
        (AdditiveAPClassifier(interactions=1, cv=2), "path over alpha"),
        (AdditiveAPClassifier(interactions=1, cv=2), "held-out rows"),
        (AutoAPClassifier(["logistic", "boosting-5x100"], cv=2), "boosting"),
        (AutoAPClassifier(["logistic", "additive"], cv=2), "additive"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_a_second_ctrl_c_ends_the_fit(model: Any, stage: str) -> None:
    model.on_progress = press_twice_in(stage)
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt) as raised:
        model.fit(X[TRAIN], Y[TRAIN])
    assert raised.type is KeyboardInterrupt
    assert vars(model) == before
    assert not interrupts.interrupted()
