"""The command `apmax compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apmax.app.cli.console import Console, check_outputs, command_line, make_table
from apmax.app.cli.inputs import Columns, Labels, Reading
from apmax.app.cli.options import (
    Data,
    Positive,
    ReportFile,
    Rest,
    Seed,
    Strict,
    Target,
    check_leaks,
    load_training_data,
)

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.io import Dataset
    from apmax.app.leaderboard import Leaderboard, Run
    from apmax.app.leaks import Finding

MODELS = 3


def compare(
    context: typer.Context,
    data: Data,
    columns: Columns,
    labels: Labels,
    reading: Reading,
    target: Target = None,
    positive: Positive = None,
    rest: Rest = False,
    report: ReportFile = None,
    folds: Annotated[int, typer.Option(min=2, help="Number of cross-validation folds.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="Number of cross-validations.")] = 2,
    seed: Seed = 0,
    strict: Strict = False,
) -> None:
    """Compare logistic regression, apmax and gradient boosting on the same folds.

    [bold]Example:[/bold] apmax compare adult.csv --target last --report adult.html
    """
    console: Console = context.obj
    with console.errors():
        from apmax.app.drift import training_warnings
        from apmax.app.features import TableEncoder

        check_outputs(report, inputs=[data])
        dataset = load_training_data(data, target, positive, rest, columns, labels, reading)
        findings = check_leaks(console, dataset, strict)
        notes = list(dataset.notes)
        if dataset.is_table:
            notes += training_warnings(TableEncoder().fit(dataset.X), dataset.X)
        console.warn(notes)
        show_leaderboard(console, dataset, folds, repeats, seed, report, notes, findings)


def show_leaderboard(
    console: Console,
    dataset: Dataset,
    folds: int,
    repeats: int,
    seed: int,
    report: Path | None,
    notes: Sequence[str] = (),
    findings: Sequence[Finding] = (),
) -> None:
    """Cross-validate all models, print their leaderboard, and write a report."""
    import numpy as np
    from scipy.special import expit
    from sklearn.metrics import log_loss

    from apmax.app.leaderboard import Leaderboard
    from apmax.app.leaderboard import compare as compare_models
    from apmax.app.report import Report, ScoredModel, write_report
    from apmax.tabular.leaderboard import Leaderboard as Ranking

    runs: dict[str, list[Run]] = {}
    total = MODELS * folds * repeats
    with console.progress("comparing", total) as advance:
        every = compare_models(dataset, folds=folds, repeats=repeats, seed=seed)
        for done, run in enumerate(every, start=1):
            runs.setdefault(run.name, []).append(run)
            mean = float(np.mean([one.ap for one in runs[run.name]]))
            advance(run.name, done, total, mean)
    ap = {name: np.array([run.ap for run in of]) for name, of in runs.items()}
    leaderboard = Leaderboard(ap, test_fraction=1 / folds)
    notes = [*(finding.message for finding in findings), *notes]
    title = f"{dataset.source.name}: test AP, {repeats} × {folds} folds"
    _show(console, leaderboard, title, notes, findings)
    if report is not None:  # curves of the first cross-validation: every row scored once
        y, results = dataset.labels(), []
        for name, of in runs.items():
            rows = np.concatenate([run.rows for run in of[:folds]])
            scores = np.concatenate([run.scores for run in of[:folds]])
            results.append(ScoredModel(name, y[rows], expit(scores)))
        losses = {one.name: log_loss(one.y, one.probabilities) for one in results}
        seconds = dict.fromkeys(ap, float("nan"))
        chosen = max(ap, key=lambda name: float(ap[name].mean()))
        facts = {"curves": "one cross-validation; no model has seen the rows that it scores"}
        page = Report(
            dataset.source.name,
            results,
            Ranking.of(ap, losses, seconds, 1 / folds, chosen),
            " ".join(one.sentence() for one in leaderboard.differences().values()),
            facts=facts,
            command=command_line(),
            warnings=notes,
        )
        write_report(page, report)
        console.say(f"report → {report}")


def _show(
    console: Console,
    leaderboard: Leaderboard,
    title: str,
    notes: Sequence[str],
    findings: Sequence[Finding],
) -> None:
    table = make_table(title, "model", "AP", "± std", "difference", "± s.e.", "better")
    differences = leaderboard.differences()
    result: dict[str, Any] = {}
    for name, ap in leaderboard.ap.items():
        mean, std = leaderboard.summary(name)
        result[name] = {"mean": mean, "std": std, "ap": ap.tolist()}
        cells = ["", "", ""]
        if one := differences.get(name):
            cells = [f"{one.mean:+.4f}", f"{one.standard_error:.4f}", f"{one.wins}/{one.folds}"]
            result[name]["difference"] = {**asdict(one), "verdict": one.sentence()}
        table.add_row(name, f"{mean:.4f}", f"{std:.4f}", *cells)
    leaks = [asdict(finding) for finding in findings]
    console.show({"models": result, "findings": leaks, "warnings": list(notes)}, table)
    for one in differences.values():
        console.say(one.sentence())
