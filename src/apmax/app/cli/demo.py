"""The command `apmax demo`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apmax.app.cli.console import Console, command_line, make_table

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.demo import Task
    from apmax.app.report import Report


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report.")] = Path(
        "demo-report"
    ),
) -> None:
    """Find one handwritten digit among the others, on data that comes with scikit-learn.

    Ten tasks with 10 % positives each, from six principal components.
    """
    console: Console = context.obj
    with console.errors():
        from apmax.app.demo import DIGITS, MODELS, REPORTED_DIGIT, ap_table, run_task
        from apmax.app.report import save_plots, write_report

        start = time.perf_counter()
        tasks: list[Task] = []
        with console.progress("ten tasks", DIGITS) as advance:
            for digit in range(DIGITS):
                tasks.append(run_task(digit))
                advance(f"digit {digit}", digit + 1, DIGITS, ap_table(tasks)["mean"][1])
        rows = ap_table(tasks)
        table = make_table("test AP", "task", *MODELS, "gain")
        for name, aps in rows.items():
            table.add_row(name, *(f"{ap:.3f}" for ap in aps), f"{aps[1] - aps[0]:+.3f}")
        report = _report(tasks[REPORTED_DIGIT])
        write_report(report, out / "report.html")
        save_plots(report, out)
        result = {name: dict(zip(MODELS, aps, strict=True)) for name, aps in rows.items()}
        console.show(result, table)
        seconds = time.perf_counter() - start
        console.say(f"report → {out / 'report.html'}, plots → {out}, {seconds:.0f} s")


def _report(task: Task) -> Report:
    from apmax.app.demo import COMPONENTS, MODELS, REPORTED_DIGIT
    from apmax.app.report import Report, ScoredModel

    names = [f"PC {k + 1}" for k in range(COMPONENTS)]
    results = [
        ScoredModel(name, task.y, scores, list(zip(names, model.coef_[0].tolist(), strict=True)))
        for name, scores, model in zip(MODELS, task.scores, task.estimators, strict=True)
    ]
    facts = {
        "data": "scikit-learn's digits, six principal components",
        "task": f"find the digit {REPORTED_DIGIT}",
        "rows": f"{task.y.size:,} (the test half)",
        "positives": f"{int(task.y.sum()):,} ({task.y.mean():.1%})",
    }
    title = f"Digit {REPORTED_DIGIT} among the others"
    return Report(title, results, None, facts, command_line())
