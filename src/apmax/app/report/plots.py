"""The report's charts for papers, by matplotlib; pyplot and its global state stay untouched.

Every function takes an Axes to draw upon, or makes a Figure of its own, and returns the Axes:
``plot_precision_recall(results).figure.savefig("curve.pdf")``.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from apmax.app.disk import make_folder, write_aside
from apmax.app.report.alerts import count_alerts
from apmax.app.report.bootstrap import bootstrap_band
from apmax.app.report.calibration import reliability
from apmax.app.report.fit_sections import COLUMN_NAMES, TOP, largest
from apmax.app.report.results import Report, Scored, drawn_columns
from apmax.errors import ParameterError
from apmax.validation import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
STYLES = ("solid", "dashed", "dotted", "dashdot", (0, (5, 2)), (0, (8, 3)), (0, (1, 1)))
COLUMN_STYLES = {"validation_ap": "solid", "train_ap": "dashed", "surrogate_ap": "dotted"}


def plot_precision_recall(results: Sequence[Scored], axes: Axes | None = None) -> Axes:
    """Precision against recall as steps, with 95 % bootstrap bands and the line of guessing."""
    axes = _axes(axes)
    prevalence = results[0].prevalence
    axes.axhline(prevalence, color="0.5", linewidth=0.8, linestyle=":")
    for k, result in enumerate(results):
        alerts, band = count_alerts(result), bootstrap_band(result)
        style = _style(k)
        axes.fill_between(
            band.recall, band.low, band.high, color=style["color"], alpha=0.13, linewidth=0
        )
        recall = np.append(alerts.recall, 0.0)
        precision = np.append(alerts.precision, alerts.precision[-1])
        label = f"{result.name}, AP {band.ap:.3f}"
        axes.step(recall, precision, where="post", label=label, **style)
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
    return _finish(axes)


def plot_history(
    results: Sequence[Scored],
    axes: Axes | None = None,
    *,
    along: Literal["step", "seconds"] = "step",
) -> Axes:
    """AP during training: a colour for each model, a line style for each kind of AP."""
    if along not in ("step", "seconds"):
        raise ParameterError(
            f"`along` must be 'step' or 'seconds', got {along!r}: it is the horizontal axis"
        )
    known = [(k, result) for k, result in enumerate(results) if result.history is not None]
    if not known:
        raise ParameterError(
            "`results` hold no history: pass history=model.history_ to Scored, or leave this "
            "plot out"
        )
    axes = _axes(axes)
    for k, result in known:
        history = result.history or {}
        for column in drawn_columns(history):
            axes.plot(
                history[along],
                history[column],
                color=OKABE_ITO[k % len(OKABE_ITO)],
                linestyle=COLUMN_STYLES[column],
                label=f"{result.name}, {COLUMN_NAMES[column]}",
            )
    axes.set(xlabel="steps" if along == "step" else "seconds", ylabel="average precision")
    return _finish(axes)


def plot_calibration(results: Sequence[Scored], axes: Axes | None = None) -> Axes:
    """Share of positives against mean probability in quantile bins, on square-root scales."""
    axes = _axes(axes)
    bins = [reliability(result) for result in results]
    high = min(1.0, 1.08 * max(float(max(b.predicted.max(), b.high.max())) for b in bins))
    axes.plot([0, 1], [0, 1], color="0.5", linewidth=0.8, linestyle=":")
    for k, (result, found) in enumerate(zip(results, bins, strict=True)):
        # Rounding must not turn a whisker of no length into one of length −1e-17.
        below = np.maximum(found.observed - found.low, 0)
        above = np.maximum(found.high - found.observed, 0)
        axes.errorbar(
            found.predicted,
            found.observed,
            yerr=np.stack([below, above]),
            marker="o",
            markersize=4,
            elinewidth=0.8,
            label=result.name,
            **_style(k),
        )
    square_root = (_square_root, np.square)
    axes.set_xscale("function", functions=square_root)
    axes.set_yscale("function", functions=square_root)
    axes.set(
        xlabel="mean probability given",
        ylabel="share that is positive",
        xlim=(0, high),
        ylim=(0, high),
    )
    return _finish(axes)


def plot_coefficients(result: Scored, axes: Axes | None = None, *, top: int = TOP) -> Axes:
    """The largest weights of one linear model, as bars to both sides."""
    if not result.coefficients:
        raise ParameterError(
            f"`result` {result.name!r} has no coefficients: pass pairs of feature and weight to "
            "Scored, for example zip(features, model.coef_[0])"
        )
    shown = largest(result.coefficients, top)
    axes = _axes(axes, height=1.2 + 0.22 * len(shown))
    weights = [weight for _, weight in shown]
    colours = [OKABE_ITO[0] if weight > 0 else OKABE_ITO[1] for weight in weights]
    rows = np.arange(len(shown))
    axes.barh(rows, weights, color=colours, height=0.65)
    # A dollar sign in a feature's name would start a formula.
    axes.set_yticks(rows, [feature.replace("$", r"\$") for feature, _ in shown])
    axes.invert_yaxis()
    axes.axvline(0, color="0.3", linewidth=0.8)
    axes.set(xlabel="weight", title=result.name.replace("$", r"\$"))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return axes


def save_plots(report: Report, folder: str | os.PathLike[str]) -> list[Path]:
    """Write every plot that the report has data for as PNG and SVG; return the files."""
    into = Path(folder)
    make_folder(into)
    results = report.results
    plots: dict[str, Callable[[], Axes]] = {
        "precision-recall": lambda: plot_precision_recall(results),
        "calibration": lambda: plot_calibration(results),
    }
    if any(result.history is not None for result in results):
        plots["history-steps"] = lambda: plot_history(results)
        plots["history-seconds"] = lambda: plot_history(results, along="seconds")
    for k, result in enumerate(results, start=1):
        if result.coefficients:
            plots[f"coefficients-{k}"] = lambda result=result: plot_coefficients(result)  # type: ignore[misc]
    written = []
    for name, draw in plots.items():
        figure: Any = draw().figure
        for kind in ("png", "svg"):
            file, drawn = into / f"{name}.{kind}", io.BytesIO()
            figure.savefig(drawn, format=kind, dpi=200)
            write_aside(file, drawn.getvalue())
            written.append(file)
    return written


def _axes(axes: Axes | None, *, height: float = 4.5) -> Axes:
    if axes is not None:
        return axes
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'apmax[report]'") from error
    return Figure(figsize=(6, height), layout="constrained").subplots()


def _style(series: int) -> dict[str, Any]:
    return {
        "color": OKABE_ITO[series % len(OKABE_ITO)],
        "linestyle": STYLES[(series + series // len(OKABE_ITO)) % len(STYLES)],
    }


def _finish(axes: Axes) -> Axes:
    axes.spines[["top", "right"]].set_visible(False)
    for label in axes.legend(frameon=False).get_texts():
        label.set_parse_math(False)
    return axes


def _square_root(values: Floats) -> Floats:
    return np.sqrt(np.maximum(values, 0))
