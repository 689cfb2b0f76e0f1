"""apmax train, evaluate, predict and report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from scipy.special import expit

from apmax.cli.console import (
    Settings,
    check_writable,
    command_line,
    make_table,
    one_line_errors,
    progress,
    stop,
)
from apmax.cli.options import Data, ModelFile, Positive, ReportFile, Seed, Target, check_target
from apmax.errors import ParameterError, UnknownNameError
from apmax.metrics import average_precision

if TYPE_CHECKING:  # what takes long to import is imported by the command that needs it
    from apmax.data.files import Dataset
    from apmax.pipeline.model import Model
    from apmax.pipeline.training import Trained


def train(
    context: typer.Context,
    data: Data,
    target: Target = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model.")] = Path(
        "model.apmax"
    ),
    positive: Positive = None,
    test: Annotated[
        Path | None, typer.Option(help="Data to test on; without, a fifth is held out.")
    ] = None,
    solver: Annotated[
        str,
        typer.Option(help='"cv" chooses all by cross-validation; or "lbfgs", "adap-adam", …'),
    ] = "cv",
    report: ReportFile = None,
    seed: Seed = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder for a stochastic solver's state; a stopped run goes on."),
    ] = None,
) -> None:
    """Train a model on a file and write it to another.

    Mixed tables need no preparation: numbers, words, dates, missing values.

    [bold]Example:[/bold] apmax train adult.csv --target last --out adult.apmax
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from apmax.data.files import load
        from apmax.pipeline.drift import notes_on_training
        from apmax.pipeline.storage import save_model
        from apmax.pipeline.training import train as train_model

        check_writable(out, report, read=[data, test])
        dataset = load(data, target=target, positive=positive)
        check_target(dataset)
        learnt, tested = _parts(dataset, test, seed)
        _noted(settings, notes_on_training(learnt.X))
        start = time.perf_counter()
        kept = None if checkpoint is None else checkpoint / "to-test"
        with progress(settings, "training") as advance:
            trained = train_model(
                learnt, solver=solver, seed=seed, checkpoint=kept, on_progress=advance
            )
        scores = trained.model.log_odds(tested.X)
        ap = average_precision(_labels(tested), scores)
        facts = {"test_ap": ap, "test_rows": int(tested.X.shape[0]), "command": command_line()}
        trained = trained.with_facts(facts)
        save_model(trained.model, out)
        settings.kept = out
        whole, interrupted = trained, trained.interrupted
        if test is None and not interrupted:
            kept = None if checkpoint is None else checkpoint / "all-rows"
            try:
                with progress(settings, "training on all rows") as advance:
                    whole = train_model(
                        dataset, solver=solver, seed=seed, checkpoint=kept, on_progress=advance
                    ).with_facts(facts)
                interrupted = whole.interrupted
            except KeyboardInterrupt:
                interrupted = True
            if interrupted:  # the model of the other rows, which was tested, is there already
                whole = replace(trained, interrupted=True)
            else:
                save_model(whole.model, out)
        _tell_training(settings, whole, tested, ap, out, time.perf_counter() - start)
        if report is not None:
            note = "" if test else f"of a model of {learnt.X.shape[0]:,} rows; the file has all"
            name = (test or data).name  # the rows that the report is about
            _write_report(settings, report, name, trained.model, tested, scores, trained, note)
        if interrupted:
            stop(settings)


def evaluate(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    target: Target = None,
    positive: Positive = None,
    report: ReportFile = None,
) -> None:
    """Average precision of a model on data with labels, and what it means in alerts.

    [bold]Example:[/bold] apmax evaluate adult.apmax adult-test.csv
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from apmax.pipeline.storage import load_model
        from apmax.report.alerts import operating_points
        from apmax.report.results import Scored

        check_writable(report, read=[model, data])
        trained = load_model(model)
        dataset = _labelled(trained, data, target, positive)
        scores, notes = _log_odds(settings, trained, dataset)
        y = _labels(dataset)
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
            _write_report(settings, report, data.name, trained, dataset, scores, doubts=notes)


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
        from apmax.data.files import load
        from apmax.pipeline.files import check_output, predictions, write_predictions
        from apmax.pipeline.storage import load_model

        check_writable(out, read=[model, data])
        check_output(out)
        trained = load_model(model)
        dataset = load(data, target=False, text=trained.words())
        log_odds, notes = _log_odds(settings, trained, dataset)
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
) -> None:
    """A self-contained HTML report of a model on data with labels.

    [bold]Example:[/bold] apmax report adult.apmax adult-test.csv --out adult.html
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from apmax.pipeline.storage import load_model

        check_writable(out, read=[model, data])
        trained = load_model(model)
        dataset = _labelled(trained, data, target, positive)
        scores, notes = _log_odds(settings, trained, dataset)
        _write_report(settings, out, data.name, trained, dataset, scores, doubts=notes)
        if settings.as_json:
            settings.show(make_table(""), {"report": str(out)})


def _parts(dataset: Dataset, test: Path | None, seed: int) -> tuple[Dataset, Dataset]:
    from apmax.pipeline.encoder import TableEncoder
    from apmax.pipeline.training import hold_out, load_labelled

    if test is None:
        return hold_out(dataset, seed=seed)
    words = TableEncoder.fit(dataset.X).words() if hasattr(dataset.X, "columns") else []
    positive = str(dataset.positive_label)
    return dataset, load_labelled(test, target=dataset.target, positive=positive, text=words)


def _labelled(model: Model, data: Path, target: str | None, positive: str | None) -> Dataset:
    from apmax.pipeline.training import load_labelled, same_label

    if positive is not None and same_label(positive, model.negative):
        raise ParameterError(
            f"`--positive` = {positive!r} is what the model does not look for: it finds "
            f"{model.positive!r}"
        )
    wanted, column = positive or model.positive, target or model.target
    try:
        dataset = load_labelled(data, target=column, positive=wanted, text=model.words())
    except UnknownNameError:
        if target is not None:
            raise
        raise ParameterError(
            f"{data} has no column {column!r}, which held the labels in training: say where they "
            "are with --target; without labels, use apmax predict"
        ) from None
    check_target(dataset)
    return dataset


def _log_odds(settings: Settings, model: Model, dataset: Dataset) -> tuple[Any, list[str]]:
    """Of each row, and a note for each column that the model cannot use."""
    scores = model.log_odds(dataset.X)
    return scores, _noted(settings, model.doubts(dataset.X))


def _noted(settings: Settings, notes: list[str]) -> list[str]:
    for note in notes:
        settings.note(f"note: {note}")
    return notes


def _labels(dataset: Dataset) -> Any:
    if dataset.y is None:
        raise ParameterError("the data have no target: say which column it is with --target")
    return dataset.y


def _tell_training(
    settings: Settings, trained: Trained, tested: Dataset, ap: float, out: Path, seconds: float
) -> None:
    from apmax.pipeline.training import strongest_features

    y = _labels(tested)
    model = trained.model
    title = f"test AP {ap:.4f}   ({y.mean():.4f} by chance), {seconds:.1f} s → {out}"
    table = make_table(title, "what moves the log-odds most", "per deviation")
    strongest = strongest_features(model, tested.X, 8)
    for name, weight in strongest:
        table.add_row(name, f"{weight:+.3f}")
    settings.show(
        table,
        {
            "model": str(out), "test_ap": ap, "test_prevalence": float(y.mean()),
            "seconds": seconds, "positive": model.positive, "negative": model.negative,
            "strongest_features": dict(strongest), **model.facts,
        },
    )  # fmt: skip
    ended = "stopped" if trained.interrupted else trained.status
    settings.say(f"positive is {model.positive!r}, negative {model.negative!r}; {ended}")


def _write_report(
    settings: Settings, path: Path, title: str, model: Model, dataset: Dataset, scores: Any,
    trained: Trained | None = None, note: str = "", doubts: Sequence[str] = (),
) -> None:  # fmt: skip
    from apmax.pipeline.training import strongest_features
    from apmax.report import Report, Scored, write_report

    y = _labels(dataset)
    scored = Scored(
        name="apmax",
        y=y,
        scores=expit(scores),
        history=None if trained is None else trained.history,
        coefficients=strongest_features(model, dataset.X),
        scale="probability",
        per_deviation=True,
    )
    facts = {
        "data": title,
        "rows": f"{y.size:,}",
        "positives": f"{int(y.sum()):,} ({y.mean():.2%}), {model.positive!r}",
        "features": f"{model.coef.size:,}",
        "trained with": str(model.facts.get("solver", "")),
        "trained on": f"{model.facts.get('rows', '?')} rows",
        **({"these numbers": note} if note else {}),
        **({"take care": "; ".join(doubts)} if doubts else {}),
    }
    write_report(Report(title, [scored], None, facts, command_line()), path)
    settings.say(f"report → {path}")
