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
from apmax.app.files import write_file
from apmax.app.report.measures import (
    RESAMPLES,
    Alerts,
    Band,
    Reliability,
    bootstrap_band,
    count_alerts,
    operating_points,
    reliability,
)
from apmax.app.report.plots import COLOURS, plot_calibration, plot_precision_recall, to_svg
from apmax.app.report.results import Report, ScoredModel
from apmax.metrics import OperatingPoint

FEW_POSITIVES = 20
"""Below this number of positives, bootstrap intervals are too narrow."""
MAX_COEFFICIENTS = 20


@dataclass(frozen=True, eq=False)
class Measured:
    """A model with the numbers that several sections show."""

    result: ScoredModel
    series: int
    points: dict[float, OperatingPoint | None]
    alerts: Alerts
    band: Band
    bins: Reliability

    def index_of(self, point: OperatingPoint) -> int:
        """Return the position of an operating point among the thresholds."""
        return int(np.searchsorted(self.alerts.thresholds, point.threshold))


def write_report(report: Report, path: str | os.PathLike[str]) -> Path:
    """Write a report as one HTML file and return its path.

    The page loads nothing and works offline. Missing folders are created, and the file is
    replaced atomically.
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
    environment.filters["share"] = share
    models = [_measure(result, k) for k, result in enumerate(report.results)]
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("report.html").render(
        report=report,
        models=models,
        best=max(models, key=lambda model: model.band.ap),
        version=__version__,
        style=_asset("report.css"),
        script=script,
        script_hash=f"sha256-{digest}",  # the only script that the page may run
        slider_data=[_slider_data(model) for model in models],
        curves=to_svg(plot_precision_recall(report.results), "pr"),
        calibration=to_svg(plot_calibration(report.results), "calibration"),
        weights=[(r, _bars(r)) for r in report.results if r.coefficients],
        resamples=RESAMPLES,
        few_positives=FEW_POSITIVES,
        isnan=math.isnan,
    )


def share(value: float) -> str:
    """Format a share as a percentage; below 1 % with two significant digits."""
    percent = 100 * value
    return f"{percent:.1f}\u202f%" if percent == 0 or percent >= 1 else f"{percent:.2g}\u202f%"


def _measure(result: ScoredModel, series: int) -> Measured:
    points = operating_points(result)
    keep = tuple(point.threshold for point in points.values() if point is not None)
    alerts = count_alerts(result, keep)
    return Measured(result, series, points, alerts, bootstrap_band(result), reliability(result))


def _slider_data(model: Measured) -> dict[str, Any]:
    """Return what report.js needs; the slider starts at the largest F₁."""
    alerts = model.alerts
    f1 = alerts.true / (alerts.total + alerts.positives)
    return {
        "name": model.result.name,
        "series": model.series % len(COLOURS),
        "thresholds": alerts.labels,
        "true": alerts.true.tolist(),
        "all": alerts.total.tolist(),
        "positives": alerts.positives,
        "examples": alerts.rows,
        "start": int(np.argmax(f1)),
        "targets": [None if p is None else model.index_of(p) for p in model.points.values()],
    }


def _bars(result: ScoredModel) -> list[tuple[str, float, float]]:
    """Return the largest weights with the lengths of their bars in percent."""
    size = max(abs(weight) for _, weight in result.coefficients) or 1.0
    largest = result.coefficients[:MAX_COEFFICIENTS]
    return [(name, weight, 50 * abs(weight) / size) for name, weight in largest if weight]


def _asset(name: str) -> str:
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")
