"""The command `apmax evaluate`."""

from __future__ import annotations

from typing import Any

import typer

from apmax.app.cli import inputs, options
from apmax.app.cli.console import Console, check_outputs, make_table
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
    report: options.ReportFile = None,
) -> None:
    """Print the average precision and operating points of a model on labelled data.

    [bold]Example:[/bold] apmax evaluate adult.apmax adult-test.csv
    """
    console: Console = context.obj
    with console.errors():
        from scipy.special import expit

        from apmax import average_precision
        from apmax.app.report.measures import operating_points
        from apmax.app.report.results import ScoredModel

        check_outputs(report, inputs=[model, data])
        scored = options.score_labelled_data(
            console, model, data, target, positive, rest, labels, reading
        )
        y = scored.dataset.labels()
        ap = average_precision(y, scored.log_odds)
        title = f"AP {ap:.4f} (random {y.mean():.4f}; {y.sum():,} positives in {y.size:,} rows)"
        table = make_table(title, "precision", "recall", "alerts per 1,000", "probability ≥")
        points: dict[str, Any] = {}
        found = operating_points(ScoredModel("model", y, expit(scored.log_odds)))
        for precision, point in found.items():
            cells = ["not reachable", "", ""]
            if point is not None:
                cells = [f"{point.recall:.1%}", f"{1000 * point.alert_rate:.1f}"]
                cells.append(f"{point.threshold:.4f}")
            points[str(precision)] = point and point._asdict()
            table.add_row(f"{precision:.0%}", *cells)
        counts = {"rows": int(y.size), "positives": int(y.sum()), "prevalence": float(y.mean())}
        result = {"average_precision": ap, **counts, "operating_points": points}
        console.show({**result, "warnings": scored.warnings}, table)
        if report is not None:
            write_model_report(console, report, scored)
