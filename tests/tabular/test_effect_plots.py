"""Plots of the functions of an additive model."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from apmax import AutoAPClassifier, errors
from tests.tabular.additive_table import PLAIN, X, Y

MODEL = clone(PLAIN).set_params(interactions=1).fit(X, Y)
(PAIR,) = set(MODEL.shape_functions_) - set(X.columns)


def test_auto_plots_the_functions_of_the_additive_model() -> None:
    model = AutoAPClassifier(["logistic", "additive"], select="additive", cv=3).fit(X, Y)
    assert set(X.columns) <= {panel.get_title() for panel in model.plot_effects().axes}
    model = AutoAPClassifier(["logistic"], cv=3).fit(X, Y)
    with pytest.raises(AttributeError, match='fit with select="additive"'):
        model.plot_effects()


def test_there_is_a_panel_per_function_the_most_important_first() -> None:
    figure = MODEL.plot_effects()
    titles = [panel.get_title() for panel in figure.axes if panel.get_title()]
    functions = MODEL.shape_functions_
    assert titles == sorted(functions, key=lambda name: -functions[name].importance)
    assert "True" in figure.get_suptitle()
    # 3 + 1 panels, an empty pair in the second row, bars of two numbers, and one colour bar
    assert len(figure.axes) == 6 + 2 + 1


def test_chosen_functions_are_drawn_in_the_given_order() -> None:
    figure = MODEL.plot_effects(["age", "colour"])
    titles = [panel.get_title() for panel in figure.axes if panel.get_title()]
    assert titles == ["age", "colour"]
    assert len(MODEL.plot_effects(max_panels=2).axes) == 3  # one of them has a density


def test_the_curve_is_the_shape_function() -> None:
    (panel, _) = MODEL.plot_effects(["distance"]).axes
    effect = MODEL.shape_functions_["distance"]
    curve = panel.get_lines()[0]
    expected = np.interp(curve.get_xdata(), effect.grid, effect.effect)
    np.testing.assert_allclose(curve.get_ydata(), expected)


def test_the_bars_are_the_effects_of_the_categories() -> None:
    (panel,) = MODEL.plot_effects(["colour"]).axes
    effect = MODEL.shape_functions_["colour"]
    assert [bar.get_width() for bar in panel.patches] == pytest.approx(sorted(effect.effect))


def test_the_figure_can_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "effects.png"
    MODEL.plot_effects().savefig(path)
    assert path.stat().st_size > 10_000


def test_bad_arguments_say_what_to_do() -> None:
    with pytest.raises(errors.UnknownNameError, match="'size', which has no effect: use distance"):
        MODEL.plot_effects(["size"])
    with pytest.raises(errors.ParameterError, match="list of one or more names"):
        MODEL.plot_effects("age")
    with pytest.raises(errors.ParameterError, match="list of one or more names"):
        MODEL.plot_effects([])
    with pytest.raises(errors.ParameterError, match="`max_panels`"):
        MODEL.plot_effects(max_panels=0)
    with pytest.raises(NotFittedError):
        clone(MODEL).plot_effects()


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'apmax\[app\]'"):
        MODEL.plot_effects()


def test_panels_share_a_scale() -> None:
    axes = MODEL.plot_effects(["distance", "age", "colour"]).axes
    first, second, third = (panel for panel in axes if panel.get_title())
    assert first.get_ylim() == second.get_ylim() == third.get_xlim()
    low, high = first.get_ylim()
    for panel in (first, second):
        drawn = np.concatenate([np.atleast_1d(line.get_ydata()) for line in panel.get_lines()])
        assert low < drawn.min() <= drawn.max() < high


def test_long_names_are_wrapped_and_hidden_levels_are_counted() -> None:
    rng = np.random.default_rng(0)
    name = "a long name of a column that does not fit into one line of a title"
    table = pd.DataFrame({name: rng.choice([f"level {k}" for k in range(20)], 2000)})
    model = clone(PLAIN).fit(table, rng.random(2000) < 0.3)
    (panel,) = model.plot_effects().axes
    assert panel.get_title().replace("\n", " ") == f"{name} (12 of 20 levels shown)"
    assert max(map(len, panel.get_title().splitlines())) <= 42
    assert len(panel.patches) == 12
