"""The command `apmax evaluate`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from apmax.app.cli import inputs, options
from apmax.app.cli.console import Console, check_outputs, make_table
from apmax.app.cli.report import write_model_report

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.model import Model


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
        from apmax.app.decisions import FEW_ALERTS, at_threshold, shown_threshold
        from apmax.app.drift import shift_note
        from apmax.app.report.calibration import calibration
        from apmax.app.report.measures import operating_points, top_rows
        from apmax.app.report.results import ScoredModel

        check_outputs(report, inputs=[model, data])
        scored = options.score_labelled_data(console, model, data, labels, reading, weight)
        y, mass = scored.dataset.labels(), scored.dataset.weight
        result = ScoredModel(scored.model.name, y, scored.probability, mass)
        ap = average_precision(y, scored.log_odds, sample_weight=mass)
        weighted = "" if mass is None else ", weighted"
        rows = f"{y.sum():,} positives in {y.size:,} rows{weighted}"
        table = make_table(
            f"AP {ap:.4f} (random {result.prevalence:.4f}; {rows})",
            *("rule", "precision", "recall", "alerts per 1,000", "probability ≥"),
        )
        points, top = operating_points(result), top_rows(result)
        for target_precision, point in points.items():
            cells = ["not reachable", "", "", ""]
            if point is not None:
                cells = [f"{point.precision:.1%}", f"{point.recall:.1%}"]
                cells += [f"{1000 * point.alert_rate:.1f}", shown_threshold(point.threshold)]
            table.add_row(f"precision {target_precision:.0%}", *cells)
        for one in top:
            cells = [f"{one.precision:.1%}", f"{one.recall:.1%}", f"{1000 * one.share:.1f}"]
            table.add_row(f"top {one.share:.0%}", *cells, shown_threshold(one.threshold))
        stored = scored.model.operating_point
        if stored is not None:
            name = scored.dataset.source.name
            stored = at_threshold(stored.threshold, stored.rule, y, scored.probability, name, mass)
            precision = f"{stored.precision:.1%}" if stored.alerts else ""
            cells = [precision, f"{stored.recall:.1%}", f"{1000 * stored.alerts / stored.rows:.1f}"]
            table.add_row(
                "stored threshold", *cells, shown_threshold(stored.threshold), style="bold"
            )
        verdict = calibration(result).sentence
        found = {
            "average_precision": ap,
            "rows": int(y.size),
            "positives": int(y.sum()),
            "prevalence": result.prevalence,
            "operating_points": {
                str(precision): point and point._asdict() for precision, point in points.items()
            },
            "top": [one._asdict() for one in top],
            "stored_threshold": stored and asdict(stored),
            "calibration": verdict,
        }
        shifts = scored.model.shifts(scored.dataset.X, scored.probability)
        drift = [shift._asdict() for shift in shifts]
        console.show({**found, "drift": drift, "warnings": scored.warnings}, table)
        console.say(verdict)
        if note := shift_note(shifts):
            console.note(note)
            console.note(
                f"if AP is below that of training{_cross_validated(scored.model)}, train again "
                "with recent rows"
            )
        if stored is None:
            reached = [
                precision
                for precision, point in points.items()
                if point is not None and point.alert_rate * y.size >= FEW_ALERTS
            ]
            rule = f"--precision {min(0.8, max(reached))}" if reached else "--top 5%"
            console.say(
                f"to choose when to alert: apmax threshold {model} {rule} --data FILE\n"
                "FILE should have other labelled rows than these, because a threshold does "
                "slightly worse on new rows than on those that chose it."
            )
        if report is not None:
            write_model_report(console, report, scored)


def _cross_validated(model: Model) -> str:
    """Return the AP of the leaderboard in brackets, if it is known."""
    one = next((one for one in model.leaderboard or () if one.chosen), None)
    return "" if one is None else f" ({one.ap:.4f} ± {one.ap_se:.4f})"
