"""The command `apmax demo`."""

from __future__ import annotations

from pathlib import Path

import pytest

from apmax.app import demo
from tests.app.loans import as_json


def test_the_demo_prints_a_table_and_writes_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "DIGITS", 2)
    monkeypatch.setattr(demo, "REPORTED_DIGIT", 1)
    result = as_json("demo", "--out", str(tmp_path / "out"))
    assert list(result) == ["digit 0", "digit 1", "mean"]
    assert set(result["mean"]) == set(demo.MODELS)
    assert all(ap > 0.5 for ap in result["mean"].values())
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Digit 1 among the others" in page
    assert (tmp_path / "out" / "precision-recall.svg").stat().st_size > 5000
