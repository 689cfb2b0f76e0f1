"""The command `apmax report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apmax.app.cli import inputs, options
from apmax.app.cli.console import Console, check_outputs, command_line
from apmax.errors import FileError

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.report import Report


def report(
    context: typer.Context,
    model: options.ModelFile,
    data: options.Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    csv: Annotated[
        Path | None, typer.Option(help="Folder for the tables of the report as CSV files.")
    ] = None,
    *,
    labels: inputs.Labels,
    weight: options.Weight = None,
    reading: inputs.Reading,
) -> None:
    """Write a self-contained HTML report of a model on labelled data.

    [bold]Example:[/bold] apmax report adult.apmax adult-test.csv --out adult.html --csv tables
    """
    console: Console = context.obj
    with console.errors():
        check_outputs(out, inputs=[model, data])
        if csv is not None and csv.exists() and not csv.is_dir():
            raise FileError(f"{csv} is a file: give `--csv` the name of a folder")
        scored = options.score_labelled_data(console, model, data, labels, reading, weight)
        tables = write_model_report(console, out, scored, csv=csv)
        written = {"report": str(out), "tables": [str(table) for table in tables]}
        console.show({**written, "warnings": scored.warnings})


def write_model_report(
    console: Console, path: Path, scored: options.Scored, note: str = "", csv: Path | None = None
) -> list[Path]:
    """Write the report of one model on labelled data, and its tables to the folder `csv`.

    `note` says where the model's probabilities come from.
    """
    from apmax.app.report import model_report

    report = model_report(
        scored.model,
        scored.dataset,
        scored.log_odds,
        warnings=scored.warnings,
        command=command_line(),
        note=note,
    )
    return write_files(console, report, path, csv)


def write_files(
    console: Console, report: Report, path: Path, csv: Path | None = None
) -> list[Path]:
    """Write a report, and its tables if there is a folder for them; return the tables."""
    from apmax.app.report import write_report, write_tables

    write_report(report, path)
    console.say(f"report → {path}")
    if csv is None:
        return []
    tables = write_tables(report, csv)
    console.say(f"tables → {csv}")
    return tables
