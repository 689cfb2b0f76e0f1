"""A working folder with two small tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.loans import made_loans


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made_loans(600, 0).to_csv("loans.csv", index=False)
    made_loans(400, 1).to_csv("new-loans.csv", index=False)
    return tmp_path
