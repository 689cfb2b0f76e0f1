"""What a model tells about itself: how its training went, and which features it uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from apmax.app.report.chart import Axis, Chart, nice_ticks, swatch
from apmax.app.report.markup import figure, grid, head_row, legend, table
from apmax.app.report.results import HISTORY_AP, Scored, drawn_columns
from apmax.app.report.wording import ap, count, text
from apmax.validation import Floats

COLUMN_NAMES = {
    "validation_ap": "validation AP",
    "train_ap": "training AP",
    "surrogate_ap": "surrogate AP, the objective",
}
MOST_ROWS = 400
TOP = 20


def histories(results: Sequence[Scored]) -> str:
    """AP against steps and against seconds, for every model that kept a history."""
    parts = ""
    for result in results:
        if result.history is not None:
            heading = f"<h3>{text(result.name)}</h3>" if len(results) > 1 else ""
            parts += heading + _history(result.history)
    return parts


def coefficient_tables(results: Sequence[Scored]) -> str:
    """The largest weights of every linear model."""
    tables = [
        _coefficients(result, result.coefficients) for result in results if result.coefficients
    ]
    note = (
        "What one standard deviation of a feature adds to the log-odds."
        if all(result.per_deviation for result in results)
        else "Weights belong to the features as the model was given them: sizes compare only "
        "between features of the same scale."
    )
    return f'{grid(tables)}<p class="note">{note}</p>' if tables else ""


def largest(coefficients: Sequence[tuple[str, float]], top: int = TOP) -> list[tuple[str, float]]:
    """The weights that matter most, largest first; those of 0 are left out."""
    by_size = sorted(coefficients, key=lambda pair: -abs(pair[1]))
    return [pair for pair in by_size[:top] if pair[1] != 0]


def _history(history: Mapping[str, Floats]) -> str:
    drawn = drawn_columns(history)
    size = history["step"].size
    rows = np.unique(np.linspace(0, size - 1, min(size, MOST_ROWS)).round().astype(np.int64))
    values = np.concatenate([history[name][rows] for name in drawn])
    axis = _ap_axis(values[np.isfinite(values)])
    charts = []
    for along, label in (("step", "steps"), ("seconds", "seconds")):
        x = history[along][rows]
        low, high = float(x.min()), float(x.max())
        # Seconds may begin late, after compiling; then the lines deserve the whole width.
        low = low if low > high / 2 else 0.0
        high = high if high > low else low + 1
        chart = Chart(Axis(label, low, high, nice_ticks(low, high, 6)), axis)
        lines = [chart.line(x, history[name][rows], HISTORY_AP.index(name)) for name in drawn]
        ends = "; ".join(
            f"{COLUMN_NAMES[name]} from {ap(_first(history[name]))} to "
            f"{ap(_first(history[name][::-1]))}"
            for name in drawn
        )
        alternative = f"AP against {label} of training, up to {high:g}: {ends}."
        charts.append(figure(chart.html(lines, alternative), ""))
    labels = (
        f'<span class="model">{swatch(HISTORY_AP.index(name))}{COLUMN_NAMES[name]}</span>'
        for name in drawn
    )
    return legend(labels) + grid(charts)


def _first(column: Floats) -> float:
    return float(column[np.isfinite(column)][0])


def _ap_axis(values: Floats) -> Axis:
    """From a little below the lowest to a little above the highest value."""
    low, high = float(values.min()), float(values.max())
    pad = max(0.08 * (high - low), 0.005)
    low, high = max(low - pad, min(low, 0.0)), min(high + pad, max(high, 1.0))
    return Axis("average precision", low, high, nice_ticks(low, high))


def _weight(value: float) -> str:
    """Three significant digits, with the zeros that line numbers up."""
    return f"{value:+#.3g}".rstrip(".").replace("-", "−")


def _coefficients(result: Scored, coefficients: Sequence[tuple[str, float]]) -> str:
    top = largest(coefficients)
    size = max((abs(weight) for _, weight in top), default=1.0)
    rows = ""
    for feature, weight in top:
        side = "up" if weight > 0 else "down"
        bar = f'<span class="bar {side}" style="width:{50 * abs(weight) / size:.4g}%"></span>'
        rows += f'<tr><th scope="row">{text(feature)}</th><td class="bars">{bar}</td>'
        rows += f"<td>{_weight(weight)}</td></tr>"
    every = count(len(coefficients))
    shown = (
        "what counts most" if result.per_deviation else f"the {len(top)} largest of {every} weights"
    )
    kind = "per deviation" if result.per_deviation else "weight"
    head = head_row("Feature") + '<td aria-hidden="true"></td>' + head_row(kind)
    return table(f"{text(result.name)}: {shown}", head, rows)
