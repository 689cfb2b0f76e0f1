"""The paper's figures, by matplotlib: small multiples with one legend and one colour per method."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from apmax.app.disk import write_aside
from experiments.curves import AT, RECALL, Curves
from experiments.linear_table import Key
from experiments.protocol import DATA, PAPER_METHODS
from experiments.rates import CLAIMS, Rate
from experiments.tables import title_of
from apmax.app.report.plots import OKABE_ITO
from apmax.validation import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, PURPLE, BLACK, ORANGE, SKY = OKABE_ITO
STYLE: dict[str, tuple[str, Any]] = {
    "adap-adam": (VERMILION, "solid"),
    "moap-v2": (BLUE, "solid"),
    "moap-v1": (SKY, (0, (8, 1.5))),
    "moap-v1-all": (BLACK, (0, (6, 1.5, 1, 1.5))),
    "soap-adam": (ORANGE, (0, (5, 1.5))),
    "soap-sgd": (GREEN, (0, (3, 1.2))),
    "smoothap": (PURPLE, (0, (1, 1))),
}
"""Colour and line of every method, the same in all figures; the paper's own are solid."""
APPENDIX_METHODS = ("adap-adam", "moap-v2", "moap-v1")
APPENDIX_DATA = ("phishing", "w6a")
SETTINGS: Any = {
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "0.4",
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "grid.color": "0.92",
    "grid.linewidth": 0.6,
    "xtick.color": "0.3",
    "ytick.color": "0.3",
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.5,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "svg.hashsalt": "apmax",  # the same picture is the same file
    "svg.fonttype": "none",  # text stays text
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
}

Panel = Callable[["Axes", Curves], None]
P = ParamSpec("P")
T = TypeVar("T")


def in_style(draw: Callable[P, T]) -> Callable[P, T]:
    """Draw with SETTINGS, and leave matplotlib's own as they were."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        import matplotlib as mpl

        with mpl.rc_context(SETTINGS):
            return draw(*args, **kwargs)

    return drawn


def six_panels(
    curves: Mapping[Key, Curves],
    methods: Sequence[str],
    panel: Panel,
    *,
    x: str,
    y: str,
    title: str,
) -> Figure:
    """One panel per data set, one legend for all."""
    figure = _figure(7.6, 5.3)
    grid = figure.subplots(2, 3)
    for axes, name in zip(grid.flat, DATA, strict=True):
        for method in methods:
            panel(axes, curves[method, name])
        axes.set_title(name)
        axes.margins(x=0)
    _name_outer_axes(grid, x, y)
    _legend(figure, methods, title)
    return figure


def along_rounds(axes: Axes, curves: Curves) -> None:
    """Training AP against rounds, from the fifth on: the leap from chance would hide the rest."""
    late = np.array(AT) >= 5
    _band(axes, np.array(AT)[late], curves.train_ap[:, late], curves.method)
    axes.set_xlim(0, AT[-1])


def along_seconds(axes: Axes, curves: Curves) -> None:
    """Training AP against milliseconds of CPU time, from the first round on."""
    _band(
        axes,
        1e3 * curves.seconds_per_round * np.array(AT[1:]),
        curves.train_ap[:, 1:],
        curves.method,
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")


def over_recall(axes: Axes, curves: Curves) -> None:
    """Precision against recall on test data."""
    # Every second point: the eye sees no difference, and the file is half as large.
    _band(axes, RECALL[1::2], curves.precision[:, 1::2], curves.method)
    axes.set(xlim=(0, 1), ylim=(0, 1.02))


@in_style
def paper_figures(curves: Mapping[Key, Curves]) -> dict[str, Figure]:
    """All figures of the linear experiments by the names of their files."""
    ap = "average precision, training"
    versions = ("moap-v2", "moap-v1")
    shown = tuple(method for method in STYLE if method in PAPER_METHODS)
    return {
        "precision-recall": six_panels(
            curves, shown, over_recall, x="recall", y="precision, test",
            title="Precision and recall on test data after 500 rounds",
        ),
        "ap-rounds": six_panels(
            curves, shown, along_rounds, x="rounds", y=ap,
            title="Average precision on training data along the rounds",
        ),
        "ap-seconds": six_panels(
            curves, shown, along_seconds, x="milliseconds", y=ap,
            title="Average precision on training data along the time, on one core",
        ),
        "v1-v2": six_panels(
            curves, versions, along_rounds, x="rounds", y=ap,
            title="MOAP-V1 beside MOAP-V2: average precision on training data",
        ),
    }  # fmt: skip


@in_style
def appendix_figure(curves: Mapping[Key, Curves]) -> Figure:
    """Training AP and test precision of MOAP-V1, MOAP-V2 and ADAP on phishing and w6a."""
    figure = _figure(7.0, 5.6)
    grid = figure.subplots(2, 2)
    for row, name in zip(grid, APPENDIX_DATA, strict=True):
        for method in APPENDIX_METHODS:
            along_rounds(row[0], curves[method, name])
            over_recall(row[1], curves[method, name])
        row[0].set(title=name, xlabel="rounds", ylabel="average precision, training")
        row[1].set(title=name, xlabel="recall", ylabel="precision, test")
        row[0].margins(x=0)
    _legend(figure, APPENDIX_METHODS, "MOAP-V1 beside MOAP-V2, as in the paper's appendix")
    return figure


@in_style
def rates_figure(rates: Sequence[Rate], data: str) -> Figure:
    """ε against T with the slopes of the theorems; and the exponents with their intervals."""
    figure = _figure(7.6, 4.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    for rate in rates:
        colour, line = STYLE[rate.key]
        squares = np.array(rate.squares)
        epsilon = np.sqrt(squares.mean(axis=1))
        left.plot(
            rate.lengths, epsilon, color=colour, linestyle=line, marker="o", markersize=3,
            label=CLAIMS[rate.key].title,
        )  # fmt: skip
    _guides(left, rates)
    left.set(xscale="log", yscale="log", xlabel="rounds T", ylabel="ε,  ε² = mean of ‖∇F(wₜ)‖²")
    left.set_xscale("log", base=2)
    left.set_title(f"stationarity reached, {data}")
    _exponents(right, rates)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, columnspacing=1.4)
    return figure


@in_style
def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write the figure as SVG and PNG; the same figure is the same bytes."""
    svg, png = folder / f"{name}.svg", folder / f"{name}.png"
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    # A hundredth of a point cannot be seen, and its digits are half of the file.
    write_aside(svg, re.sub(r"(\d\.\d\d)\d+", r"\1", text.getvalue()).encode())
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=180, metadata={"Software": None})
    write_aside(png, picture.getvalue())
    return [svg, png]


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _band(axes: Axes, x: Floats, repeats: Floats, method: str) -> None:
    """The mean over the repeats, and one standard deviation to both sides."""
    colour, line = STYLE[method]
    mean, std = repeats.mean(axis=0), repeats.std(axis=0, ddof=1)
    axes.fill_between(x, mean - std, np.minimum(mean + std, 1), color=colour, alpha=0.14, lw=0)
    axes.plot(x, mean, color=colour, linestyle=line, label=title_of(method))


def _name_outer_axes(grid: Any, x: str, y: str) -> None:
    for axes in grid[-1]:
        axes.set_xlabel(x)
    for row in grid:
        row[0].set_ylabel(y)


def _legend(figure: Figure, methods: Sequence[str], title: str) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(methods), handlelength=2.6)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)


def _guides(axes: Axes, rates: Sequence[Rate]) -> None:
    """Thin lines with the slopes of T = O(1/ε⁴) and T = O(1/ε⁵)."""
    lengths = np.array(rates[0].lengths, dtype=np.float64)
    lowest = min(float(np.sqrt(np.mean(rate.squares[0]))) for rate in rates)
    guides: Any = ((4, "⁴", "solid", -3), (5, "⁵", (0, (2, 2)), 3))
    for exponent, name, dash, above in guides:
        fall = 0.55 * lowest * (lengths / lengths[0]) ** (-1 / exponent)
        axes.plot(lengths, fall, color="0.6", linewidth=0.9, linestyle=dash)
        axes.annotate(
            f"T ∝ 1/ε{name}", (lengths[-1], fall[-1]), xytext=(4, above),
            textcoords="offset points", color="0.45", va="center", annotation_clip=False,
        )  # fmt: skip


def _exponents(axes: Axes, rates: Sequence[Rate]) -> None:
    """p of every method with its 95 % interval; a small cross is what the theorem says."""
    for exponent in (4, 5):
        axes.axvline(exponent, color="0.75", linewidth=0.9)
    for row, rate in enumerate(rates):
        colour, _ = STYLE[rate.key]
        for fitted, shift, filled in ((rate.whole, -0.13, True), (rate.upper, 0.13, False)):
            if not np.isfinite(fitted.exponent):
                continue
            high = min(fitted.high, 1e3)
            axes.plot([fitted.low, high], [row + shift] * 2, color=colour, linewidth=1.3)
            face = colour if filled else "white"
            axes.plot(
                fitted.exponent, row + shift, "o", color=colour, markersize=5, markerfacecolor=face
            )
        axes.plot(CLAIMS[rate.key].exponent, row, "x", color="0.25", markersize=6)
    finite = [rate.whole.high for rate in rates] + [rate.upper.high for rate in rates]
    top = min(max([x for x in finite if np.isfinite(x)], default=8), 12)
    axes.set_xlim(0, max(top * 1.05, 6))
    axes.set_yticks(range(len(rates)), [CLAIMS[rate.key].title for rate in rates])
    axes.set_ylim(len(rates) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set(xlabel="p of T ∝ 1/εᵖ", title="exponents")
    axes.text(
        0, -0.2, "●  all T    ○  the longer half    ×  theorem", transform=axes.transAxes,
        fontsize=7.5, color="0.3", va="top",
    )  # fmt: skip
