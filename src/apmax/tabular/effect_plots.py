"""Plots of the functions of an additive model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apmax.errors import ParameterError, UnknownNameError
from apmax.tabular.effects import CategoryEffect, Effect, Margin, NumberEffect, PairEffect
from apmax.validation import Floats

COLUMNS = 3
PANEL = 4.0, 3.0
"""Width and height of a panel, in inches."""
LINE, BARS = "#1f5fa8", "#c9d3df"
TITLE_WIDTH = 42
"""Characters per line of a title."""
FEW = 12
"""Largest number of grid points that are drawn as points."""
MAX_LEVELS = 12
"""Categories shown in a panel; the most frequent ones."""


class EffectPlots:
    """Adds `plot_effects` to an estimator with `shape_functions_`."""

    shape_functions_: Any
    pos_label_: Any

    def plot_effects(self, features: Sequence[str] | None = None, *, max_panels: int = 12) -> Any:
        """Plot the shape functions, one panel each, with the density of the data.

        Parameters
        ----------
        features : sequence of str, optional
            Keys of `shape_functions_`. The default is the most important ones.
        max_panels : int, default=12
            Largest number of panels if `features` is not given.

        Returns
        -------
        matplotlib.figure.Figure
            The figure; save it with ``savefig``.
        """
        check_is_fitted(self)
        return plot_effects(self.shape_functions_, features, max_panels, self.pos_label_)


def plot_effects(
    functions: Mapping[str, Effect], features: Sequence[str] | None, most: int, positive: Any
) -> Any:
    """Return a figure with one panel per function, the most important first."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plot_effects needs matplotlib: pip install 'apmax[app]'") from error

    chosen = _chosen(functions, features, most)
    columns = min(COLUMNS, len(chosen))
    rows = -(-len(chosen) // columns)
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    limits = _common_limits(chosen)
    for panel, effect in zip(panels, chosen, strict=False):
        title = effect.name
        if isinstance(effect, NumberEffect):
            _number(panel, effect)
            panel.set_ylim(*limits)
        elif isinstance(effect, CategoryEffect):
            _category(panel, effect)
            panel.set_xlim(*limits)
            seen = np.count_nonzero(effect.density)
            if seen > MAX_LEVELS:
                title += f" ({MAX_LEVELS} of {seen} levels shown)"
        else:
            figure.colorbar(_pair(panel, effect, max(np.abs(limits))), ax=panel)
        panel.set_title(fill(title, TITLE_WIDTH), fontsize=9)
    for panel in panels[len(chosen) :]:
        panel.set_axis_off()
    figure.suptitle(f"Contribution to the log-odds of {positive!r}", fontsize=11)
    return figure


def _common_limits(effects: Sequence[Effect]) -> tuple[float, float]:
    """Return the range of all effects, with a margin, so that panels can be compared."""
    values = [
        _shown(effect)[1] if isinstance(effect, NumberEffect) else effect.effect
        for effect in effects
    ]
    values += [np.array([effect.missing]) for effect in effects if isinstance(effect, NumberEffect)]
    every = np.concatenate([np.zeros(1), *(np.ravel(one) for one in values)])
    margin = 0.05 * float(np.ptp(every)) or 1.0
    return float(every.min()) - margin, float(every.max()) + margin


def _chosen(
    functions: Mapping[str, Effect], features: Sequence[str] | None, most: int
) -> list[Effect]:
    if features is None:
        if most < 1:
            raise ParameterError(f"`max_panels` = {most!r} must be at least 1")
        ranked = sorted(functions.values(), key=lambda effect: -effect.importance)
        return ranked[:most]
    if isinstance(features, str) or not features:
        raise ParameterError(f"`features` = {features!r} must be a list of one or more names")
    for name in features:
        if name not in functions:
            known = ", ".join(list(functions)[:10])
            raise UnknownNameError(f"`features` names {name!r}, which has no effect: use {known}")
    return [functions[name] for name in features]


def _shown(effect: NumberEffect) -> tuple[Floats, Floats, Floats]:
    """Return grid, effect and density over the central range of the data."""
    below = np.cumsum(effect.density) / max(effect.density.sum(), 1e-300)
    inside = (below >= 0.005) & (below <= 0.995)
    inside |= np.arange(below.size) == np.argmax(effect.density)
    rows = np.flatnonzero(inside) if inside.sum() > 1 else np.arange(below.size)
    return effect.grid[rows], effect.effect[rows], effect.density[rows]


def _number(panel: Any, effect: NumberEffect) -> None:
    """Draw the function over the central range of the data, with the density as bars below."""
    grid = effect.grid
    if grid.size:
        x, y, density = _shown(effect)
        if grid.size <= FEW:
            panel.plot(x, y, color=LINE, marker="o", markersize=4)
        else:
            panel.plot(x, y, color=LINE)
        behind = panel.twinx()
        if grid.size <= FEW:
            behind.bar(x, density, width=0.5 * np.diff(x, append=x[-1] + 1).min(), color=BARS)
        else:
            behind.hist(x, bins=30, weights=density, color=BARS)
        behind.set_ylim(0, 4 * max(behind.get_ylim()[1], 1e-12))
        behind.set_yticks([])
        panel.set_zorder(behind.get_zorder() + 1)
        panel.patch.set_visible(False)
    if effect.missing:
        panel.axhline(effect.missing, color="#b34700", linestyle=":", label="missing")
        panel.legend(fontsize=8)
    panel.axhline(0.0, color="#999999", linewidth=0.6)
    panel.locator_params(axis="x", nbins=5)  # long numbers would overlap


def _category(panel: Any, effect: CategoryEffect) -> None:
    """Draw a bar per category; its shade is the share of the data."""
    order = np.argsort(-effect.density, kind="stable")[:MAX_LEVELS]
    order = order[effect.density[order] > 0]  # "(other)" may be there for new rows only
    order = order[np.argsort(effect.effect[order], kind="stable")]
    share = effect.density[order] / max(effect.density.max(), 1e-300)
    names = [f"{effect.levels[k][:20]} ({effect.density[k]:.0%})" for k in order]
    bars = panel.barh(names, effect.effect[order], color=LINE)
    for bar, alpha in zip(bars, 0.25 + 0.75 * share, strict=True):
        bar.set_alpha(float(alpha))
    panel.tick_params(axis="y", labelsize=7)
    panel.axvline(0.0, color="#999999", linewidth=0.6)


def _pair(panel: Any, effect: PairEffect, limit: float) -> Any:
    """Draw the values at the knots as a heat map whose colours reach from -limit to limit."""
    image = panel.imshow(
        effect.effect.T, cmap="RdBu_r", vmin=-limit, vmax=limit, origin="lower", aspect="auto"
    )
    for axis, margin in ((panel.xaxis, effect.first), (panel.yaxis, effect.second)):
        axis.set_ticks(range(margin.size), _labels(margin), fontsize=7)
    return image


def _labels(margin: Margin) -> list[str]:
    if margin.knots is None:
        return [level[:12] for level in margin.levels]
    return [f"{knot:.3g}" for knot in margin.knots]
