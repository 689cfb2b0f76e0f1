"""The command `apmax report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from apmax.app.cli import inputs, options
from apmax.app.cli.console import Console, check_outputs, command_line
from apmax.errors import FileError


def report(
    context: typer.Context,
    model: options.ModelFile,
    data: options.Data,
    labels: inputs.Labels,
    reading: inputs.Reading,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    csv: Annotated[
        Path | None, typer.Option(help="Folder for the tables of the report as CSV files.")
    ] = None,
    target: options.Target = None,
    positive: options.Positive = None,
    rest: options.Rest = False,
) -> None:
    """Write a self-contained HTML report of a model on labelled data.

    [bold]Example:[/bold] apmax report adult.apmax adult-test.csv --out adult.html --csv tables
    """
    console: Console = context.obj
    with console.errors():
        check_outputs(out, inputs=[model, data])
        if csv is not None and csv.exists() and not csv.is_dir():
            raise FileError(f"{csv} is a file: give `--csv` the name of a folder")
        scored = options.score_labelled_data(
            console, model, data, target, positive, rest, labels, reading
        )
        tables = write_model_report(console, out, scored, csv=csv)
        written = {"report": str(out), "tables": [str(table) for table in tables]}
        console.show({**written, "warnings": scored.warnings})


def write_model_report(
    console: Console, path: Path, scored: options.Scored, note: str = "", csv: Path | None = None
) -> list[Path]:
    """Write the report of one model, and its tables to the folder `csv`; return the tables.

    `note` says where the model's probabilities come from.
    """
    from scipy.special import expit

    from apmax.app.report import Report, ScoredModel, provenance, write_report, write_tables

    model, dataset = scored.model, scored.dataset
    facts = {
        **provenance(dataset.source),
        "positive label": model.positive,
        "training rows": str(model.facts.get("rows", "unknown")),
        "features": f"{len(model.feature_names()):,}",
        **({"scores": note} if note else {}),
    }
    report = Report(
        dataset.source.name,
        [ScoredModel(model.name, dataset.labels(), expit(scored.log_odds))],
        coefficients=model.strongest_features(dataset.X),
        facts=facts,
        command=command_line(),
        warnings=scored.warnings,
    )
    write_report(report, path)
    console.say(f"report → {path}")
    tables = [] if csv is None else write_tables(report, csv)
    if csv is not None:
        console.say(f"tables → {csv}")
    return tables
