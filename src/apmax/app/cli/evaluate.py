"""The command `apmax evaluate`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import typer

from apmax.app.cli import inputs, options
from apmax.app.cli.console import Console, check_outputs, make_table, shown_threshold
from apmax.app.cli.report import write_model_report


def evaluate(
    context: typer.Context,
    model: options.ModelFile,
    data: options.Data,
    labels: inputs.Labels,
    reading: inputs.Reading,
    target: options.Target = None,
    positive: options.Positive = None,
    rest: options.Rest = False,
    weight: options.Weight = None,
    report: options.ReportFile = None,
) -> None:
    """Print the average precision and operating points of a model on labelled data.

    [bold]Example:[/bold] apmax evaluate adult.apmax adult-test.csv
    """
    console: Console = context.obj
    with console.errors():
        import numpy as np

        from apmax import average_precision, operating_point
        from apmax.app.drift import psi
        from apmax.app.report.calibration import calibration
        from apmax.app.report.measures import TARGET_PRECISIONS
        from apmax.app.report.results import ScoredModel
        from apmax.errors import UnreachableTargetError

        check_outputs(report, inputs=[model, data])
        scored = options.score_labelled_data(
            console, model, data, target, positive, rest, labels, reading, weight
        )
        y, mass = scored.dataset.labels(), scored.dataset.weight
        ap = average_precision(y, scored.log_odds, sample_weight=mass)
        prevalence = float(np.average(y, weights=mass))
        weighted = "" if mass is None else ", weighted"
        rows = f"{y.sum():,} positives in {y.size:,} rows{weighted}"
        table = make_table(
            f"AP {ap:.4f} (random {prevalence:.4f}; {rows})",
            *("precision", "recall", "alerts per 1,000", "probability ≥"),
        )
        points: dict[str, Any] = {}
        for precision in TARGET_PRECISIONS:
            cells, points[str(precision)] = ["not reachable", "", ""], None
            with suppress(UnreachableTargetError):
                point = operating_point(
                    y, scored.probability, precision=precision, sample_weight=mass
                )
                cells = [f"{point.recall:.1%}", f"{1000 * point.alert_rate:.1f}"]
                cells.append(shown_threshold(point.threshold))
                points[str(precision)] = point._asdict()
            table.add_row(f"{precision:.0%}", *cells)
        counts = {"rows": int(y.size), "positives": int(y.sum()), "prevalence": prevalence}
        verdict = calibration(ScoredModel(scored.model.name, y, scored.probability, mass)).sentence
        result = {"average_precision": ap, **counts, "operating_points": points}
        result["calibration"] = verdict
        shifts = (
            []
            if scored.model.profile is None
            else psi(scored.model.profile, scored.dataset.X, scored.probability)
        )
        drift = [shift._asdict() for shift in shifts]
        console.show({**result, "drift": drift, "warnings": scored.warnings}, table)
        console.say(verdict)
        for shift in shifts:
            if shift.size != "small":
                text = (
                    f"{shift.size} shift of {shift.column!r} since training (PSI {shift.psi:.2f})"
                )
                console.note(text)
        chosen = f"apmax threshold {model} --data {data} --precision 0.8"
        console.say(f"to store a threshold for `apmax predict`: {chosen}")
        if report is not None:
            write_model_report(console, report, scored)
