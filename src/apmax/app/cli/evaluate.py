"""The command `apmax evaluate`."""

from __future__ import annotations

from typing import Any

import typer

from apmax.app.cli.console import Console, check_outputs, make_table
from apmax.app.cli.options import (
    Data,
    ModelFile,
    Positive,
    ReportFile,
    Rest,
    Target,
    load_labelled_data,
)
from apmax.app.cli.report import write_model_report


def evaluate(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    target: Target = None,
    positive: Positive = None,
    rest: Rest = False,
    report: ReportFile = None,
) -> None:
    """Print the average precision and operating points of a model on labelled data.

    [bold]Example:[/bold] apmax evaluate adult.apmax adult-test.csv
    """
    console: Console = context.obj
    with console.errors():
        from scipy.special import expit

        from apmax import average_precision
        from apmax.app.model import load_model
        from apmax.app.report.measures import operating_points
        from apmax.app.report.results import ScoredModel

        check_outputs(report, inputs=[model, data])
        loaded = load_model(model)
        dataset = load_labelled_data(loaded, data, target, positive, rest)
        scores, y = loaded.log_odds(dataset.X), dataset.labels()
        notes = loaded.warnings_for(dataset)
        console.warn(notes)
        ap = average_precision(y, scores)
        title = f"AP {ap:.4f} (random {y.mean():.4f}; {y.sum():,} positives in {y.size:,} rows)"
        table = make_table(title, "precision", "recall", "alerts per 1,000", "probability ≥")
        points: dict[str, Any] = {}
        for precision, point in operating_points(ScoredModel("model", y, scores)).items():
            points[str(precision)] = None
            cells = ["not reachable", "", ""]
            if point is not None:
                probability = float(expit(point.threshold))
                points[str(precision)] = {
                    "precision": point.precision,
                    "recall": point.recall,
                    "alerts_per_1000": 1000 * point.alert_rate,
                    "log_odds": point.threshold,
                    "probability": probability,
                }
                alerts = f"{1000 * point.alert_rate:.1f}"
                cells = [f"{point.recall:.1%}", alerts, f"{probability:.4f}"]
            table.add_row(f"{precision:.0%}", *cells)
        counts = {"rows": int(y.size), "positives": int(y.sum()), "prevalence": float(y.mean())}
        result = {"average_precision": ap, **counts, "operating_points": points}
        console.show({**result, "warnings": notes}, table)
        if report is not None:
            write_model_report(console, report, loaded, dataset, scores, notes)
