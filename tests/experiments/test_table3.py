"""The paper's protocol for linear models: its grid, its choices, and stored results."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apmax.methods import METHODS
from experiments import store
from experiments.datasets import PaperSet
from experiments.linear import grid, table3
from experiments.linear.grid import LinearSetting, best_setting, settings_of
from experiments.store import Store, Unit


def test_the_grid_is_the_papers() -> None:
    for method in grid.PAPER_METHODS:
        settings = settings_of(METHODS[method])
        assert {setting.eta for setting in settings} == {20.0, 10.0, 1.0, 0.1, 0.01}
        expected = {0.9, 0.5, 0.1} if method != "smoothap" else {0.9}
        assert {setting.beta for setting in settings} == expected
        assert len(set(settings)) == len(settings)


@pytest.mark.parametrize("name", ["adap-adam", "smoothap"])
def test_ties_in_training_ap_go_to_the_widest_margin_and_smallest_step(name: str) -> None:
    train_aps = np.full(len(settings_of(METHODS[name])), 1.0)
    train_aps[::3] -= grid.SAME_AP / 2
    chosen = best_setting(METHODS[name], train_aps)
    assert (chosen.eta, chosen.gamma) == (0.01, 1.0)
    train_aps[7] = 1.1
    assert best_setting(METHODS[name], train_aps) == settings_of(METHODS[name])[7]


def test_the_grid_never_sees_test_data(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 4)), np.arange(60) < 25
    blind = PaperSet(X, y, np.full((3, 4), np.nan), np.array([True, False, True]))
    monkeypatch.setattr(grid, "load", lambda name, repeat: blind)
    monkeypatch.setattr(grid, "ETAS", (1.0,))
    aps = table3._grid("moap-v2", "w8a", 0)
    assert len(aps) == 18
    assert all(0 < ap <= 1 for ap in aps)


def counted(path: str, number: int) -> int:
    with Path(path).open("a") as file:
        file.write(f"{number}\n")
    return number * number


def test_a_stopped_run_resumes_and_changed_code_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = str(tmp_path / "log")
    units = [Unit(counted, (log, number)) for number in range(6)]
    monkeypatch.setattr(Unit, "name", property(lambda unit: f"unit-{unit.arguments[1]}"))
    first: Any = Store(tmp_path / "results").results(units, jobs=1)
    for _ in range(3):
        next(first)
    first.close()
    found = Store(tmp_path / "results").collect({"a": units[::-1]}, jobs=1, title="")
    assert found == {"a": [25, 16, 9, 4, 1, 0]}
    assert len(Path(log).read_text().split()) <= 7  # stored results are not computed again
    assert all(source.exists() for source in store.SOURCES)
    monkeypatch.setattr(store, "SOURCES", store.SOURCES[1:])  # as if the code had changed
    list(Store(tmp_path / "results").results(units, jobs=1))
    assert len(Path(log).read_text().split()) >= 12


@pytest.mark.parametrize("damage", ["", "{}", '{"unit": "a"}', "[1]", "[" * 100_000, "{", "\xff"])
def test_damaged_results_are_computed_again(damage: str, tmp_path: Path) -> None:
    units = [Unit(counted, (str(tmp_path / "log"), 3))]
    stored = Store(tmp_path / "results")
    stored._path = lambda unit: tmp_path / "result.json"  # type: ignore[method-assign]
    assert [result for _, result in stored.results(units, jobs=1)] == [9]
    (tmp_path / "result.json").write_bytes(damage.encode("latin-1"))
    assert [result for _, result in stored.results(units, jobs=1)] == [9]
    assert (tmp_path / "log").read_text() == "3\n3\n"


def test_tables_have_every_cell_the_papers_number_and_the_command() -> None:
    repeats = [(0.7, 0.4), (0.7, 0.6)]
    setting = LinearSetting(20.0, 0.9, 0.05)
    cells = [table3.make_cell("soap-sgd", name, setting, repeats) for name in grid.DATA]
    text = table3.cells_to_markdown(cells)
    assert "| SOAP (SGD) | 0.500 ± 0.141 |" in text
    assert "0.612 (-0.112)" in text
    assert "| `soap-sgd` | 20,0.9,0.05 |" in text
    assert cells[2]["command"] == "python -m experiments cell soap-sgd w6a --setting 20,0.9,0.05"
