"""The command `apmax evaluate`."""

from __future__ import annotations

from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from apmax.app.cli import inputs, options
from apmax.app.cli.console import Console, check_outputs, make_table
from apmax.app.cli.report import write_model_report

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.cli.console import ResultTable
    from apmax.app.decisions import Decision
    from apmax.app.report.measures import TopRows
    from apmax.app.report.results import ScoredModel
    from apmax.metrics import OperatingPoint


def evaluate(
    context: typer.Context,
    model: options.ModelFile,
    data: options.Data,
    labels: inputs.Labels,
    reading: inputs.Reading,
    weight: options.Weight = None,
    report: options.ReportFile = None,
) -> None:
    """Print the average precision and operating points of a model on labelled data.

    [bold]Example:[/bold] apmax evaluate adult.apmax adult-test.csv
    """
    console: Console = context.obj
    with console.errors():
        from apmax import average_precision
        from apmax.app.decisions import at_threshold
        from apmax.app.report.calibration import calibration
        from apmax.app.report.measures import bootstrap_band, operating_points, top_rows
        from apmax.app.report.results import ScoredModel

        check_outputs(report, inputs=[model, data])
        scored = options.score_labelled_data(console, model, data, labels, reading, weight)
        y, mass = scored.dataset.labels(), scored.dataset.weight
        result = ScoredModel(scored.model.name, y, scored.probability, mass)
        ap = average_precision(y, scored.log_odds, sample_weight=mass)
        points, top, stored = operating_points(result), top_rows(result), None
        if point := scored.model.operating_point:
            name = scored.dataset.source.name
            stored = at_threshold(point.threshold, point.rule, y, scored.probability, name, mass)
        weighted = "" if mass is None else ", weighted"
        rows = f"{y.sum():,} positives in {y.size:,} rows{weighted}"
        band = bootstrap_band(result)
        interval = f"95 % interval {band.ap_low:.3f} to {band.ap_high:.3f}"
        title = f"AP {ap:.4f} ({interval}, random {result.prevalence:.4f}; {rows})"
        verdict = calibration(result).sentence
        remedy = (
            "if AP has fallen since earlier rows with a similar share of positives, train again "
            "with recent rows"
        )
        drift = options.measure_drift(
            console, scored.model, scored.dataset, scored.probability, remedy
        )
        found = {
            "average_precision": ap,
            "interval": [band.ap_low, band.ap_high],
            "rows": int(y.size),
            "positives": int(y.sum()),
            "prevalence": result.prevalence,
            "operating_points": {
                str(precision): point and point._asdict() for precision, point in points.items()
            },
            "top": [one._asdict() for one in top],
            "stored_threshold": stored and asdict(stored),
            "calibration": verdict,
            "drift": drift,
            "warnings": scored.warnings,
        }
        console.show(found, _alerts_table(title, points, top, stored))
        console.say(verdict)
        if stored is None:
            console.say(_next_step(model, points, result))
        if report is not None:
            write_model_report(console, report, scored)


def _alerts_table(
    title: str,
    points: dict[float, OperatingPoint | None],
    top: list[TopRows],
    stored: Decision | None,
) -> ResultTable:
    """Return what alerts by each rule are worth on these rows."""
    from apmax.app.decisions import shown_threshold

    header = ("rule", "precision", "recall", "alerts per 1,000", "threshold")
    table = make_table(title, *header)

    def add(rule: str, one: Any, rate: float, style: str | None = None) -> None:
        precision = "" if isnan(one.precision) else f"{one.precision:.1%}"
        cells = (precision, f"{one.recall:.1%}", f"{1000 * rate:.1f}")
        table.add_row(rule, *cells, shown_threshold(one.threshold), style=style)

    for target, point in points.items():
        if point is None:
            table.add_row(f"precision ≥ {target:.0%}", "never", "", "", "")
        else:
            add(f"precision ≥ {target:.0%}", point, point.alert_rate)
    for one in top:
        add(f"top {one.share:.0%}", one, one.share)
    if stored is not None:
        add("stored threshold", stored, stored.alerts / stored.rows, style="bold")
    return table


def _next_step(model: Path, points: dict[float, OperatingPoint | None], result: ScoredModel) -> str:
    """Say how to store a threshold, for a precision that enough alerts have."""
    from apmax.app.decisions import FEW_ALERTS, effective_rows

    reached = [
        precision
        for precision, point in points.items()
        if point is not None
        and effective_rows(result.mass[result.probabilities >= point.threshold]) >= FEW_ALERTS
    ]
    rule = f"--precision {min(0.8, max(reached)):.0%}" if reached else "--top 5%"
    return (
        f"to choose when to alert: apmax threshold {model} {rule} --data FILE\n"
        "FILE should have other labelled rows than these, because a threshold does slightly worse "
        "on new rows than on those that chose it."
    )
