"""The paper's protocol: its grid, its choices, and results that are never mixed up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.datasets import data_folder

from apmax.app.data import PaperSet
from apmax.errors import ParameterError, UnknownNameError
from apmax.methods import METHODS
from experiments import linear_table, rates, store
from experiments.linear_table import Cell, check_key, run_cells
from experiments.protocol import (
    BETAS,
    DATA,
    ETAS,
    PAPER_METHODS,
    SAME_AP,
    Outcome,
    Setting,
    best_setting,
    settings_of,
)
from experiments.store import Store, Unit

needs_data = pytest.mark.skipif(data_folder() is None, reason="needs the LIBSVM sets: APMAX_DATA")


def test_the_grid_is_the_papers() -> None:
    for method in PAPER_METHODS:
        grid = settings_of(METHODS[method])
        assert {setting.eta for setting in grid} == set(ETAS)
        expected = set(BETAS) if method != "smoothap" else {BETAS[0]}
        assert {setting.beta for setting in grid} == expected
        assert len(set(grid)) == len(grid)


def test_the_highest_training_ap_is_chosen() -> None:
    row = METHODS["adap-adam"]
    train_aps = np.full(len(settings_of(row)), 0.1)
    train_aps[7] = 0.9
    assert best_setting(row, train_aps) == 7


@pytest.mark.parametrize(("method", "gamma"), [("adap-adam", 1.0), ("smoothap", 1.0)])
def test_of_equals_the_widest_margin_and_then_the_smallest_step_is_chosen(
    method: str, gamma: float
) -> None:
    row = METHODS[method]
    grid = settings_of(row)
    train_aps = np.full(len(grid), 1.0)
    train_aps[::3] -= SAME_AP / 2
    chosen = grid[best_setting(row, train_aps)]
    assert (chosen.eta, chosen.gamma) == (min(ETAS), gamma)


def test_the_grid_never_sees_test_data(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 4)), np.arange(60) < 25
    poison = np.full((3, 4), np.nan)
    blind = PaperSet(X, y, poison, np.array([True, False, True]))
    monkeypatch.setattr(linear_table, "load", lambda name, repeat: blind)
    monkeypatch.setattr(
        linear_table, "settings_of", lambda row: [Setting(1.0, 0.9, 0.1), Setting(0.1, 0.5, 0.5)]
    )
    aps = linear_table._grid("moap-v2", "w8a", 0)
    assert len(aps) == 2
    assert all(0 < ap <= 1 for ap in aps)


def test_a_setting_can_be_written_and_read() -> None:
    for one in settings_of(METHODS["soap-adam"]):
        assert Setting.read(one.spelled, "soap-adam") == one
    for wrong in ("1,2", "a,b,c", "-1,0.5,0.1", "1,0,0.1", "1,0.5,0"):
        with pytest.raises(ParameterError):
            Setting.read(wrong, "soap-adam")
    with pytest.raises(ParameterError, match="logistic has none"):
        Setting.read("1,0.5,0.1", "logistic")


def counted(path: str, number: int) -> int:
    with Path(path).open("a") as file:
        file.write(f"{number}\n")
    return number * number


def test_a_killed_run_goes_on_and_other_code_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = str(tmp_path / "log")
    units = [Unit(counted, (log, number)) for number in range(6)]
    monkeypatch.setattr(Unit, "name", property(lambda unit: f"unit-{unit.arguments[1]}"))
    first: Any = Store(tmp_path / "results").results(units, jobs=1)
    for _ in range(3):
        next(first)
    first.close()  # as if it had been killed here
    done = dict(Store(tmp_path / "results").results(units, jobs=1))
    assert sorted(done.values()) == [0, 1, 4, 9, 16, 25]
    assert len(Path(log).read_text().split()) <= 7  # nothing that was kept is done again
    monkeypatch.setattr(store, "code_digest", lambda work: "other code")
    dict(Store(tmp_path / "results").results(units, jobs=1))
    assert len(Path(log).read_text().split()) >= 12


@needs_data
def test_a_cell_is_the_same_twice_and_learns(tmp_path: Path) -> None:
    key = ("moap-v2", "mushrooms")
    settings = {key: Setting(1.0, 0.9, 0.1)}
    (first,), (second,) = (
        run_cells(Store(tmp_path / str(k)), [key], settings, jobs=1) for k in range(2)
    )
    assert first == second
    assert first.mean > 0.95
    assert len(set(first.outcomes)) > 1  # every repeat has its own split and draws
    assert first.difference == pytest.approx(first.mean - 0.999)
    assert first.command == "apmax paper cell moap-v2 mushrooms --setting 1,0.9,0.1"


@needs_data
def test_a_cell_without_draws_on_a_given_split_is_run_once() -> None:
    names = [unit.name for unit in linear_table._units_of("logistic", "w8a", None)]
    assert names == ["fitted-logistic-w8a-0"]
    assert len(linear_table._units_of("logistic", "phishing", None)) == 5


def test_unknown_cells_are_named_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="adap-adam"):
        check_key("adap", "w8a")
    with pytest.raises(UnknownNameError, match="w8a"):
        check_key("adap-adam", "w9a")


def test_the_published_numbers_are_all_there() -> None:
    assert set(linear_table.PUBLISHED) == {*PAPER_METHODS, "moap-v1"}
    assert all(len(row) == len(DATA) for row in linear_table.PUBLISHED.values())
    assert max(row[5] or 0 for row in linear_table.PUBLISHED.values()) == 0.547


def test_tables_name_every_cell_the_papers_number_and_its_command() -> None:
    from experiments.tables import settings_to_markdown, to_json, to_markdown

    outcomes = (Outcome(0.7, 0.4), Outcome(0.7, 0.6))
    cells = [Cell("soap-sgd", name, outcomes, Setting(20.0, 0.9, 0.05)) for name in DATA]
    told = to_markdown(cells)
    assert "| SOAP (SGD) | 0.500 ± 0.141 |" in told
    assert "0.612 (-0.112)" in told
    assert "| `soap-sgd` | 20,0.9,0.05 |" in settings_to_markdown(cells)
    assert to_json(cells)[2]["published"] == 0.612
    assert to_json(cells)[2]["command"] == "apmax paper cell soap-sgd w6a --setting 20,0.9,0.05"


def test_results_depend_on_the_protocol_and_on_the_file_of_their_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grid, outcome = (store.code_digest(work) for work in (linear_table._grid, rates._tune))
    assert grid == store.code_digest(linear_table._outcome)  # one file, one digest
    assert grid != outcome
    monkeypatch.setattr(store, "SOURCES", store.SOURCES[:-1])
    assert store.code_digest(linear_table._grid) != grid


@needs_data
def test_the_statistics_are_the_papers() -> None:
    from experiments.tables import data_statistics

    rows = {row["data"]: row for row in data_statistics()}
    assert (rows["w8a"]["training examples"], rows["w8a"]["test examples"]) == (49749, 14951)
    assert rows["ijcnn1"]["positives"] == pytest.approx(0.0971, abs=5e-5)
    assert rows["mushrooms"]["positives"] == pytest.approx(0.0527, abs=5e-4)
