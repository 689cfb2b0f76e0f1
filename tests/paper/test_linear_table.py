"""The paper's protocol: its grid, its choices, and results that are never mixed up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.datasets import data_folder

from apmax.method.table import METHODS
from apmax.paper import linear_table, store
from apmax.paper.protocol import BETAS, DATA, ETAS, PAPER_METHODS, Setting, run, settings_of
from apmax.paper.store import Store, Unit

needs_data = pytest.mark.skipif(data_folder() is None, reason="needs the LIBSVM sets: APMAX_DATA")


def test_the_grid_is_the_papers() -> None:
    for method in PAPER_METHODS:
        grid = settings_of(METHODS[method])
        assert {setting.eta for setting in grid} == set(ETAS)
        expected = set(BETAS) if method != "smoothap" else {BETAS[0]}
        assert {setting.beta for setting in grid} == expected
        assert len(set(grid)) == len(grid)


def test_a_cell_is_chosen_by_training_ap_and_reports_test_ap() -> None:
    grid = settings_of(METHODS["adap-adam"])
    repeats = np.full((5, len(grid), 2), 0.1)
    repeats[:, 7, 0] = 0.9  # best in training
    repeats[:, 7, 1] = [0.5, 0.6, 0.7, 0.6, 0.6]
    repeats[:, 3, 1] = 0.99  # best in test, which must not matter
    cell = linear_table._cell("adap-adam", "w8a", repeats.tolist())
    assert cell.setting == grid[7]
    assert cell.mean == pytest.approx(0.6)
    assert cell.std == pytest.approx(np.std([0.5, 0.6, 0.7, 0.6, 0.6], ddof=1))
    assert cell.difference == pytest.approx(0.6 - 0.659)


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
    monkeypatch.setattr(store, "code_digest", lambda: "other code")
    dict(Store(tmp_path / "results").results(units, jobs=1))
    assert len(Path(log).read_text().split()) >= 12


@needs_data
def test_a_run_is_the_same_twice_and_learns() -> None:
    from apmax.data import load_paper_set

    data: Any = load_paper_set("mushrooms", seed=0)
    setting = Setting(1.0, 0.9, 0.1)
    first, second = (run(data, "moap-v2", setting, repeat=3) for _ in range(2))
    assert first == second
    assert first.test_ap > 0.9
    assert run(data, "moap-v2", setting, repeat=4) != first


def test_the_published_numbers_are_all_there() -> None:
    assert set(linear_table.PUBLISHED) == set(PAPER_METHODS)
    assert all(len(row) == len(DATA) for row in linear_table.PUBLISHED.values())
    assert max(row[5] for row in linear_table.PUBLISHED.values()) == 0.547


def test_tables_name_every_cell_the_papers_number_and_what_was_chosen() -> None:
    from apmax.paper.tables import settings_to_markdown, to_json, to_markdown

    repeats = np.full((5, len(settings_of(METHODS["soap-sgd"])), 2), 0.5).tolist()
    cells = [linear_table._cell("soap-sgd", name, repeats) for name in DATA]
    told = to_markdown(cells)
    assert "| SOAP (SGD) | 0.500 ± 0.000 |" in told
    assert "0.612 (-0.112)" in told
    assert "20, 0.9, 0.05" in settings_to_markdown(cells)
    assert to_json(cells)[2]["published"] == 0.612


@needs_data
def test_the_statistics_are_the_papers() -> None:
    from apmax.paper.tables import data_statistics

    rows = {row["data"]: row for row in data_statistics()}
    assert (rows["w8a"]["training examples"], rows["w8a"]["test examples"]) == (49749, 14951)
    assert rows["ijcnn1"]["positives"] == pytest.approx(0.0971, abs=5e-5)
    assert rows["mushrooms"]["positives"] == pytest.approx(0.0527, abs=5e-4)
