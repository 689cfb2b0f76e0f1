"""The command `apmax train`."""

from __future__ import annotations

import signal
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apmax.app import cli
from apmax.app.cli import inputs, options
from apmax.app.cli.console import Console, check_outputs, command_line, make_table
from apmax.app.cli.report import write_model_report

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.io import Dataset
    from apmax.app.leaks import Finding
    from apmax.app.training import TrainedModel


def train(
    context: typer.Context,
    data: options.Data,
    columns: inputs.Columns,
    labels: inputs.Labels,
    reading: inputs.Reading,
    target: options.Target = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write.")] = Path(
        "model.apmax"
    ),
    positive: options.Positive = None,
    rest: options.Rest = False,
    test: Annotated[
        Path | None, typer.Option(help="Test data. Default: hold out a fifth of the rows.")
    ] = None,
    solver: Annotated[
        str,
        typer.Option(help='"cv" tunes by cross-validation; "lbfgs"; or a stochastic method.'),
    ] = "cv",
    report: options.ReportFile = None,
    seed: options.Seed = 0,
    strict: options.Strict = False,
) -> None:
    """Train a model on a data file and write it to a model file.

    Numbers, text, dates and missing values need no preparation.

    [bold]Example:[/bold] apmax train adult.csv --target last --out adult.apmax
    """
    console: Console = context.obj
    with console.errors():
        from apmax import average_precision
        from apmax.app.model import save_model
        from apmax.app.training import hold_out

        check_outputs(out, report, inputs=[data, test])
        cli.interrupt_message = "stopped; no model was written"
        dataset = options.load_training_data(data, target, positive, rest, columns, labels, reading)
        console.warn(dataset.notes)
        learnt, tested = (
            (dataset, _load_test(dataset, test, labels, reading))
            if test
            else hold_out(dataset, seed=seed)
        )
        findings = options.check_leaks(console, dataset, strict, tested if test else None)
        start = time.perf_counter()
        trained, stopped = _fit(console, "training", learnt, solver, seed)
        tested_model = trained.model
        scores, y = tested_model.log_odds(tested.X), tested.labels()
        notes = [*trained.warnings, *tested_model.warnings_for(tested)]
        console.warn(notes)
        notes = [*dataset.notes, *(finding.message for finding in findings), *notes]
        facts = {
            "test_ap": average_precision(y, scores, sample_weight=tested.weight),
            "test_prevalence": float(y.mean()),
            "test_rows": int(y.size),
            "command": command_line(),
        }
        tested_model.facts.update(facts)
        save_model(tested_model, out)
        cli.interrupt_message = f"stopped; {out} contains the model trained so far"
        if test is None and not stopped:
            final, stopped = _fit(console, "training on all rows", dataset, solver, seed)
            if not stopped:
                trained = final
                trained.model.facts.update(facts)
                save_model(trained.model, out)
        _show(console, trained, tested, out, time.perf_counter() - start, findings, notes)
        if report is not None:
            note = "" if test else f"from a model of {learnt.X.shape[0]:,} rows; the file has all"
            scored = options.Scored(tested_model, tested, scores, notes)
            write_model_report(console, report, scored, note)
        if stopped:
            console.stop()


def _fit(
    console: Console, stage: str, dataset: Dataset, solver: str, seed: int
) -> tuple[TrainedModel, bool]:
    """Return the trained model, and whether Ctrl-C ended the training."""
    from apmax.app.training import train_model
    from apmax.interrupts import cooperative_interrupts, interrupted

    # The library replaces only Python's own handler of Ctrl-C.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with cooperative_interrupts():
            with console.progress(stage) as advance:
                trained = train_model(dataset, solver=solver, seed=seed, on_progress=advance)
            return trained, trained.interrupted or interrupted()
    finally:
        signal.signal(signal.SIGINT, previous)


def _load_test(
    dataset: Dataset, test: Path, labels: inputs.Labels, reading: inputs.Reading
) -> Dataset:
    from apmax.app.features import TableEncoder
    from apmax.app.io import load
    from apmax.app.numbers import PLAIN
    from apmax.app.roles import Roles

    text, known = [], dict(dataset.formats)
    if dataset.is_table:
        encoder = TableEncoder().fit(dataset.X)
        text = encoder.text_columns()
        known = {**{name: PLAIN for name in encoder.kinds_ if name not in text}, **known}
    label, rest = str(dataset.positive), dataset.against_rest
    return load(
        test,
        target=dataset.target,
        positive=label,
        against_rest=rest,
        text=text,
        roles=Roles(weight=dataset.weight_column),
        drop_unlabelled=labels.drop_unlabelled,
        **reading.arguments(known),
    )


def _show(
    console: Console,
    trained: TrainedModel,
    tested: Dataset,
    out: Path,
    seconds: float,
    findings: list[Finding],
    notes: list[str],
) -> None:
    model, facts = trained.model, trained.model.facts
    ap, prevalence = facts["test_ap"], facts["test_prevalence"]
    title = f"test AP {ap:.4f} (random {prevalence:.4f}), {seconds:.1f} s → {out}"
    table = make_table(title, "feature", "log-odds per standard deviation")
    strongest = dict(model.strongest_features(tested.X, 8))
    for name, weight in strongest.items():
        table.add_row(name, f"{weight:+.3f}")
    labels = {"positive": model.positive, "negative": model.negative}
    result = {"model": str(out), "seconds": seconds, **labels, **facts}
    result |= {"strongest_features": strongest, "findings": [asdict(one) for one in findings]}
    console.show({**result, "warnings": notes}, table)
    ending = f"; {trained.message}" if trained.message else ""
    console.say(f"positive: {model.positive!r}, negative: {model.negative!r}{ending}")
