"""``python -m experiments``: what the commands print and write."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from experiments.__main__ import app
from experiments.datasets import SETS
from experiments.linear import grid, rates
from experiments.linear.rates import Ladder


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["--json", *words])


def test_table_2_has_the_papers_sizes(real_data: Path) -> None:
    rows = {row["data"]: row for row in json.loads(run("table2").stdout)["table2"]}
    assert (rows["w8a"]["training examples"], rows["w8a"]["test examples"]) == (49749, 14951)
    assert rows["ijcnn1"]["positives"] == pytest.approx(0.0971, abs=5e-5)
    assert rows["mushrooms"]["positives"] == pytest.approx(0.0527, abs=5e-4)


def test_data_sets_can_be_listed_and_fetched(data_sets: Path) -> None:
    assert json.loads(run("data", "list").stdout)["list"]["w8a"] is True
    files = json.loads(run("data", "get", "phishing").stdout)["get"]
    assert files == [str(data_sets / "libsvm" / "phishing.xz")]


def test_a_cell_has_its_repeats_the_papers_number_and_its_command(
    tmp_path: Path, data_sets: Path
) -> None:
    words = ("cell", "soap-sgd", "mushrooms", "--setting", "1,0.9,0.1", "--jobs", "1")
    done = run(*words, "--out", str(tmp_path / "a"))
    assert done.exit_code == 0, done.output
    cell = json.loads(done.stdout)["cell"]
    assert len({one["test_ap"] for one in cell["repeats"]}) > 1  # repeats differ in their split
    assert cell["mean"] > (0.7 if SETS["mushrooms"].features == 64 else 0.95)  # digits
    assert cell["difference"] == pytest.approx(cell["mean"] - 0.997)
    assert cell["command"] == "python -m experiments cell soap-sgd mushrooms --setting 1,0.9,0.1"
    for folder in "ab":  # stored, and computed again
        again = run(*cell["command"].split()[3:], "--jobs", "1", "--out", str(tmp_path / folder))
        assert json.loads(again.stdout)["cell"] == cell


def test_a_cell_without_a_setting_searches_the_grid(
    tmp_path: Path, data_sets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "ETAS", (1.0, 1e-6))  # the second step size learns nothing
    monkeypatch.setattr(grid, "BETAS", (0.9,))
    monkeypatch.setitem(grid.GAMMAS, "squared_hinge", (0.1,))
    done = run("cell", "moap-v2", "mushrooms", "--jobs", "1", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["cell"]["setting"] == {"eta": 1.0, "beta": 0.9, "gamma": 0.1}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("cell", "adapt", "w8a"), "adap-adam"),
        (("cell", "adap-adam", "w8"), "w8a"),
        (("cell", "adap-adam", "w8a", "--setting", "1,2"), "0.1,0.5,0.05"),
        (("cell", "adap-adam", "w8a", "--setting", "1,0,0.1"), "β of setting"),
        (("cell", "logistic", "w8a", "--setting", "1,0.5,0.1"), "logistic has none"),
        (("table4", "--seeds", "0;1"), "0;1"),
        (("table4", "--methods", "adam"), "did you mean 'adap'"),
        (("table4", "--device", "abacus"), "Available names are"),
    ],
)
def test_a_wrong_argument_is_one_line_with_a_remedy(
    words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    done = run(*words, "--out", str(tmp_path))
    assert done.exit_code == 1
    assert says in json.loads(done.stderr)["error"]
    assert not list(tmp_path.iterdir())


def test_rates_write_a_table_a_picture_and_numbers(
    tmp_path: Path, data_sets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "ETAS", (1.0,))
    monkeypatch.setattr(rates, "BETAS", (0.5,))
    monkeypatch.setattr(rates, "QUICK", Ladder("mushrooms", (16, 32, 64), seeds=2))
    words = ["rates", "--quick", "--jobs", "1", "--out"]
    for folder in "ab":
        done = CliRunner().invoke(app, [*words, str(tmp_path / folder)])
        assert done.exit_code == 0, done.output
        assert "Theorem 3" in done.stdout
    for kind in ("json", "md", "svg", "png"):
        first, second = ((tmp_path / f / f"rates-quick.{kind}").read_bytes() for f in "ab")
        assert first == second
