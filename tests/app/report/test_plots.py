"""Plots for papers: right lines, the caller's Axes, and no global state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.report.cases import full_report, make_history, make_scored

from apmax import average_precision, errors, precision_recall_curve
from apmax.app.report import (
    Report,
    plot_calibration,
    plot_coefficients,
    plot_history,
    plot_precision_recall,
    save_plots,
)
from apmax.app.report.calibration import reliability


def legend_of(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_legend().get_texts()]


def test_the_curve_is_that_of_the_metrics() -> None:
    result = make_scored(300)
    axes = plot_precision_recall([result])
    curve = precision_recall_curve(result.y, result.scores)
    line = axes.get_lines()[1]
    np.testing.assert_allclose(line.get_xdata()[:-1], curve.recall[:-1])
    np.testing.assert_allclose(line.get_ydata()[:-1], curve.precision[:-1])
    assert legend_of(axes) == [f"a model, AP {average_precision(result.y, result.scores):.3f}"]
    assert axes.get_lines()[0].get_ydata()[0] == result.prevalence


def test_models_differ_in_colour_and_in_line_style() -> None:
    lines = plot_precision_recall(full_report().results).get_lines()[1:]
    assert len({line.get_color() for line in lines}) == 3
    assert len({line.get_linestyle() for line in lines}) == 3


def test_plots_are_drawn_upon_the_axes_that_are_given() -> None:
    result = make_scored(history=make_history(), coefficients=[("a", 1.0), ("b", -2.0)])
    for draw in (plot_precision_recall, plot_calibration, plot_history):
        axes = Figure().subplots()
        assert draw([result], axes) is axes
    axes = Figure().subplots()
    assert plot_coefficients(result, axes) is axes


@pytest.mark.parametrize("along", ["step", "seconds"])
def test_a_history_is_drawn_along_steps_or_seconds(along: Any) -> None:
    history = make_history(held_out=False)
    axes = plot_history([make_scored(history=history)], along=along)
    assert legend_of(axes) == ["a model, training AP", "a model, surrogate AP, the objective"]
    np.testing.assert_array_equal(axes.get_lines()[0].get_xdata(), history[along])


def test_calibration_shows_the_bins() -> None:
    result = make_scored()
    axes = plot_calibration([result])
    np.testing.assert_allclose(axes.get_lines()[1].get_ydata(), reliability(result).observed)


def test_weights_are_sorted_by_size() -> None:
    result = make_scored(coefficients=[("a", 0.5), ("$b$", -2.0), ("c", 0.0), ("d", 1.0)])
    axes: Any = plot_coefficients(result, top=3)
    assert [bar.get_width() for bar in axes.patches] == [-2.0, 1.0, 0.5]


def test_what_is_missing_is_said() -> None:
    with pytest.raises(errors.ParameterError, match=r"no history.*history=model.history_"):
        plot_history([make_scored()])
    with pytest.raises(errors.ParameterError, match="'a model' has no coefficients"):
        plot_coefficients(make_scored())
    with pytest.raises(errors.ParameterError, match=r"`along` must be .*'minutes'"):
        plot_history([make_scored(history=make_history())], along="minutes")


def test_every_plot_is_saved_as_png_and_svg(tmp_path: Path) -> None:
    files = save_plots(full_report(), tmp_path / "plots")
    names = {"precision-recall", "calibration", "history-steps", "history-seconds"}
    names |= {"coefficients-1", "coefficients-2"}
    assert {file.name for file in files} == {
        f"{n}.{kind}" for n in names for kind in ("png", "svg")
    }
    for file in files:
        start = file.read_bytes()[:8]
        assert start == (b"\x89PNG\r\n\x1a\n" if file.suffix == ".png" else b"<?xml ve")


def test_a_report_of_scores_alone_has_two_plots(tmp_path: Path) -> None:
    assert len(save_plots(Report("t", [make_scored()]), tmp_path)) == 4


def test_pyplot_is_never_loaded_and_matplotlib_only_for_a_plot() -> None:
    code = (
        "import sys, apmax.app.report as r\n"
        "assert 'matplotlib' not in sys.modules\n"
        "r.plot_precision_recall([r.Scored('m', [0, 1], [0.0, 1.0])])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
