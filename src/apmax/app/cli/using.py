"""apmax evaluate, predict and report: what can be done with a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from scipy.special import expit

from apmax.app.cli.console import Settings, check_writable, make_table, one_line_errors
from apmax.app.cli.options import Data, ModelFile, Positive, ReportFile, Rest, Target, check_target
from apmax.app.cli.reporting import labels_of, log_odds_of, report_on
from apmax.errors import ParameterError, UnknownNameError
from apmax.metrics import average_precision

if TYPE_CHECKING:  # what takes long to import is imported by the command that needs it
    from apmax.app.data.files import Dataset
    from apmax.app.pipeline.model import Model


def evaluate(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    target: Target = None,
    positive: Positive = None,
    rest: Rest = False,
    report: ReportFile = None,
) -> None:
    """Average precision of a model on data with labels, and what it means in alerts.

    [bold]Example:[/bold] apmax evaluate adult.apmax adult-test.csv
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from apmax.app.pipeline.storage import load_model
        from apmax.app.report.alerts import operating_points
        from apmax.app.report.results import Scored

        check_writable(report, read=[model, data])
        trained = load_model(model)
        dataset = _labelled(trained, data, target, positive, rest)
        scores, notes = log_odds_of(settings, trained, dataset)
        y = labels_of(dataset)
        ap = average_precision(y, scores)
        points = operating_points(Scored(model.name, y, scores, scale="log-odds"))
        table = make_table(
            f"AP {ap:.4f}   ({y.mean():.4f} by chance; {y.sum():,} positives in {y.size:,} rows)",
            "precision", "recall", "alerts per 1,000", "probability ≥",
        )  # fmt: skip
        told: dict[str, dict[str, float] | None] = {}
        for wanted, point in points.items():
            if point is None:
                told[str(wanted)] = None
                table.add_row(f"{wanted:.0%}", "not reached", "", "")
                continue
            probability = float(expit(point.threshold))
            told[str(wanted)] = {
                "precision": point.precision, "recall": point.recall,
                "alerts_per_1000": 1000 * point.alert_rate, "log_odds": point.threshold,
                "probability": probability,
            }  # fmt: skip
            table.add_row(
                f"{wanted:.0%}", f"{point.recall:.1%}", f"{1000 * point.alert_rate:.1f}",
                f"{probability:.4f}",
            )  # fmt: skip
        result = {
            "average_precision": ap, "prevalence": float(y.mean()), "rows": int(y.size),
            "positives": int(y.sum()), "operating_points": told, "notes": notes,
        }  # fmt: skip
        settings.show(table, result)
        if report is not None:
            report_on(settings, report, data.name, trained, dataset, scores, doubts=notes)


def predict(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="CSV, TSV or Parquet; without, CSV goes to stdout."),
    ] = None,
) -> None:
    """Probability of the positive label for every row of a file.

    [bold]Example:[/bold] apmax predict adult.apmax new.csv --out scores.csv
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from apmax.app.data.files import load
        from apmax.app.pipeline.files import check_output, predictions, write_predictions
        from apmax.app.pipeline.storage import load_model

        check_writable(out, read=[model, data])
        check_output(out)
        trained = load_model(model)
        dataset = load(data, target=False, text=trained.words())
        log_odds, notes = log_odds_of(settings, trained, dataset)
        if out is None and settings.as_json:
            columns = predictions(log_odds, trained).items()
            told = {name: values.tolist() for name, values in columns}
            settings.show(make_table(""), {**told, "notes": notes})
            return
        write_predictions(log_odds, trained, out)
        if out is not None:
            if settings.as_json:
                told = {"rows": log_odds.size, "out": str(out), "notes": notes}
                settings.show(make_table(""), told)
            settings.say(f"{log_odds.size:,} row{'s' * (log_odds.size != 1)} → {out}")


def report(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file.")] = Path("report.html"),
    target: Target = None,
    positive: Positive = None,
    rest: Rest = False,
) -> None:
    """A self-contained HTML report of a model on data with labels.

    [bold]Example:[/bold] apmax report adult.apmax adult-test.csv --out adult.html
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from apmax.app.pipeline.storage import load_model

        check_writable(out, read=[model, data])
        trained = load_model(model)
        dataset = _labelled(trained, data, target, positive, rest)
        scores, notes = log_odds_of(settings, trained, dataset)
        report_on(settings, out, data.name, trained, dataset, scores, doubts=notes)
        if settings.as_json:
            settings.show(make_table(""), {"report": str(out)})


def _labelled(
    model: Model, data: Path, target: str | None, positive: str | None, rest: bool
) -> Dataset:
    from apmax.app.data.files import load
    from apmax.app.data.target import same_label

    wanted, column = positive or model.positive, target or model.target
    try:
        dataset = load(
            data,
            target=column,
            positive=wanted,
            against_rest=rest or model.rest is not None,
            text=model.words(),
        )
    except UnknownNameError:
        if target is not None:
            raise
        raise ParameterError(
            f"{data} has no column {column!r}, which held the labels in training: say where they "
            "are with --target; without labels, use apmax predict"
        ) from None
    check_target(dataset)
    found = [label for label in dataset.counts if same_label(label, model.positive)]
    if found and not same_label(wanted, model.positive):
        raise ParameterError(
            f"`--positive` = {positive!r} is what the model does not look for: it finds "
            f"{found[0]!r}"
        )
    return dataset
