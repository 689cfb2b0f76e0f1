"""The curves of the report as matplotlib plots, without pyplot's global state.

To save one: ``plot_precision_recall(results).figure.savefig("curve.pdf")``.

Colours have one meaning in all plots and on the page: blue is the model in question, orange are
positives, and grey is everything else.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import expit, logit

from apmax.app.report.calibration import calibration
from apmax.app.report.measures import Alerts, Band, bootstrap_band, count_alerts
from apmax.app.report.results import ScoredModel
from apmax.tabular import effect_plots
from apmax.tabular.effects import NumberEffect

MODEL, POSITIVE, CONTEXT, FAINT = "#0072b2", "#d55e00", "#8a8f98", "#dcdde0"
THEME = {
    MODEL: "var(--model)",
    POSITIVE: "var(--positive)",
    CONTEXT: "var(--context)",
    FAINT: "var(--hair)",
    "#000000": "var(--ink)",
    effect_plots.LINE: "var(--model)",
    effect_plots.BARS: "var(--hair)",
    "#999999": "var(--context)",
    "#b34700": "var(--ink)",
}
"""Variables of report.css that replace the colours, so that plots follow dark mode."""
AXES_BOX = (0.11, 0.12, 0.86, 0.85)
"""Left, bottom, width and height of the axes in a figure."""
STYLES = ("dashed", "dotted", "dashdot", (0, (5, 2)), (0, (8, 3)), (0, (1, 1)))
TICKS = (0.01, 0.1, 0.5, 0.9, 0.99, 1e-3, 0.999, 1e-4, 0.9999, 0.03, 0.3, 0.7, 0.05, 0.2, 0.15)
"""Ticks of an axis of probabilities on the scale of log-odds, the most wanted first."""


def plot_precision_recall(results: Sequence[ScoredModel], winner: int = 0) -> Axes:
    """Plot precision against recall, and a 95 % bootstrap band of one model.

    Parameters
    ----------
    results : sequence of ScoredModel
        Models scored on the same rows.
    winner : int, default=0
        Position of the model with a band; the others are grey.

    Returns
    -------
    matplotlib Axes
        Of a new figure, for example for ``axes.figure.savefig("plot.pdf")``.

    Examples
    --------
    >>> from apmax.app.report import ScoredModel, plot_precision_recall
    >>> result = ScoredModel("model", [1, 0, 0, 0], [0.9, 0.4, 0.2, 0.1])
    >>> axes = plot_precision_recall([result])
    >>> axes.get_ylabel()
    'precision'
    """
    curves = [(result, count_alerts(result), bootstrap_band(result)) for result in results]
    axes = draw_precision_recall(curves, winner, bands=[winner])
    for label in axes.legend(frameon=False).get_texts():
        label.set_parse_math(False)
    return axes


def draw_precision_recall(
    curves: Sequence[tuple[ScoredModel, Alerts, Band]], winner: int, bands: Sequence[int]
) -> Axes:
    """Plot the curves of all models without a legend; groups are named line-0, band-0 and so on."""
    axes = _new_axes()
    axes.axhline(curves[0][0].prevalence, color=CONTEXT, linewidth=0.8, linestyle=":")
    for k, (result, alerts, band) in enumerate(curves):
        if k in bands:
            area = axes.fill_between(band.recall, band.low, band.high, color=MODEL, alpha=0.14)
            area.set(linewidth=0, gid=f"band-{k}")
        axes.step(
            np.append(alerts.recall, 0.0),
            np.append(alerts.precision, alerts.precision[-1]),
            where="post",
            label=f"{result.name}, AP {band.ap:.3f}",
            color=MODEL if k == winner else CONTEXT,
            linewidth=2.2 if k == winner else 1.0,
            linestyle="solid" if k == winner else STYLES[k % len(STYLES)],
            zorder=3 if k == winner else 2,
            gid=f"line-{k}",
        )
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1))
    return axes


def plot_calibration(result: ScoredModel) -> Axes:
    """Plot the share of positives against the mean probability of the bins of the test.

    Parameters
    ----------
    result : ScoredModel
        The model and the rows.

    Returns
    -------
    matplotlib Axes
        Of a new figure, for example for ``axes.figure.savefig("plot.pdf")``.

    Examples
    --------
    >>> from apmax.app.report import ScoredModel, plot_calibration
    >>> result = ScoredModel("model", [1, 0, 0, 0], [0.9, 0.4, 0.2, 0.1])
    >>> axes = plot_calibration(result)
    >>> axes.get_ylabel()
    'share of positives'
    """
    axes = _new_axes()
    axes.plot([0, 1], [0, 1], color=CONTEXT, linewidth=1, linestyle=":")
    bins = calibration(result)
    spread = np.maximum([bins.observed - bins.low, bins.high - bins.observed], 0)
    axes.errorbar(
        bins.predicted, bins.observed, spread, marker="o", color=MODEL, linewidth=1.4, zorder=3
    )
    for scale in (axes.set_xscale, axes.set_yscale):
        scale("function", functions=(lambda v: np.sqrt(np.maximum(v, 0)), np.square))
    limit = min(1.0, 1.08 * float(max(bins.predicted.max(), bins.high.max())))
    ticks = [tick for tick in (0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if tick <= limit]
    axes.set(xlabel="predicted probability", ylabel="share of positives")
    axes.set(xlim=(0, limit), ylim=(0, limit), xticks=ticks, yticks=ticks)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    return axes


def plot_distributions(result: ScoredModel) -> Axes:
    """Plot the probabilities of positives and of negatives on the scale of log-odds.

    Parameters
    ----------
    result : ScoredModel
        The model and the rows.

    Returns
    -------
    matplotlib Axes
        Of a new figure, for example for ``axes.figure.savefig("plot.pdf")``.

    Examples
    --------
    >>> from apmax.app.report import ScoredModel, plot_distributions
    >>> result = ScoredModel("model", [1, 0, 0, 0], [0.9, 0.4, 0.2, 0.1])
    >>> axes = plot_distributions(result)
    >>> axes.get_xlabel()
    'predicted probability'
    """
    axes = _new_axes()
    log_odds = logit(np.clip(result.probabilities, 1e-5, 1 - 1e-5))
    low, high = float(log_odds.min()), float(log_odds.max())
    edges = np.linspace(low - 0.05, high + 0.05, 41)
    for of, color in ((~result.y, CONTEXT), (result.y, POSITIVE)):
        if of.any():
            v = result.mass[of]
            shares = np.histogram(log_odds[of], edges, weights=v)[0] / v.sum()
            axes.stairs(shares, edges, fill=True, color=color, alpha=0.35)
            axes.stairs(shares, edges, color=color, linewidth=1.4)
    ticks = _ticks(float(edges[0]), float(edges[-1]))
    axes.set_xticks([float(logit(tick)) for tick in ticks], [f"{tick:.4g}" for tick in ticks])
    axes.set(xlabel="predicted probability", ylabel="share of the class")
    axes.set(xlim=(edges[0], edges[-1]), ylim=(0, None))
    return axes


def _ticks(low: float, high: float) -> list[float]:
    """Choose probabilities whose log-odds lie in a range, far enough apart for their labels."""
    chosen: list[float] = []
    for tick in TICKS:
        gaps = [abs(logit(tick) - logit(other)) for other in chosen]
        if low <= logit(tick) <= high and min(gaps, default=np.inf) > 0.09 * (high - low):
            chosen.append(tick)
    return chosen or [round(float(expit((low + high) / 2)), 3)]


def plot_effect(effect: NumberEffect, limits: tuple[float, float]) -> Axes:
    """Plot the function of one number on a common scale of log-odds."""
    figure = effect_plots.plot_effects({effect.name: effect}, None, 1, "")
    figure.suptitle("")
    axes: Axes = figure.axes[0]
    axes.set_title("")
    axes.set_ylim(limits)
    for each in figure.axes:
        each.spines[["top", "right"]].set_visible(False)
    _soften(axes)
    return axes


def to_svg(axes: Axes, prefix: str, shown: str = "") -> str:
    """Return the figure as SVG markup for an HTML page.

    All ids begin with `prefix`; groups that match `shown` get the class "on"; colours become
    variables of the style sheet.
    """
    drawn = io.StringIO()
    figure: Any = axes.figure
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": f"apmax {prefix}"}):
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    text = drawn.getvalue()
    for mark in ('id="', "url(#", 'href="#'):
        text = text.replace(mark, f"{mark}{prefix}-")
    for colour, variable in THEME.items():
        text = text.replace(f": {colour}", f": {variable}")
    if shown:
        text = re.sub(rf'(id="{prefix}-(?:{shown})")', r'\1 class="on"', text)
    return text[text.index("<svg") :]


def _new_axes() -> Axes:
    axes = Figure(figsize=(6, 4.5)).subplots()
    axes.set_position(AXES_BOX)  # which report.css lays the marker over
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    return _soften(axes)


def _soften(axes: Axes) -> Axes:
    for spine in axes.spines.values():
        spine.set_color(CONTEXT)
        spine.set_linewidth(0.6)
    axes.tick_params(length=0, pad=6)
    return axes
