"""The command `apmax train`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apmax.app import cli
from apmax.app.cli import inputs, options
from apmax.app.cli.compare import leaderboard_json, leaderboard_table, write_training_report
from apmax.app.cli.console import Console, check_outputs, command_line
from apmax.app.cli.report import write_model_report
from apmax.app.cli.threshold import SHARE
from apmax.errors import ApmaxError

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.decisions import Decision
    from apmax.app.io import Dataset
    from apmax.app.leaks import Finding
    from apmax.app.training import TrainedModel


def train(
    context: typer.Context,
    data: options.Data,
    labels: inputs.Labels,
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write.")] = Path(
        "model.apmax"
    ),
    *,
    fitting: inputs.Fitting,
    test: Annotated[Path | None, typer.Option(help="Test data, not used for training.")] = None,
    holdout: Annotated[
        str | None,
        typer.Option(
            metavar=SHARE, help="Share of the rows to keep for a test instead of training: 20%."
        ),
    ] = None,
    report: options.ReportFile = None,
    columns: inputs.Columns,
    reading: inputs.Reading,
) -> None:
    """Compare models on a data file, and write the best one to a model file.

    Numbers, text, dates and missing values need no preparation. The leaderboard shows the average
    precision of each model in cross-validation. The best one is kept, unless --model chooses
    another. A sentence says whether a simpler model is nearly as good.

    [bold]Example:[/bold] apmax train adult.csv --target last --out adult.apmax
    """
    console: Console = context.obj
    with console.errors():
        from apmax.app.decisions import read_share
        from apmax.app.files import digest
        from apmax.app.folds import hold_out
        from apmax.app.model import save_model
        from apmax.errors import ParameterError
        from apmax.interrupts import interrupt_on_hold, interrupted

        check_outputs(out, report, inputs=[data, test])
        if test is not None and holdout is not None:
            raise ParameterError("--test and --holdout exclude each other: each gives test rows")
        cli.interrupt_message = "stopped; no model was written"
        dataset = options.load_training_data(data, columns, labels, reading, fitting.rows)
        console.warn(dataset.notes)
        learnt, tested = dataset, None
        if test is not None:
            tested = _load_test(dataset, test, labels, reading)
        elif holdout is not None:
            share = read_share(holdout, "--holdout")
            learnt, tested = hold_out(dataset, share, fitting.seed)
        findings = options.check_leaks(console, dataset, fitting.strict, tested if test else None)
        with interrupts_at_safe_points():
            trained = fit(console, learnt, **fitting.settings())
            so_far = "contains the best of the models fitted so far"
            written = f"stopped; {out} {so_far if trained.interrupted else 'is complete'}"
            with interrupt_on_hold():  # what is fitted is worth the time of writing it
                console.warn(trained.warnings)
                notes = [*dataset.notes, *(one.message for one in findings), *trained.warnings]
                trained.model.facts.update(command=command_line(), data_sha256=digest(data))
                scored = None if tested is None else _test(console, trained, tested, notes)
                replaced = _stored_threshold(out)
                size = save_model(trained.model, out)
                missing = "" if report is None else f", {report} was not written"
                cli.interrupt_message = written + missing
            stopped = trained.interrupted or interrupted()
        _show(console, trained, learnt, out, size, findings, notes)
        if replaced is not None:
            console.say(
                f"the earlier threshold ({replaced}) is not that of this model: choose one with "
                f"`apmax threshold {out}`"
            )
        if report is not None and scored is not None:
            write_model_report(console, report, scored)
        elif report is not None:
            write_training_report(console, report, dataset, trained, notes)
        if stopped:
            cli.interrupt_message = written
            console.stop()


def _stored_threshold(path: Path) -> Decision | None:
    """Return the threshold of a model file that is about to be replaced."""
    from apmax.app.model import load_model

    with suppress(ApmaxError):
        return load_model(path).operating_point if path.is_file() else None
    return None


def fit(console: Console, dataset: Dataset, **settings: Any) -> TrainedModel:
    """Train with a progress bar."""
    from apmax.app.training import train_model

    with console.progress("preparing") as advance:
        return train_model(dataset, on_progress=advance, **settings)


@contextmanager
def interrupts_at_safe_points() -> Iterator[None]:
    """Let the first Ctrl-C end fits at their next safe point, and the second one the command.

    Blocks cannot be nested.
    """
    from apmax.interrupts import cooperative_interrupts

    # The library replaces only Python's own handler of Ctrl-C.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with cooperative_interrupts():
            yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _load_test(
    dataset: Dataset, test: Path, labels: inputs.Labels, reading: inputs.Reading
) -> Dataset:
    from apmax.app.features import TablePreprocessor
    from apmax.app.io import load
    from apmax.app.numbers import PLAIN
    from apmax.app.roles import Roles

    text, known = [], dict(dataset.formats)
    if dataset.is_table:
        preprocessor = TablePreprocessor().fit(dataset.X)
        text = preprocessor.text_columns()
        known = {**{name: PLAIN for name in preprocessor.kinds_ if name not in text}, **known}
    label, rest = str(dataset.positive), dataset.against_rest
    return load(
        test,
        target=dataset.target,
        positive=label,
        against_rest=rest,
        text=text,
        roles=Roles(weight=dataset.weight_column),
        drop_unlabelled=labels.drop_unlabelled,
        trained_on=(label, str(dataset.negative)),
        **reading.arguments(known),
    )


def _test(
    console: Console, trained: TrainedModel, tested: Dataset, notes: list[str]
) -> options.Scored:
    """Score the test rows, and add the result to the facts of the model."""
    import numpy as np

    from apmax import average_precision
    from apmax.app.report.measures import bootstrap_band
    from apmax.app.report.results import ScoredModel

    model, y = trained.model, tested.labels()
    found = model.warnings_for(tested)
    console.warn(found)
    notes += found
    log_odds = model.log_odds(tested.X)
    model.facts["test_ap"] = average_precision(y, log_odds, sample_weight=tested.weight)
    model.facts["test_prevalence"] = float(np.average(y, weights=tested.weight))
    model.facts["test_rows"] = int(y.size)
    scored = options.Scored(model, tested, log_odds, notes)
    band = bootstrap_band(ScoredModel(model.name, y, scored.probability, tested.weight))
    model.facts["test_ap_interval"] = [band.ap_low, band.ap_high]
    return scored


def _show(
    console: Console,
    trained: TrainedModel,
    dataset: Dataset,
    out: Path,
    size: int,
    findings: list[Finding],
    notes: list[str],
) -> None:
    model, facts = trained.model, trained.model.facts
    result = {
        "model": str(out),
        "bytes": size,
        "seconds": trained.seconds,
        "positive": model.positive,
        "negative": model.negative,
        "chosen": facts["model"],
        **{name: value for name, value in facts.items() if name != "model"},
        **leaderboard_json(trained),
        "findings": [asdict(one) for one in findings],
        "warnings": notes,
    }
    console.show(result, leaderboard_table(trained, dataset))
    console.say(trained.advice)
    if "test_ap" in facts:
        low, high = facts["test_ap_interval"]
        console.say(
            f"test AP {facts['test_ap']:.4f} (95 % interval {low:.3f} to {high:.3f}, random "
            f"{facts['test_prevalence']:.4f}, {facts['test_rows']:,} rows)"
        )
    labels = f"positive: {model.positive!r}, negative: {model.negative!r}"
    best = len(trained.leaderboard) > 1 and trained.leaderboard[0].model == facts["model"]
    kept = f"kept {facts['model']}{', which has the highest AP' if best else ''}"
    console.say(f"{kept} → {out} ({_megabytes(size)}); {labels}")
    if trained.interrupted:
        console.say(trained.message)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} KB"
