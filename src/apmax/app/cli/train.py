"""The command `apmax train`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apmax.app import cli
from apmax.app.cli.console import Console, check_outputs, command_line, make_table
from apmax.app.cli.options import Data, Positive, ReportFile, Rest, Seed, Target, load_training_data
from apmax.app.cli.report import write_model_report

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.io import Dataset
    from apmax.app.training import TrainedModel


def train(
    context: typer.Context,
    data: Data,
    target: Target = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write.")] = Path(
        "model.apmax"
    ),
    positive: Positive = None,
    rest: Rest = False,
    test: Annotated[
        Path | None, typer.Option(help="Test data. Default: hold out a fifth of the rows.")
    ] = None,
    solver: Annotated[
        str,
        typer.Option(help='"cv" tunes by cross-validation; "lbfgs"; or a stochastic method.'),
    ] = "cv",
    report: ReportFile = None,
    seed: Seed = 0,
) -> None:
    """Train a model on a data file and write it to a model file.

    Numbers, text, dates and missing values need no preparation.

    [bold]Example:[/bold] apmax train adult.csv --target last --out adult.apmax
    """
    console: Console = context.obj
    with console.errors():
        from apmax.app.model import save_model
        from apmax.app.training import hold_out

        check_outputs(out, report, inputs=[data, test])
        dataset = load_training_data(data, target, positive, rest)
        learnt, tested = (
            (dataset, _load_test(dataset, test)) if test else hold_out(dataset, seed=seed)
        )
        start = time.perf_counter()
        trained, stopped = _fit(console, "training", learnt, solver, seed)
        scores = trained.model.log_odds(tested.X)
        notes = list(trained.warnings)
        notes += trained.model.warnings_for(tested.X, tested.counts, tested.positive)
        console.warn(notes)
        facts = _test_facts(tested, scores)
        trained = trained.with_facts(facts)
        save_model(trained.model, out)
        cli.interrupt_message = f"stopped; {out} contains the model trained so far"
        final = trained
        if test is None and not stopped:
            final, stopped = _fit(console, "training on all rows", dataset, solver, seed)
            final = trained if stopped else final.with_facts(facts)
            save_model(final.model, out)
        _show(console, final, tested, out, time.perf_counter() - start, notes)
        if report is not None:
            note = "" if test else f"from a model of {learnt.X.shape[0]:,} rows; the file has all"
            write_model_report(console, report, trained.model, tested, scores, notes, note)
        if stopped:
            console.stop()


def _fit(
    console: Console, stage: str, dataset: Dataset, solver: str, seed: int
) -> tuple[TrainedModel, bool]:
    """Return the trained model, and whether Ctrl-C ended the training."""
    from apmax.app.training import train_model
    from apmax.interrupts import cooperative_interrupts, interrupted

    with cooperative_interrupts(), console.progress(stage) as advance:
        trained = train_model(dataset, solver=solver, seed=seed, on_progress=advance)
        return trained, trained.interrupted or interrupted()


def _load_test(dataset: Dataset, test: Path) -> Dataset:
    from apmax.app.features import TableEncoder
    from apmax.app.io import load

    text = TableEncoder().fit(dataset.X).text_columns() if dataset.is_table else []
    return load(
        test,
        target=dataset.target,
        positive=str(dataset.positive),
        against_rest=dataset.against_rest,
        text=text,
    )


def _test_facts(tested: Dataset, scores: Any) -> dict[str, Any]:
    from apmax import average_precision

    y = tested.labels()
    return {
        "test_ap": average_precision(y, scores),
        "test_rows": int(y.size),
        "test_prevalence": float(y.mean()),
        "command": command_line(),
    }


def _show(
    console: Console,
    trained: TrainedModel,
    tested: Dataset,
    out: Path,
    seconds: float,
    notes: list[str],
) -> None:
    model, facts = trained.model, trained.model.facts
    title = (
        f"test AP {facts['test_ap']:.4f} (random {facts['test_prevalence']:.4f}), {seconds:.1f} s "
        f"→ {out}"
    )
    table = make_table(title, "feature", "log-odds per standard deviation")
    strongest = model.strongest_features(tested.X, 8)
    for name, weight in strongest:
        table.add_row(name, f"{weight:+.3f}")
    result = {
        "model": str(out),
        "seconds": seconds,
        "positive": model.positive,
        "negative": model.negative,
        "strongest_features": dict(strongest),
        **facts,
        "warnings": notes,
    }
    console.show(result, table)
    message = getattr(trained.result, "message", "")
    rest = f" ({', '.join(map(repr, model.rest[:5]))})" if model.rest else ""
    ending = f"; {message}" if message else ""
    console.say(f"positive: {model.positive!r}, negative: {model.negative!r}{rest}{ending}")
