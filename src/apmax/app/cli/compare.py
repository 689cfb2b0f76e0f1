"""The command `apmax compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apmax.app.cli import options
from apmax.app.cli.console import Console, check_outputs, command_line, make_table
from apmax.app.cli.inputs import Columns, Fitting, Labels, Reading
from apmax.app.cli.report import write_files

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.cli.console import ResultTable
    from apmax.app.io import Dataset
    from apmax.app.training import TrainedModel


def compare(
    context: typer.Context,
    data: options.Data,
    labels: Labels,
    fitting: Fitting,
    folds: Annotated[int, typer.Option(help="Number of cross-validation folds.")] = 5,
    repeats: Annotated[int, typer.Option(help="Number of cross-validations.")] = 1,
    report: options.ReportFile = None,
    *,
    columns: Columns,
    reading: Reading,
) -> None:
    """Compare models by cross-validation, as `apmax train` does, without writing a model.

    [bold]Example:[/bold] apmax compare adult.csv --target last --report adult.html
    """
    console: Console = context.obj
    with console.errors():
        check_outputs(report, inputs=[data])
        dataset = options.load_training_data(data, columns, labels, reading, fitting.rows)
        console.warn(dataset.notes)
        findings = options.check_leaks(console, dataset, fitting.strict)
        notes = [*dataset.notes, *(one.message for one in findings)]
        show_comparison(
            console,
            dataset,
            report,
            notes,
            {**fitting.settings(), "folds": folds, "repeats": repeats},
            findings=[asdict(one) for one in findings],
        )


def show_comparison(
    console: Console,
    dataset: Dataset,
    report: Path | None,
    notes: Sequence[str] = (),
    settings: dict[str, Any] | None = None,
    title: str = "",
    csv: Path | None = None,
    **more: Any,
) -> TrainedModel:
    """Compare models, print their leaderboard, and write a report; `more` goes to the JSON."""
    from apmax.app.cli.train import fit, interrupts_at_safe_points

    with interrupts_at_safe_points():
        trained = fit(console, dataset, **(settings or {}))
    console.warn(trained.warnings)
    notes = [*notes, *trained.warnings]
    result = {**leaderboard_json(trained), "seconds": trained.seconds, **more, "warnings": notes}
    console.show(result, leaderboard_table(trained, dataset))
    console.say(trained.advice)
    if report is not None:
        write_training_report(console, report, dataset, trained, notes, title, csv)
    if trained.interrupted:
        console.say(trained.message)
        console.stop()
    return trained


def leaderboard_table(trained: TrainedModel, dataset: Dataset) -> ResultTable:
    """Return the leaderboard as it is printed; the chosen model is marked."""
    import numpy as np

    from apmax.tabular.leaderboard import HEADER

    facts, y = trained.model.facts, dataset.labels()
    random = float(np.average(y, weights=dataset.weight))
    rows = f"{y.sum():,} positives in {y.size:,} rows"
    if dataset.stands_for is not None:
        rows += f", a weighted sample of {dataset.stands_for.sum():,.0f}"
    scored = int((~np.isnan(trained.out_of_fold[facts["model"]])).sum())
    if scored < y.size:
        rows += f", tested on {scored:,} of them"
    title = (
        f"{dataset.source.name}: average precision in {facts['folds']} folds (random "
        f"{random:.4f}; {rows})"
    )
    table = make_table(title, *HEADER, less_important=("seconds", "log-loss"))
    for one in trained.leaderboard:
        table.add_row(*one.cells(), style="bold" if one.chosen else None)
    return table


def leaderboard_json(trained: TrainedModel) -> dict[str, Any]:
    """Return the leaderboard and the advice as plain data."""
    return {"leaderboard": [one.plain() for one in trained.leaderboard], "advice": trained.advice}


def write_training_report(
    console: Console,
    path: Path,
    dataset: Dataset,
    trained: TrainedModel,
    notes: Sequence[str],
    title: str = "",
    csv: Path | None = None,
) -> None:
    """Write a report of all models on the rows that they were not fitted to."""
    from apmax.app.report import training_report

    report = training_report(trained, dataset, title=title, warnings=notes, command=command_line())
    write_files(console, report, path, csv)
