"""The command `apmax demo`."""

from __future__ import annotations

from pathlib import Path

import pytest

from apmax.app.cli import demo
from apmax.app.io import load
from tests.app.loans import as_json


def test_the_demo_compares_all_models_and_writes_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "SETTINGS", {"folds": 2, "jobs": 1})
    result = as_json("demo", "--out", str(tmp_path / "out"))
    ap = {one["model"]: one["ap"] for one in result["leaderboard"]}
    assert {"logistic", "additive", "boosting-5x100", "extra-trees", "stack"} <= set(ap)
    assert ap["stack"] > ap["logistic"] + 0.1
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Diseased trees in satellite images" in page
    assert result["advice"] in page
    assert "Effects in additive" in page
    assert (tmp_path / "out" / "tables" / "leaderboard.csv").is_file()


def test_the_data_of_the_demo_have_a_source_and_a_licence() -> None:
    dataset = load(demo.DATA, target=demo.TARGET)
    assert dataset.counts == {"diseased": 257, "other": 4562}
    assert dataset.positive == "diseased"
    assert list(dataset.X) == ["texture", "green", "red", "near_infrared", "variation"]
    readme = (demo.DATA.parent / "README.md").read_text(encoding="utf-8")
    assert "Creative Commons Attribution 4.0" in readme
    assert "10.24432/C5KS4M" in readme


@pytest.mark.parametrize(
    ("found", "program", "command"),
    [
        ("/bin/apmax", "/bin/apmax", "apmax"),
        (None, ".venv/bin/apmax", ".venv/bin/apmax"),
        (None, "/lib/apmax/__main__.py", "python -m apmax"),
    ],
)
def test_the_next_command_can_be_run_from_here(
    monkeypatch: pytest.MonkeyPatch, found: str | None, program: str, command: str
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: found)
    monkeypatch.setattr("sys.argv", [program])
    assert demo._apmax() == command
