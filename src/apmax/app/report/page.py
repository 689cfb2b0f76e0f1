"""Render the report as one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from apmax._version import __version__
from apmax.app.decisions import rounded_down, shown_threshold
from apmax.app.report.calibration import Calibration, calibration
from apmax.app.report.effects import panels, weight_bars
from apmax.app.report.measures import (
    RESAMPLES,
    Alerts,
    Band,
    Quality,
    bootstrap_band,
    constant_quality,
    count_alerts,
    deciles,
    operating_points,
    quality,
    top_rows,
)
from apmax.app.report.plots import (
    draw_precision_recall,
    plot_calibration,
    plot_distributions,
    to_svg,
)
from apmax.app.report.results import Report, ScoredModel
from apmax.atomic_files import write_file
from apmax.metrics import OperatingPoint, operating_point
from apmax.tabular.leaderboard import Leaderboard
from apmax.validation import Floats

FEW_POSITIVES = 20
"""Below this number of positives, bootstrap intervals are too narrow."""
MAX_SHIFTS = 25
HEADLINE_SHARE, HEADLINE_RECALL = 0.05, 0.8
"""Top rows and recall that the headline describes."""
COSTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000)
"""Costs of a missed positive, in false alarms, that the slider offers."""


@dataclass(frozen=True, eq=False)
class Measured:
    """A model with the numbers that several sections show."""

    result: ScoredModel
    points: dict[float, OperatingPoint | None]
    alerts: Alerts
    band: Band
    quality: Quality
    calibration: Calibration

    def index_of(self, threshold: float) -> int:
        """Return the position of a threshold, or of the lowest above it."""
        return int(np.searchsorted(self.alerts.thresholds, threshold))


def write_report(report: Report, path: str | os.PathLike[str]) -> Path:
    """Write a report as one HTML file and return its path.

    The page loads nothing and works offline. Missing folders are created, and the file is
    replaced atomically.

    Parameters
    ----------
    report : Report
        The content.
    path : str or path
        The file to write.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from apmax.app.report import Report, ScoredModel, write_report
    >>> report = Report("Loans", [ScoredModel("model", [1, 0, 0, 0], [0.9, 0.4, 0.2, 0.1])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(report, f"{folder}/loans.html").name
    'loans.html'
    """
    target, page = Path(path), render(report)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_file(target, page.encode())
    return target


def render(report: Report) -> str:
    """Return the page as text; everything that comes from data is escaped."""
    environment = Environment(
        loader=PackageLoader("apmax.app.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"share": share, "number": number, "probability": probability}
    stored = report.threshold
    if stored is not None and stored > report.winner.probabilities.max():
        stored = None  # no row reaches it
    models = [
        _measure(result, stored if result is report.winner else None) for result in report.results
    ]
    best = next(k for k, result in enumerate(report.results) if result is report.winner)
    winner, start = report.winner, None
    ratio = report.cost_ratio
    costs = sorted({*COSTS, *(() if ratio is None else (ratio,))})
    if stored is not None:
        start = models[best].index_of(stored)
        _name_stored(models[best], start, stored)
    measured = [(one.result, one.alerts, one.band) for one in models]
    curves = draw_precision_recall(measured, best, range(len(models)))
    shown, others = panels(report.effects)
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("report.html").render(
        report=report,
        models=models,
        best=best,
        winner=models[best],
        headline=top_rows(winner, (HEADLINE_SHARE,))[0],
        at_recall=operating_point(
            winner.y, winner.probabilities, recall=HEADLINE_RECALL, sample_weight=winner.weight
        ),
        wanted_recall=HEADLINE_RECALL,
        stored=start,
        scale=_scale(report.leaderboard),
        top_rows=top_rows(winner),
        deciles=deciles(winner),
        constant=constant_quality(winner.prevalence),
        curves=to_svg(curves, "pr", f"(?:line|band)-{best}"),
        distributions=to_svg(plot_distributions(winner), "distributions"),
        calibration=to_svg(plot_calibration(winner), "calibration"),
        panels=shown,
        has_pairs=any(panel.rows for panel in shown),
        other_effects=others,
        weights=weight_bars(report.coefficients),
        shifts=list(report.drift)[:MAX_SHIFTS],
        hidden_shifts=len(report.drift) - MAX_SHIFTS,
        version=__version__,
        style=_asset("report.css"),
        script=script,
        script_hash=f"sha256-{digest}",  # the only script that the page may run
        slider_data={
            "costs": costs,
            "cost": None if ratio is None else costs.index(ratio),
            "best": best,
            "start": start,
            "models": [_slider_data(model) for model in models],
        },
        resamples=RESAMPLES,
        few_positives=FEW_POSITIVES,
        isnan=math.isnan,
    )


def share(value: float) -> str:
    """Format a share as a percentage; below 1 % with two significant digits."""
    percent = 100 * value
    return f"{percent:.1f}\u202f%" if percent == 0 or percent >= 1 else f"{percent:.2g}\u202f%"


def number(value: float, digits: int = 3, sign: str = "") -> str:
    """Format a number with a fixed number of decimals; a dash for NaN."""
    if math.isnan(value):
        return "–"
    rounded = round(value, digits) + 0.0  # the sum turns -0.0 into 0.0
    return f"{rounded:{sign if rounded else ''}.{digits}f}".replace("-", "−")


def probability(value: float) -> str:
    """Format a probability with two significant digits."""
    if 0 < value < 1e-4:
        return "< 0.0001"
    return f"{value:#.2g}" if 0 < value < 0.99 else f"{value:.4g}"


def _name_stored(model: Measured, start: int, threshold: float) -> None:
    """Show the stored threshold as the commands do, if that selects the same rows."""
    p, shown = model.result.probabilities, rounded_down(threshold, 4)
    if not ((p >= shown) & (p < threshold)).any():
        model.alerts.labels[start] = shown_threshold(threshold)


def _measure(result: ScoredModel, stored: float | None) -> Measured:
    points = operating_points(result)
    keep = [point.threshold for point in points.values() if point is not None]
    keep += [] if stored is None else [stored]
    return Measured(
        result,
        points,
        count_alerts(result, keep),
        bootstrap_band(result),
        quality(result),
        calibration(result),
    )


def _scale(leaderboard: Leaderboard | None) -> tuple[float, float]:
    """Return the range of AP that the leaderboard's marks cover: all models ± one error."""
    ends = [
        one.ap + side * (0.0 if math.isnan(one.ap_se) else one.ap_se)
        for one in leaderboard or ()
        for side in (-1, 1)
    ]
    low, high = max(0.0, min(ends, default=0.0)), min(1.0, max(ends, default=1.0))
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _slider_data(model: Measured) -> dict[str, Any]:
    """Return what report.js needs of a model."""
    alerts, points = model.alerts, model.points.values()
    return {
        "name": model.result.name,
        "thresholds": alerts.labels,
        "true": _plain(alerts.true),
        "all": _plain(alerts.total),
        "positives": float(alerts.positives),
        "rows": float(alerts.rows),
        "targets": [None if one is None else model.index_of(one.threshold) for one in points],
    }


def _plain(values: Floats) -> list[float]:
    """Return the numbers without decimals that they do not need."""
    return [int(value) if value.is_integer() else round(value, 6) for value in values.tolist()]


def _asset(name: str) -> str:
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")
