"""apmax demo: half a minute on data that comes with scikit-learn."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apmax.app.cli.console import (
    Settings,
    command_line,
    make_table,
    one_line_errors,
    progress,
)

if TYPE_CHECKING:  # what takes long to import is imported by the command that needs it
    from apmax.app.pipeline.demo import Task
    from apmax.app.report.results import Report


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report.")] = Path(
        "demo-report"
    ),
) -> None:
    """Find one handwritten digit among the others: no data needed, under 30 seconds.

    Ten tasks from six principal components of scikit-learn's digits; 10 % are positive. All
    models choose or keep their settings without the test half.
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from apmax.app.pipeline.demo import DIGITS, HARDEST, MODELS, ap_table, run_task
        from apmax.app.report import save_plots, write_report

        start = time.perf_counter()
        tasks: list[Task] = []
        with progress(settings, "ten tasks", DIGITS) as advance:
            for digit in range(DIGITS):
                tasks.append(run_task(digit))
                advance(f"digit {digit}", digit + 1, DIGITS, ap_table(tasks)["mean"][1])
        rows = ap_table(tasks)
        table = make_table("test AP", "task", *MODELS, "gain")
        for name, aps in rows.items():
            gain = aps[1] - aps[0]
            table.add_row(name, *(f"{ap:.3f}" for ap in aps), f"{gain:+.3f}")
        report = _report(tasks[HARDEST])
        write_report(report, out / "report.html")
        save_plots(report, out)
        data = {name: dict(zip(MODELS, aps, strict=True)) for name, aps in rows.items()}
        settings.show(table, data)
        spent = time.perf_counter() - start
        settings.say(f"report → {out / 'report.html'}, plots → {out}, {spent:.0f} s")


def _report(task: Task) -> Report:
    """The task that is hardest for a linear model, where it matters most how it is trained."""
    from apmax.app.pipeline.demo import COMPONENTS, HARDEST, MODELS
    from apmax.app.report.results import Report, Scored

    names = [f"PC {k + 1}" for k in range(COMPONENTS)]
    results = [
        Scored(
            name=name,
            y=task.y,
            scores=scores,
            history=getattr(estimator, "history_", None),
            coefficients=list(zip(names, estimator.coef_[0].tolist(), strict=True)),
        )
        for name, scores, estimator in zip(MODELS, task.scores, task.estimators, strict=True)
    ]
    facts = {
        "data": "scikit-learn's digits, six principal components",
        "task": f"find the digit {HARDEST}",
        "rows": f"{task.y.size:,} (the test half)",
        "positives": f"{int(task.y.sum()):,} ({task.y.mean():.1%})",
    }
    return Report(f"Digit {HARDEST} among the others", results, None, facts, command_line())
