"""The command `apmax report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apmax.app.cli.console import Console, check_outputs, command_line
from apmax.app.cli.options import Data, ModelFile, Positive, Rest, Target, load_labelled_data

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.io import Dataset
    from apmax.app.model import Model


def report(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    target: Target = None,
    positive: Positive = None,
    rest: Rest = False,
) -> None:
    """Write a self-contained HTML report of a model on labelled data.

    [bold]Example:[/bold] apmax report adult.apmax adult-test.csv --out adult.html
    """
    console: Console = context.obj
    with console.errors():
        from apmax.app.model import load_model

        check_outputs(out, inputs=[model, data])
        loaded = load_model(model)
        dataset = load_labelled_data(loaded, data, target, positive, rest)
        scores = loaded.log_odds(dataset.X)
        notes = loaded.warnings_for(dataset)
        console.warn(notes)
        write_model_report(console, out, loaded, dataset, scores, notes)
        console.show({"report": str(out), "warnings": notes})


def write_model_report(
    console: Console,
    path: Path,
    model: Model,
    dataset: Dataset,
    log_odds: Any,
    warnings: Sequence[str] = (),
    note: str = "",
) -> None:
    """Write the report of a model on labelled rows."""
    from scipy.special import expit

    from apmax.app.report import Report, ScoredModel, write_report

    y = dataset.labels()
    scored = ScoredModel(
        "apmax", y, expit(log_odds), model.strongest_features(dataset.X), per_deviation=True
    )
    facts = {
        "data": dataset.source.name,
        "rows": f"{y.size:,}",
        "positives": f"{int(y.sum()):,} ({y.mean():.2%}), {model.positive!r}",
        "features": f"{model.coef.size:,}",
        "solver": str(model.facts.get("solver", "")),
        "training rows": str(model.facts.get("rows", "unknown")),
        **({"scores": note} if note else {}),
    }
    page = Report(dataset.source.name, [scored], None, facts, command_line(), warnings)
    write_report(page, path)
    console.say(f"report → {path}")
