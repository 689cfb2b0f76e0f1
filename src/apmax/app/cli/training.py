"""apmax train."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apmax.app.cli.console import (
    Settings,
    check_writable,
    command_line,
    make_table,
    one_line_errors,
    progress,
    stop,
)
from apmax.app.cli.options import Data, Positive, ReportFile, Rest, Seed, Target, check_target
from apmax.app.cli.reporting import labels_of, log_odds_of, noted, report_on
from apmax.metrics import average_precision

if TYPE_CHECKING:  # what takes long to import is imported by the command that needs it
    from apmax.app.data.files import Dataset
    from apmax.app.pipeline.training import Trained


def train(
    context: typer.Context,
    data: Data,
    target: Target = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model.")] = Path(
        "model.apmax"
    ),
    positive: Positive = None,
    rest: Rest = False,
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
        from apmax.app.data.files import load
        from apmax.app.pipeline.storage import save_model
        from apmax.app.pipeline.training import train as train_model

        check_writable(out, report, read=[data, test])
        dataset = load(data, target=target, positive=positive, against_rest=rest)
        check_target(dataset)
        learnt, tested = _parts(dataset, test, seed)
        start = time.perf_counter()
        kept = None if checkpoint is None else checkpoint / "to-test"
        with progress(settings, "training") as advance:
            trained = train_model(
                learnt, solver=solver, seed=seed, checkpoint=kept, on_progress=advance
            )
        scores, doubts = log_odds_of(settings, trained.model, tested)
        notes = noted(settings, list(trained.notes)) + doubts
        ap = average_precision(labels_of(tested), scores)
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
        seconds = time.perf_counter() - start
        _tell_training(settings, whole, tested, ap, out, seconds, notes)
        if report is not None:
            note = "" if test else f"of a model of {learnt.X.shape[0]:,} rows; the file has all"
            name = (test or data).name  # the rows that the report is about
            report_on(settings, report, name, trained.model, tested, scores, trained, note, notes)
        if interrupted:
            stop(settings)


def _parts(dataset: Dataset, test: Path | None, seed: int) -> tuple[Dataset, Dataset]:
    from apmax.app.data.files import load
    from apmax.app.pipeline.encoder import TableEncoder
    from apmax.app.pipeline.training import hold_out

    if test is None:
        return hold_out(dataset, seed=seed)
    words = TableEncoder.fit(dataset.X).words() if hasattr(dataset.X, "columns") else []
    positive = str(dataset.positive_label)
    tested = load(
        test,
        target=dataset.target,
        positive=positive,
        against_rest=dataset.against_rest,
        text=words,
    )
    return dataset, tested


def _tell_training(
    settings: Settings, trained: Trained, tested: Dataset, ap: float, out: Path, seconds: float,
    notes: list[str],
) -> None:  # fmt: skip
    from apmax.app.pipeline.training import strongest_features

    y = labels_of(tested)
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
            "strongest_features": dict(strongest), **model.facts, "notes": notes,
        },
    )  # fmt: skip
    ended = "stopped" if trained.interrupted else trained.status
    others = f" ({', '.join(map(repr, model.rest[:5]))})" if model.rest else ""
    settings.say(f"positive is {model.positive!r}, negative {model.negative!r}{others}; {ended}")
