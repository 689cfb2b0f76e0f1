"""Panels of the effects of an additive model, and bars of the weights of a linear one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apmax.app.report.plots import plot_effect, to_svg
from apmax.tabular.columns import MISSING
from apmax.tabular.effects import CategoryEffect, Effect, Margin, NumberEffect, PairEffect
from apmax.validation import Floats

MAX_PANELS = 12
GRID = 41
"""Points of a function that is traced from contributions."""
MAX_LEVELS, MAX_WEIGHTS = 12, 20
"""Categories of an effect and weights of a linear model that are shown; the most important."""


@dataclass(frozen=True)
class Bar:
    """A signed number with its length in percent of the largest."""

    name: str
    value: float
    length: float


@dataclass(frozen=True)
class Cell:
    """A field of a heat map: the value, and its size in percent of the largest of all pairs."""

    value: float
    strength: float


@dataclass(frozen=True)
class Panel:
    """One effect: a plot, bars, or a heat map."""

    name: str
    importance: float
    svg: str = ""
    bars: Sequence[Bar] = ()
    hidden: int = 0
    """Number of categories that are not shown."""
    columns: Sequence[str] = ()
    rows: Sequence[tuple[str, Sequence[Cell]]] = ()
    corner: str = ""


def panels(effects: Sequence[Effect]) -> tuple[list[Panel], list[Effect]]:
    """Return panels of the most important effects, and the other effects."""
    known = [effect for effect in effects if effect.effect.size]  # not of an empty column
    ranked = sorted(known, key=lambda effect: -effect.importance)
    shown, others = ranked[:MAX_PANELS], ranked[MAX_PANELS:]
    limits = _limits([effect for effect in shown if isinstance(effect, NumberEffect)])
    sizes = {kind: _size(shown, kind) for kind in (NumberEffect, CategoryEffect, PairEffect)}
    return [
        _panel(effect, k, sizes[type(effect)], limits) for k, effect in enumerate(shown)
    ], others


def traced_effects(frame: Any, contributions: Any) -> list[Effect]:
    """Return the effects of columns from what they contribute to the log-odds of each row.

    `contributions` has columns of the same names, each a function of that column of `frame`.
    """
    found: list[Effect] = []
    for k, name in enumerate(name for name in frame.columns if name in contributions.columns):
        values, parts = frame[name], contributions[name].to_numpy()
        if values.dtype.kind in "fiub":
            found.append(_traced_number(str(name), k, values.to_numpy(dtype=np.float64), parts))
        else:
            words = values.astype(object).where(values.notna(), MISSING).astype(str)
            levels, first, counts = np.unique(
                words.to_numpy(dtype=str), return_index=True, return_counts=True
            )
            shares = counts / counts.sum()
            found.append(CategoryEffect(str(name), k, levels.tolist(), parts[first], shares))
    return found


def _traced_number(name: str, column: int, x: Floats, parts: Floats) -> NumberEffect:
    missing = np.isnan(x)
    known, first = np.unique(x[~missing], return_index=True)
    grid = np.unique(np.quantile(known, np.linspace(0, 1, GRID))) if known.size else known
    nearest = np.searchsorted((grid[1:] + grid[:-1]) / 2, x[~missing])
    return NumberEffect(
        name,
        column,
        grid,
        np.interp(grid, known, parts[~missing][first]) if known.size else grid,
        float(parts[missing].mean()) if missing.any() else 0.0,
        np.bincount(nearest, minlength=grid.size)[: grid.size] / x.size,
    )


def weight_bars(weights: Sequence[tuple[str, float]]) -> list[Bar]:
    """Return the largest weights of a linear model; the given order is kept."""
    shown = [(name, value) for name, value in weights[:MAX_WEIGHTS] if value]
    size = max([abs(value) for _, value in shown], default=1.0)
    return [Bar(name, value, 50 * abs(value) / size) for name, value in shown]


def _size(effects: Sequence[Effect], kind: type) -> float:
    """Return the largest contribution of the effects of one kind."""
    sizes = [float(np.abs(one.effect).max(initial=0.0)) for one in effects if isinstance(one, kind)]
    return max(sizes, default=0.0) or 1.0


def _limits(effects: Sequence[NumberEffect]) -> tuple[float, float]:
    """Return the common range of log-odds, wide enough for 99 % of the rows of each column."""
    low, high = 0.0, 0.0
    for effect in effects:
        if effect.grid.size:
            below = np.cumsum(effect.density) / max(effect.density.sum(), 1e-300)
            central = effect.effect[(below >= 0.005) & (below <= 0.995)]
            low = min(low, float(central.min(initial=0.0)), effect.missing)
            high = max(high, float(central.max(initial=0.0)), effect.missing)
    margin = 0.06 * max(high - low, 1e-9)
    return low - margin, high + margin


def _panel(effect: Effect, number: int, size: float, limits: tuple[float, float]) -> Panel:
    if isinstance(effect, NumberEffect):
        svg = to_svg(plot_effect(effect, limits), f"effect{number}")
        return Panel(effect.name, effect.importance, svg=svg)
    if isinstance(effect, CategoryEffect):
        seen = np.flatnonzero(effect.density)  # "(other)" may be there for new rows only
        share = effect.density[seen] * np.square(effect.effect[seen])
        order = seen[np.argsort(-share, kind="stable")[:MAX_LEVELS]]
        order = order[np.argsort(-effect.effect[order], kind="stable")]
        bars = [
            Bar(
                f"{effect.levels[k]} ({_percent(effect.density[k])})",
                float(effect.effect[k]),
                50 * abs(float(effect.effect[k])) / size,
            )
            for k in order
        ]
        return Panel(effect.name, effect.importance, bars=bars, hidden=seen.size - len(bars))
    return _heat_map(effect, size)


def _percent(share: float) -> str:
    return "<1%" if share < 0.005 else f"{share:.0%}"


def _heat_map(effect: PairEffect, size: float) -> Panel:
    """Return a table whose columns are the values of the first column of the pair."""
    rows = [
        (label, [Cell(float(v), 100 * abs(float(v)) / size) for v in effect.effect[:, k]])
        for k, label in enumerate(_labels(effect.second))
    ]
    return Panel(
        effect.name,
        effect.importance,
        columns=_labels(effect.first),
        rows=rows[::-1],
        corner=f"{effect.second.name} ↓ {effect.first.name} →",
    )


def _labels(margin: Margin) -> list[str]:
    if margin.knots is None:
        return margin.levels
    return [f"{knot:.3g}" for knot in margin.knots]
