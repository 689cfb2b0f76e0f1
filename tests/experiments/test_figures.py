"""The figures of the linear experiments."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from apmax.metrics import average_precision
from experiments.linear import curves, table3
from experiments.linear.curves import AT, RECALL, Curves, precision_at
from experiments.linear.figures import appendix_figure, paper_figures
from experiments.linear.grid import DATA, PAPER_METHODS, REPEATS
from experiments.output import RC_FILE, save_figures


def made_up() -> dict[tuple[str, str], Curves]:
    rng = np.random.default_rng(0)
    return {
        (method, name): {
            "method": method,
            "train_ap": np.sort(rng.random((REPEATS, len(AT))), axis=1).tolist(),
            "precision": -np.sort(-rng.random((REPEATS, RECALL.size)), axis=1),
            "seconds_per_round": 1e-5,
        }
        for method in (*PAPER_METHODS, "moap-v1")
        for name in DATA
    }


def test_precision_is_that_of_the_fewest_alerts_with_a_recall() -> None:
    y = np.array([True, False, True, False, True, True])
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    precision = precision_at(y, scores)
    assert precision[0] == 1.0  # recall 0.01: the first alert
    assert precision[24] == 1.0  # recall 0.25: still the first
    assert precision[25] == pytest.approx(2 / 3)  # recall 0.26 needs the second positive
    assert precision[99] == pytest.approx(4 / 6)
    assert precision.mean() == pytest.approx(average_precision(y, scores), abs=0.01)


def test_the_same_curves_give_the_same_files_with_six_panels_and_one_legend(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    with mpl.rc_context(fname=RC_FILE):
        figures = paper_figures(made_up())
    for folder in "ab":
        save_figures(tmp_path / folder, lambda: {"appendix": appendix_figure(made_up())})
    assert set(figures) == {"precision-recall", "ap-rounds", "ap-seconds", "v1-v2"}
    for name, figure in figures.items():
        assert [axes.get_title(loc="left") for axes in figure.axes] == list(DATA)
        assert len(figure.legends) == 1
        colours = {line.get_color() for line in figure.axes[0].lines}
        assert len(colours) == (2 if name == "v1-v2" else len(PAPER_METHODS))
    for kind in ("svg", "png"):
        first, second = ((tmp_path / f / f"appendix.{kind}").read_bytes() for f in "ab")
        assert first == second
    assert dict(mpl.rcParams) == before


def test_a_curve_ends_where_the_cell_does(data_sets: Path) -> None:
    setting = (20.0, 0.1, 1.0)  # not good enough for an AP of 1 whatever was drawn
    train_ap, precision, seconds = curves._curves("adap-adam", "mushrooms", 1, *setting)
    cell_train, cell_test = table3._outcome("adap-adam", "mushrooms", 1, *setting)
    assert cell_train < 0.99
    assert train_ap[-1] == cell_train
    assert np.mean(precision) == pytest.approx(cell_test, abs=0.02)
    assert seconds > 0
