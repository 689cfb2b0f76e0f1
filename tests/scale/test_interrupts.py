"""Ctrl-C within a pass: the last iteration is kept, and a checkpoint continues with equal bits."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apmax import interrupts
from apmax.interrupts import (
    cooperative_interrupts,
    interrupt_on_hold,
    raise_if_interrupted,
)
from apmax.lbfgs import minimise
from apmax.scale.blocks import MemoryBlocks, Progress
from apmax.scale.checkpoint import Checkpoint
from apmax.scale.fit import LinearFit, Settings, fit

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask.array as da  # noqa: E402

from apmax.dask import DaskAPClassifier  # noqa: E402
from apmax.scale import cluster  # noqa: E402
from tests.dask_clusters import client_of, of_threads  # noqa: E402

RNG = np.random.default_rng(2)
X = RNG.normal(size=(1000, 3))
Y = X[:, 0] + RNG.logistic(size=1000) > 2
SETTINGS = Settings(gamma=1.0, alpha=0.05, max_iter=50, tol=1e-4, C=1.0)


class Pressed(MemoryBlocks):
    """Blocks during whose pass of a number Ctrl-C is pressed."""

    def __init__(self, at: int) -> None:
        super().__init__(X, Y, rows=300)
        self.left = at

    def merged(self, call: Any, merge: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)
        raise_if_interrupted()
        return super().merged(call, merge)


def passes() -> int:
    engine = Pressed(0)
    fit(engine, SETTINGS)
    return -engine.left


def test_ctrl_c_in_any_pass_keeps_the_last_iteration_and_the_checkpoint(tmp_path: Path) -> None:
    whole, seen = fit(Pressed(0), SETTINGS), list[str]()
    for at in range(1, passes() + 1):
        path = tmp_path / str(at)
        found: LinearFit | None = None
        with suppress(KeyboardInterrupt), cooperative_interrupts():
            found = fit(Pressed(at), SETTINGS, checkpoint=Checkpoint(path))
        seen.append("nothing" if found is None else found.result.message)
        assert found is None or found.w.any()
        resumed = fit(Pressed(0), SETTINGS, checkpoint=Checkpoint(path))
        np.testing.assert_array_equal(resumed.w, whole.w)
    # Before the first iteration there is nothing to keep; the calibration at the end completes.
    assert list(dict.fromkeys(seen)) == [
        "nothing",
        "interrupted: kept the logistic regression",
        "interrupted: kept the last iteration",
        whole.result.message,
    ]


def test_ctrl_c_after_the_logistic_regression_keeps_it_in_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed_after(*arguments: Any, **options: Any) -> Any:
        found = minimise(*arguments, **options)
        signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr("apmax.scale.fit.minimise", pressed_after)
    with cooperative_interrupts():
        found = fit(Pressed(0), SETTINGS, checkpoint=Checkpoint(tmp_path / "fit.json"))
    assert found.result.message == "interrupted: kept the logistic regression"
    monkeypatch.undo()
    stages: list[str] = []
    progress = Progress(lambda stage, *_: stages.append(stage))
    fit(Pressed(0), SETTINGS, checkpoint=Checkpoint(tmp_path / "fit.json"), progress=progress)
    assert {*stages} == {"average precision"}


def test_a_second_ctrl_c_ends_a_step_on_hold() -> None:
    with cooperative_interrupts():
        signal.raise_signal(signal.SIGINT)
        with interrupt_on_hold():
            raise_if_interrupted()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert interrupts.interrupted()


@pytest.fixture
def client() -> Iterator[Any]:
    with of_threads(1) as of_one, client_of(of_one) as client:
        yield client


RELEASED = threading.Event()


def hang() -> bool:
    signal.raise_signal(signal.SIGINT)  # which the main thread handles
    return RELEASED.wait(120)


def test_ctrl_c_does_not_wait_for_a_task_that_hangs(client: Any, monkeypatch: Any) -> None:
    RELEASED.clear()
    compute, futures = client.compute, []

    def spy(*arguments: Any, **options: Any) -> Any:
        futures.append(compute(*arguments, **options))
        return futures[-1]

    monkeypatch.setattr(client, "compute", spy)
    try:
        with pytest.raises(KeyboardInterrupt), cooperative_interrupts():
            cluster.result_of(client, dask.delayed(hang)(), 300)
        assert [one.cancelled() for one in futures] == [True]
    finally:
        RELEASED.set()


def test_a_fit_on_a_cluster_that_ctrl_c_stops_in_a_pass_resumes(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = da.from_array(X, chunks=(300, 3)), da.from_array(Y, chunks=300)
    whole = DaskAPClassifier(alpha=0.05).fit(*data)
    finished, folds = cluster._finished, [0]

    def pressed(future: Any, timeout: float) -> bool:
        """Press Ctrl-C in the tenth pass, which never ends."""
        folds[0] += 1
        if folds[0] == 10:
            signal.raise_signal(signal.SIGINT)
        return not interrupts.interrupted() and finished(future, 300)

    monkeypatch.setattr(cluster, "_finished", pressed)
    model = DaskAPClassifier(alpha=0.05, checkpoint=tmp_path / "fit.json")
    with warnings.catch_warnings(action="ignore"):
        model.fit(*data)
    assert model.result_.interrupted
    monkeypatch.undo()
    model.fit(*data)
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    np.testing.assert_array_equal(model.intercept_, whole.intercept_)
    assert list(tmp_path.iterdir()) == []
