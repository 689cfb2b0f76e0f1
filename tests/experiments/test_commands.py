"""apmax paper from the command line: a cell again, figures and rates with files beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.datasets import data_folder
from typer.testing import CliRunner

from apmax.app.cli import app
from experiments import protocol, rates
from experiments.rates import CLAIMS, Ladder

needs_data = pytest.mark.skipif(data_folder() is None, reason="needs the LIBSVM sets: APMAX_DATA")


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["--json", "paper", *words])


@needs_data
def test_a_cell_says_its_repeats_the_papers_number_and_how_to_make_it_again(
    tmp_path: Path,
) -> None:
    words = ("cell", "soap-sgd", "mushrooms", "--setting", "1,0.9,0.1", "--jobs", "1")
    done = run(*words, "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    cell = json.loads(done.stdout)["cell"]
    assert len(cell["repeats"]) == 5
    assert cell["published"] == 0.997
    assert cell["command"] == "apmax paper cell soap-sgd mushrooms --setting 1,0.9,0.1"
    again = json.loads(run(*cell["command"].split()[2:], "--out", str(tmp_path)).stdout)["cell"]
    assert again == cell


@needs_data
def test_a_cell_without_a_setting_searches_the_grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "ETAS", (1.0, 1e-6))  # a step of nothing learns nothing
    monkeypatch.setattr(protocol, "BETAS", (0.9,))
    monkeypatch.setitem(protocol.GAMMAS, "squared_hinge", (0.1,))
    done = run("cell", "moap-v2", "mushrooms", "--jobs", "1", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["cell"]["setting"] == {"eta": 1.0, "beta": 0.9, "gamma": 0.1}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("cell", "adapt", "w8a"), "adap-adam"),
        (("cell", "adap-adam", "w8"), "w8a"),
        (("cell", "adap-adam", "w8a", "--setting", "1,2"), "0.1,0.5,0.05"),
    ],
    ids=["method", "data", "setting"],
)
def test_what_is_not_known_is_one_line_with_a_remedy(
    words: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    done = run(*words, "--out", str(tmp_path))
    assert done.exit_code == 1
    assert told in json.loads(done.stderr)["error"]
    assert not list(tmp_path.glob("*/*.json"))


@needs_data
def test_rates_write_a_table_a_picture_and_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "ETAS", (1.0,))
    monkeypatch.setattr(rates, "BETAS", (0.5,))
    monkeypatch.setattr(rates, "QUICK", Ladder("mushrooms", (16, 32, 64), seeds=2))
    done = run("rates", "--quick", "--jobs", "1", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "rates-quick.json").read_text())
    assert [one["run"] for one in told["rates"]] == list(CLAIMS)
    assert "Theorem 3" in (tmp_path / "rates-quick.md").read_text()
    for kind in ("svg", "png"):
        assert (tmp_path / f"rates-quick.{kind}").stat().st_size > 1000
