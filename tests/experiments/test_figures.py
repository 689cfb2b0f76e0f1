"""The figures: what they show, the same files for the same curves, matplotlib left as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.datasets import data_folder

from apmax.metrics import average_precision
from experiments import curves
from experiments.curves import AT, RECALL, Curves, precision_at
from experiments.figures import (
    STYLE,
    appendix_figure,
    paper_figures,
    rates_figure,
    save,
)
from experiments.protocol import DATA, PAPER_METHODS, REPEATS, Setting
from experiments.rates import CLAIMS, Fitted, Rate

needs_data = pytest.mark.skipif(data_folder() is None, reason="needs the LIBSVM sets: APMAX_DATA")


def made_up() -> dict[tuple[str, str], Curves]:
    rng = np.random.default_rng(0)

    def one(method: str, name: str) -> Curves:
        rise = np.sort(rng.random((REPEATS, len(AT))), axis=1)
        fall = -np.sort(-rng.random((REPEATS, RECALL.size)), axis=1)
        return Curves(method, name, Setting(1.0, 0.5, 0.1), rise, fall, 1e-5)

    return {(m, name): one(m, name) for m in (*PAPER_METHODS, "moap-v1") for name in DATA}


def test_precision_is_taken_at_the_fewest_alerts_with_a_recall() -> None:
    y = np.array([True, False, True, False, True, True])
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    precision = precision_at(y, scores)
    assert precision[0] == 1.0  # recall 0.01: the first alert
    assert precision[24] == 1.0  # recall 0.25: still the first
    assert precision[25] == pytest.approx(2 / 3)  # recall 0.26 needs the second positive
    assert precision[99] == pytest.approx(4 / 6)
    assert precision.mean() == pytest.approx(average_precision(y, scores), abs=0.01)


def test_every_figure_has_six_panels_one_legend_and_a_line_for_each_method() -> None:
    figures = paper_figures(made_up())
    assert set(figures) == {"precision-recall", "ap-rounds", "ap-seconds", "v1-v2"}
    for name, figure in figures.items():
        assert [axes.get_title(loc="left") for axes in figure.axes] == list(DATA)
        assert len(figure.legends) == 1
        lines = {line.get_color() for line in figure.axes[0].lines}
        assert len(lines) == (2 if name == "v1-v2" else len(PAPER_METHODS))


def test_lines_differ_in_colour_and_in_more_than_colour() -> None:
    assert len({colour for colour, _ in STYLE.values()}) == len(STYLE)
    lines = {str(line) for _, line in STYLE.values()}
    assert len(lines) == len(STYLE) - 1  # MOAP-V2 and ADAP are both solid, blue and vermilion


def test_the_same_curves_are_the_same_files_and_small(tmp_path: Path) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        save(appendix_figure(made_up()), tmp_path / folder, "appendix")
    for kind in ("svg", "png"):
        first, second = ((tmp_path / f / f"appendix.{kind}").read_bytes() for f in "ab")
        assert first == second
    assert (tmp_path / "a" / "appendix.svg").stat().st_size < 200_000
    assert dict(mpl.rcParams) == before


def test_rates_are_drawn_also_where_nothing_falls() -> None:
    never = Fitted(float("inf"), 3.0, float("inf"))
    found = [Rate(key, 1, 0.5, (8, 16), [[1, 2], [1, 2]], Fitted(4, 3, 5), never) for key in CLAIMS]
    figure = rates_figure(found, "w6a")
    assert len(figure.axes) == 2
    assert len(figure.axes[0].lines) == len(CLAIMS) + 2


@needs_data
def test_a_curve_ends_where_the_cell_does() -> None:
    from experiments.linear_table import _outcome

    # A setting that is not good enough to end at 1 whatever was drawn.
    found = curves._curves("adap-adam", "mushrooms", 1, 20.0, 0.1, 1.0)
    cell = _outcome("adap-adam", "mushrooms", 1, 20.0, 0.1, 1.0)
    assert cell.train_ap < 0.99
    assert found["train_ap"][-1] == cell.train_ap
    assert np.mean(found["precision"]) == pytest.approx(cell.test_ap, abs=0.02)
    assert 0 < found["seconds_per_round"] < 0.1
