"""Processes that share the fits."""

from __future__ import annotations

from typing import Any

import pytest
from joblib import parallel_config

from apmax.app import workers


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
