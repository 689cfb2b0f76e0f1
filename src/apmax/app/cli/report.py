"""The command `apmax report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from apmax.app.cli import inputs, options
from apmax.app.cli.console import Console, check_outputs, command_line


def report(
    context: typer.Context,
    model: options.ModelFile,
    data: options.Data,
    labels: inputs.Labels,
    reading: inputs.Reading,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    target: options.Target = None,
    positive: options.Positive = None,
    rest: options.Rest = False,
) -> None:
    """Write a self-contained HTML report of a model on labelled data.

    [bold]Example:[/bold] apmax report adult.apmax adult-test.csv --out adult.html
    """
    console: Console = context.obj
    with console.errors():
        check_outputs(out, inputs=[model, data])
        scored = options.score_labelled_data(
            console, model, data, target, positive, rest, labels, reading
        )
        write_model_report(console, out, scored)
        console.show({"report": str(out), "warnings": scored.warnings})


def write_model_report(
    console: Console, path: Path, scored: options.Scored, note: str = ""
) -> None:
    """Write the report of one model; `note` says where its scores come from."""
    from scipy.special import expit

    from apmax.app.report import Report, ScoredModel, write_report

    model, dataset = scored.model, scored.dataset
    effects = model.strongest_features(dataset.X)
    result = ScoredModel("apmax", dataset.labels(), expit(scored.log_odds), effects)
    name = dataset.source.name
    facts = {
        "data": name,
        "positive label": model.positive,
        "solver": str(model.facts.get("solver", "")),
        "training rows": str(model.facts.get("rows", "unknown")),
        "features": f"{model.coef.size:,}",
        **({"scores": note} if note else {}),
    }
    write_report(Report(name, [result], None, facts, command_line(), scored.warnings), path)
    console.say(f"report → {path}")
