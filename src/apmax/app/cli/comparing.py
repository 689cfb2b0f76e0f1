"""apmax compare: is average-precision training worth it on this data?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from apmax.app.cli.console import (
    Settings,
    check_writable,
    command_line,
    make_table,
    one_line_errors,
    progress,
)
from apmax.app.cli.options import Data, Positive, ReportFile, Rest, Seed, Target, check_target
from apmax.app.cli.reporting import noted

if TYPE_CHECKING:  # what takes long to import is imported by the command that needs it
    from apmax.app.data.files import Dataset
    from apmax.app.pipeline.comparison import Run
    from apmax.app.report.comparison import Comparison


def compare(
    context: typer.Context,
    data: Data,
    target: Target = None,
    positive: Positive = None,
    rest: Rest = False,
    report: ReportFile = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts of a cross-validation.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="Cross-validations, shuffled anew.")] = 2,
    seed: Seed = 0,
) -> None:
    """Logistic regression, apmax and boosted trees on the same splits, with the differences.

    [bold]Example:[/bold] apmax compare adult.csv --target last --report adult.html
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from apmax.app.data.files import load
        from apmax.app.report.comparison import Comparison, FoldScores

        check_writable(report, read=[data])
        dataset = load(data, target=target, positive=positive, against_rest=rest)
        check_target(dataset)
        notes = noted(settings, _unused(dataset))
        runs = _run(settings, dataset, folds, repeats, seed)
        rows = [FoldScores(name, np.array([run.ap for run in of])) for name, of in runs.items()]
        comparison = Comparison(rows, test_fraction=1 / folds)
        _tell(settings, comparison, f"{data.name}: test AP, {repeats} × {folds} folds", notes)
        if report is not None:
            _write(settings, report, data, dataset, comparison, runs, folds, notes)


def _unused(dataset: Dataset) -> list[str]:
    """What of a table none of the models can use."""
    from apmax.app.pipeline.drift import unused_in_training
    from apmax.app.pipeline.encoder import TableEncoder

    if not hasattr(dataset.X, "columns"):
        return []
    return unused_in_training(TableEncoder.fit(dataset.X), dataset.X)


def _run(
    settings: Settings, dataset: Dataset, folds: int, repeats: int, seed: int
) -> dict[str, list[Run]]:
    from apmax.app.pipeline.comparison import compare as compare_models
    from apmax.app.pipeline.comparison import contenders_for

    names = [contender.name for contender in contenders_for(dataset)]
    runs: dict[str, list[Run]] = {name: [] for name in names}
    total = len(names) * folds * repeats
    with progress(settings, "comparing", total) as advance:
        every = compare_models(dataset, folds=folds, repeats=repeats, seed=seed)
        for done, run in enumerate(every, start=1):
            runs[run.name].append(run)
            mean = float(np.mean([one.ap for one in runs[run.name]]))
            advance(run.name, done, total, mean)
    return runs


def _tell(settings: Settings, comparison: Comparison, title: str, notes: list[str]) -> None:
    table = make_table(title, "model", "AP", "± std", "difference", "± s.e.", "wins")
    differences = {one.model: one for one in comparison.differences()}
    result: dict[str, Any] = {}
    for row in comparison.rows:
        result[row.model] = {"mean": row.mean, "std": row.std, "ap": row.ap.tolist()}
        against = ("", "", "")
        if row.model in differences:
            one = differences[row.model]
            against = (
                f"{one.mean:+.4f}", f"{one.standard_error:.4f}", f"{one.wins}/{one.folds}",
            )  # fmt: skip
            result[row.model]["difference"] = {
                "mean": one.mean, "standard_error": one.standard_error, "wins": one.wins,
                "losses": one.losses, "verdict": one.sentence(),
            }  # fmt: skip
        table.add_row(row.model, f"{row.mean:.4f}", f"{row.std:.4f}", *against)
    settings.show(table, {"models": result, "notes": notes})
    for one in differences.values():
        settings.say(one.sentence())


def _write(
    settings: Settings,
    path: Path,
    data: Path,
    dataset: Dataset,
    comparison: Comparison,
    runs: dict[str, list[Run]],
    folds: int,
    notes: list[str],
) -> None:
    """The report's curves are of the first cross-validation, every row scored once."""
    from apmax.app.report import Report, Scored, write_report

    results = []
    for name, of in runs.items():
        first = of[:folds]
        rows = np.concatenate([run.rows for run in first])
        scores = np.concatenate([run.scores for run in first])
        if dataset.y is not None:
            results.append(Scored(name, dataset.y[rows], scores, scale="log-odds"))
    facts = {
        "data": data.name,
        "rows": f"{dataset.X.shape[0]:,}",
        "columns": f"{dataset.X.shape[1]:,}",
        "positives": f"{int(results[0].y.sum()):,} ({results[0].prevalence:.2%})",
        "curves": "all rows of one cross-validation, each scored by a model that has not seen it",
    }
    write_report(Report(data.name, results, comparison, facts, command_line(), notes), path)
    settings.say(f"report → {path}")
