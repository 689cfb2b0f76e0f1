"""The command `apmax demo`."""

from __future__ import annotations

from pathlib import Path

import pytest

from apmax.app.cli import demo
from tests.app.loans import as_json


def test_the_demo_prints_a_leaderboard_and_writes_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "FOLDS", 2)
    models = as_json("demo", "--out", str(tmp_path / "out"))["models"]
    assert "gradient boosting" in models
    assert all(model["mean"] > 0.7 for model in models.values())
    page = (tmp_path / "out" / "report.html").read_text()
    assert "digit 8 among all digits" in page
    assert "Leaderboard" in page
