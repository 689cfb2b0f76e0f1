"""The figures of the linear experiments: small multiples with one colour per method."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from apmax.validation import Floats
from experiments.linear.curves import AT, RECALL, Curves
from experiments.linear.grid import DATA, PAPER_METHODS, Key
from experiments.linear.rates import CLAIMS, Ladder, Rate
from experiments.linear.table3 import title_of

STYLE: dict[str, tuple[str, Any]] = {
    "adap-adam": ("C1", "solid"),
    "moap-v2": ("C0", "solid"),
    "moap-v1": ("C6", (0, (8, 1.5))),
    "moap-v1-all": ("C4", (0, (6, 1.5, 1, 1.5))),
    "soap-adam": ("C5", (0, (5, 1.5))),
    "soap-sgd": ("C2", (0, (3, 1.2))),
    "smoothap": ("C3", (0, (1, 1))),
}
"""Colour (of matplotlibrc) and line of every method in all figures."""
APPENDIX_METHODS = ("adap-adam", "moap-v2", "moap-v1")
APPENDIX_DATA = ("phishing", "w6a")
TRAINING_AP = "average precision, training"


def paper_figures(curves: Mapping[Key, Curves]) -> dict[str, Figure]:
    """Draw the figures of the linear experiments; the keys are file names."""
    shown = tuple(method for method in STYLE if method in PAPER_METHODS)
    versions = ("moap-v2", "moap-v1")
    after = "Precision and recall on test data after 500 rounds"
    by_round = "Average precision on training data by round"
    by_time = "Average precision on training data by CPU time, one core"
    both = "MOAP-V1 and MOAP-V2: average precision on training data"
    panels: dict[str, Any] = {
        "precision-recall": (shown, _over_recall, "recall", "precision, test", after),
        "ap-rounds": (shown, _along_rounds, "rounds", TRAINING_AP, by_round),
        "ap-seconds": (shown, _along_seconds, "milliseconds", TRAINING_AP, by_time),
        "v1-v2": (versions, _along_rounds, "rounds", TRAINING_AP, both),
    }
    return {name: _six_panels(curves, *panel) for name, panel in panels.items()}


def appendix_figure(curves: Mapping[Key, Curves]) -> Figure:
    """Draw training AP and test precision of MOAP-V1, MOAP-V2 and ADAP on phishing and w6a."""
    figure = Figure(figsize=(7.0, 5.6), layout="constrained")
    for row, name in zip(figure.subplots(2, 2), APPENDIX_DATA, strict=True):
        for method in APPENDIX_METHODS:
            _along_rounds(row[0], curves[method, name])
            _over_recall(row[1], curves[method, name])
        row[0].set(title=name, xlabel="rounds", ylabel=TRAINING_AP)
        row[1].set(title=name, xlabel="recall", ylabel="precision, test")
        row[0].margins(x=0)
    _legend(figure, "MOAP-V1 and MOAP-V2, as in the paper's appendix")
    return figure


def rates_figure(rates: Sequence[Rate], ladder: Ladder) -> Figure:
    """Draw ε by T, with the slopes of the theorems."""
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    axes = figure.subplots()
    for rate in rates:
        colour, line = STYLE[rate["run"]]
        epsilon = np.sqrt(np.mean(rate["squares"], axis=1))
        style: Any = {"color": colour, "linestyle": line, "marker": "o", "markersize": 3}
        axes.plot(ladder.lengths, epsilon, label=CLAIMS[rate["run"]].title, **style)
    lowest = min(float(np.sqrt(np.mean(rate["squares"][0]))) for rate in rates)
    _guides(axes, np.array(ladder.lengths, dtype=np.float64), lowest)
    axes.set(yscale="log", xlabel="rounds T", ylabel="ε,  ε² = mean of ‖∇F(wₜ)‖²")
    axes.set_xscale("log", base=2)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(f"Stationarity reached on {ladder.data}", x=0.01, ha="left", fontsize=11)
    return figure


def _six_panels(
    curves: Mapping[Key, Curves],
    methods: Sequence[str],
    panel: Callable[[Axes, Curves], None],
    x: str,
    y: str,
    title: str,
) -> Figure:
    """One panel per data set, one legend for all."""
    figure = Figure(figsize=(7.6, 5.3), layout="constrained")
    grid = figure.subplots(2, 3)
    for axes, name in zip(grid.flat, DATA, strict=True):
        for method in methods:
            panel(axes, curves[method, name])
        axes.set_title(name)
        axes.margins(x=0)
    for axes in grid[-1]:
        axes.set_xlabel(x)
    for axes in grid[:, 0]:
        axes.set_ylabel(y)
    _legend(figure, title)
    return figure


def _along_rounds(axes: Axes, curves: Curves) -> None:
    """Training AP by round, from the fifth on: the first leap would hide the rest."""
    late = np.array(AT) >= 5
    _band(axes, np.array(AT)[late], np.array(curves["train_ap"])[:, late], curves["method"])
    axes.set_xlim(0, AT[-1])


def _along_seconds(axes: Axes, curves: Curves) -> None:
    """Training AP by milliseconds of CPU time, from the first round on."""
    milliseconds = 1e3 * curves["seconds_per_round"] * np.array(AT[1:])
    _band(axes, milliseconds, np.array(curves["train_ap"])[:, 1:], curves["method"])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")


def _over_recall(axes: Axes, curves: Curves) -> None:
    """Precision by recall; every second point, which halves the file."""
    _band(axes, RECALL[1::2], np.array(curves["precision"])[:, 1::2], curves["method"])
    axes.set(xlim=(0, 1), ylim=(0, 1.02))


def _band(axes: Axes, x: Floats, repeats: Floats, method: str) -> None:
    """Mean over the repeats ± one standard deviation."""
    colour, line = STYLE[method]
    mean, std = repeats.mean(axis=0), repeats.std(axis=0, ddof=1)
    axes.fill_between(x, mean - std, np.minimum(mean + std, 1), color=colour, alpha=0.14, lw=0)
    axes.plot(x, mean, color=colour, linestyle=line, label=title_of(method))


def _legend(figure: Figure, title: str) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), handlelength=2.6)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)


def _guides(axes: Axes, lengths: Floats, lowest: float) -> None:
    """Thin lines with the slopes of T = O(1/ε⁴) and T = O(1/ε⁵)."""
    guides: Any = ((4, "⁴", "solid", -3), (5, "⁵", (0, (2, 2)), 3))
    for exponent, name, dash, above in guides:
        fall = 0.55 * lowest * (lengths / lengths[0]) ** (-1 / exponent)
        axes.plot(lengths, fall, color="0.6", linewidth=0.9, linestyle=dash)
        axes.annotate(
            f"T ∝ 1/ε{name}", (lengths[-1], fall[-1]), xytext=(4, above),
            textcoords="offset points", color="0.45", va="center", annotation_clip=False,
        )  # fmt: skip
