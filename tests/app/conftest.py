"""A working folder with two small tables, and one thread per process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from tests.app.loans import made_loans


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """OpenMP threads that wait for each other are slow on a busy machine."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made_loans(600, 0).to_csv("loans.csv", index=False)
    made_loans(400, 1).to_csv("new-loans.csv", index=False)
    return tmp_path
