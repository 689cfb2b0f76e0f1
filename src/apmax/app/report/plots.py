"""The curves of the report as matplotlib plots, without pyplot's global state.

To save one: ``plot_precision_recall(results).figure.savefig("curve.pdf")``.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from apmax.app.report.measures import bootstrap_band, count_alerts, reliability
from apmax.app.report.results import ScoredModel

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
AXES_BOX = (0.11, 0.12, 0.86, 0.85)
"""Left, bottom, width and height of the axes in a figure."""
STYLES = ("solid", "dashed", "dotted", "dashdot", (0, (5, 2)), (0, (8, 3)), (0, (1, 1)))


def plot_precision_recall(results: Sequence[ScoredModel]) -> Axes:
    """Plot precision against recall with 95 % bootstrap bands."""
    axes = _new_axes()
    axes.axhline(results[0].prevalence, color="0.5", linewidth=0.8, linestyle=":")
    for k, result in enumerate(results):
        alerts, band, style = count_alerts(result), bootstrap_band(result), _style(k)
        axes.fill_between(
            band.recall, band.low, band.high, color=style["color"], alpha=0.13, linewidth=0
        )
        recall = np.append(alerts.recall, 0.0)
        precision = np.append(alerts.precision, alerts.precision[-1])
        label = f"{result.name}, AP {band.ap:.3f}"
        axes.step(recall, precision, where="post", label=label, **style)
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1))
    return _finish(axes)


def plot_calibration(results: Sequence[ScoredModel]) -> Axes:
    """Plot the share of positives against the mean probability in quantile bins."""
    axes = _new_axes()
    axes.plot([0, 1], [0, 1], color="0.5", linewidth=0.8, linestyle=":")
    high = 0.0
    for k, result in enumerate(results):
        bins = reliability(result)
        high = max(high, float(bins.predicted.max()), float(bins.high.max()))
        spread = np.maximum([bins.observed - bins.low, bins.high - bins.observed], 0)
        axes.errorbar(
            bins.predicted, bins.observed, spread, marker="o", label=result.name, **_style(k)
        )
    for scale in (axes.set_xscale, axes.set_yscale):
        scale("function", functions=(lambda v: np.sqrt(np.maximum(v, 0)), np.square))
    limits = (0, min(1.0, 1.08 * high))
    axes.set(xlabel="mean probability", ylabel="share of positives", xlim=limits, ylim=limits)
    return _finish(axes)


def to_svg(axes: Axes, prefix: str) -> str:
    """Return the figure as SVG markup for an HTML page, with `prefix` before all ids."""
    drawn = io.StringIO()
    figure: Any = axes.figure
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "apmax"}):
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    text = drawn.getvalue()
    for mark in ('id="', "url(#", 'href="#'):
        text = text.replace(mark, f"{mark}{prefix}-")
    return text[text.index("<svg") :]


def _new_axes() -> Axes:
    axes = Figure(figsize=(6, 4.5)).subplots()
    axes.set_position(AXES_BOX)  # which report.css lays the marker over
    return axes


def _style(series: int) -> dict[str, Any]:
    shift = series + series // len(COLOURS)
    return {"color": COLOURS[series % len(COLOURS)], "linestyle": STYLES[shift % len(STYLES)]}


def _finish(axes: Axes) -> Axes:
    axes.spines[["top", "right"]].set_visible(False)
    for label in axes.legend(frameon=False).get_texts():
        label.set_parse_math(False)
    return axes
