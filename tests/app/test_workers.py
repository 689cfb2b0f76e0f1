"""Processes that share the fits: how many, and when they start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config

from apmax.app import training, workers
from apmax.app.io import Dataset
from apmax.app.training import train_model
from apmax.app.workers import start_workers

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 8))
SMALL = Dataset(X, X[:, 0] + RNG.normal(size=2000) > 2, Path("x.npz"), "1", "0")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the numbers of processes that are started, and start none."""
    found: list[Any] = []
    monkeypatch.setattr(training, "start_workers", found.append)
    return found


def test_small_work_stays_in_one_process_unless_a_number_is_given(
    started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    train_model(SMALL, model="logistic", folds=2)
    train_model(SMALL, model="logistic", folds=2, jobs=2)
    monkeypatch.setattr(training, "SMALL_WORK", X.size)
    train_model(SMALL, model="logistic", folds=2)
    assert started == [1, 2, 1]
    monkeypatch.setattr(training, "SMALL_WORK", X.size - 1)
    train_model(SMALL, model="logistic", folds=2)
    assert started[-1] == -1


def test_the_work_counts_every_model_that_is_fitted() -> None:
    rows = np.zeros((training.SMALL_WORK // 7 // 10, 10))  # "auto" compares seven and their stack
    assert training._processes(rows, "auto", linear=False) == 1
    assert training._processes(np.vstack([rows, rows]), "auto", linear=False) == -1
    assert training._processes(np.vstack([rows, rows]), "additive", linear=False) == 1


def test_workers_have_imported_the_models_before_the_first_fit() -> None:
    start_workers(2)
    loaded = "'apmax.tabular.search' in __import__('sys').modules"
    assert all(Parallel(n_jobs=2)(delayed(eval)(loaded) for _ in range(8)))


@pytest.mark.parametrize(("backend", "prepared"), [("threading", False), ("loky", True)])
def test_only_processes_of_the_command_are_made_to_end_with_it(
    monkeypatch: pytest.MonkeyPatch, backend: str, prepared: bool
) -> None:
    calls: list[Any] = []

    def record(tasks: Any) -> list[int]:
        calls.extend(tasks)
        return [1, 2]

    monkeypatch.setattr(workers, "Parallel", lambda **_: record)
    with parallel_config(backend):
        workers.start_workers(2)
    assert bool(calls) == prepared
    assert all(function is workers._begin for function, *_ in calls)
