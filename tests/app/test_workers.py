"""Processes that share the fits."""

from __future__ import annotations

import os

import pytest
from joblib import parallel_config

from apmax.app import workers


@pytest.mark.parametrize("backend", ["threading", "sequential"])
def test_without_processes_nothing_ends_with_its_parent(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    watched: list[int] = []
    monkeypatch.setattr(workers, "end_with", watched.append)
    with parallel_config(backend):
        workers.start_workers(2)
    assert watched == []


def test_only_a_child_of_the_command_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[int] = []
    monkeypatch.setattr(workers, "end_with", watched.append)
    for owner in (os.getpid(), 1 + max(os.getpid(), os.getppid()), os.getppid()):
        assert workers._begin(owner) == os.getpid()
    assert watched == [os.getppid()]
