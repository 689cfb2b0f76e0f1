"""One self-contained HTML page: no network, no fonts to fetch, never half-written."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from apmax._version import __version__
from apmax.app.disk import make_folder, write_aside
from apmax.app.report import fit_sections, sections
from apmax.app.report.chart import SERIES
from apmax.app.report.markup import section
from apmax.app.report.results import Report
from apmax.app.report.sections import Drawn
from apmax.app.report.wording import text


def write_report(report: Report, path: str | os.PathLike[str]) -> Path:
    """Write the report as one HTML file, and return where.

    The file is written aside and renamed, so that whoever opens `path` finds the old page or
    the new one, whole. Missing folders are made. The same report gives the same bytes.

    Examples
    --------
    >>> import tempfile
    >>> from apmax.app.report import Report, Scored, write_report
    >>> result = Scored("a model", [1, 0, 1, 0], [2.0, 1.0, -1.0, -2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(Report("A small test", [result]), folder + "/report.html").name
    'report.html'
    """
    page = render(report)
    target = Path(path)
    make_folder(target.parent)
    write_aside(target, page.encode())
    return target


def render(report: Report) -> str:
    """The page as text."""
    models = [sections.measure(result, k) for k, result in enumerate(report.results)]
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(_asset("report.html")).substitute(
        title=text(report.title),
        style=_asset("report.css"),
        script=script,
        # Only this script may run, whatever a name in the data contains.
        script_hash=f"sha256-{digest}",
        data=safe_json(_slider_data(models)),
        lead=sections.lead(models),
        first=sections.first_of_all(report),
        summary=sections.summary(models),
        curves=sections.curves(models),
        models="".join(
            f'<option value="{k}">{text(model.result.name)}</option>'
            for k, model in enumerate(models)
        ),
        sections=_sections(report, models),
        version=text(__version__),
    )


def safe_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    plain = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _sections(report: Report, models: Sequence[Drawn]) -> str:
    compared = report.comparison
    command = (
        '<pre tabindex="0" role="region" aria-label="Command">'
        f"<code>{text(report.command)}</code></pre>"
    )
    parts = [
        section("wishes", "Thresholds to choose from", sections.wishes(models)),
        section(
            "comparison",
            "Across folds",
            "" if compared is None else sections.comparison_table(compared),
        ),
        section("history", "Training", fit_sections.histories(report.results)),
        section("calibration", "Calibration", sections.calibration(models)),
        section("weights", "What matters", fit_sections.coefficient_tables(report.results)),
        section("facts", "The data", sections.facts_list(report.facts) if report.facts else ""),
        section("repeat", "Do it again", command if report.command else ""),
    ]
    return "\n".join(parts)


def _slider_data(models: Sequence[Drawn]) -> list[dict[str, Any]]:
    """What report.js needs to follow the slider."""
    return [
        {
            "name": model.result.name,
            "series": model.series % SERIES,
            "thresholds": model.alerts.shown,
            "true": model.alerts.true.tolist(),
            "all": model.alerts.all.tolist(),
            "positives": model.alerts.positives,
            "examples": model.alerts.examples,
            "start": _best_f1(model),
            "wishes": [
                None if point is None else model.alerts.index_of(point.threshold)
                for point in model.points.values()
            ],
        }
        for model in models
    ]


def _best_f1(model: Drawn) -> int:
    """A sensible place for the slider to start: F₁ = 2 TP / (alerts + positives) is highest."""
    alerts = model.alerts
    return int(np.argmax(alerts.true / (alerts.all + alerts.positives)))


def _asset(name: str) -> str:
    return (files("apmax.app.report") / "assets" / name).read_text(encoding="utf-8")
