"""The command `apmax demo`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from apmax.app.cli.console import Console, command_line, make_table

DIGITS, COMPONENTS, REPORTED_DIGIT = 10, 6, 8
MODELS = ("logistic regression", "APClassifierCV", "soap-adam")


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report.")] = Path(
        "demo-report"
    ),
) -> None:
    """Find one handwritten digit among the others, on data that comes with scikit-learn.

    Ten tasks with 10 % positives each, from six principal components. All models are tested on a
    half of the data that none has seen.
    """
    console: Console = context.obj
    with console.errors():
        import numpy as np

        from apmax import average_precision
        from apmax.app.report import Report, write_report

        rows: dict[str, list[float]] = {}
        with console.progress("ten tasks", DIGITS) as advance:
            for digit in range(DIGITS):
                results = _run_task(digit)
                rows[f"digit {digit}"] = [average_precision(one.y, one.scores) for one in results]
                advance(f"digit {digit}", digit + 1, DIGITS, rows[f"digit {digit}"][1])
                if digit == REPORTED_DIGIT:
                    title = f"Digit {digit} among the others"
                    facts = {"data": "the test half of scikit-learn's digits, as six components"}
                    report = Report(title, results, None, facts, command_line())
        rows["mean"] = np.mean(list(rows.values()), axis=0).tolist()
        table = make_table("test AP", "task", *MODELS, "gain")
        for name, aps in rows.items():
            table.add_row(name, *(f"{ap:.3f}" for ap in aps), f"{aps[1] - aps[0]:+.3f}")
        write_report(report, out / "report.html")
        console.show(
            {name: dict(zip(MODELS, aps, strict=True)) for name, aps in rows.items()}, table
        )
        console.say(f"report → {out / 'report.html'}")


def _run_task(digit: int) -> list[Any]:
    """Train all models to find one digit and score the test half."""
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import StratifiedKFold, train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from apmax import APClassifierCV, StochasticAPClassifier
    from apmax.app.leaderboard import logistic_regression_cv
    from apmax.app.report import ScoredModel

    data, target = load_digits(return_X_y=True)
    y = target == digit
    X, X_test, y, y_test = train_test_split(data, y, test_size=0.5, stratify=y, random_state=digit)
    reduce = make_pipeline(PCA(COMPONENTS, random_state=0), StandardScaler()).fit(X)
    models = (
        logistic_regression_cv(),
        APClassifierCV(cv=StratifiedKFold(5, shuffle=True, random_state=0)),
        StochasticAPClassifier(MODELS[2], random_state=0),
    )
    warnings.simplefilter("ignore", (ConvergenceWarning, FutureWarning))  # until the command ends
    results = []
    for name, model in zip(MODELS, models, strict=True):
        model.fit(reduce.transform(X), y)
        weights = [(f"PC {k}", float(w)) for k, w in enumerate(model.coef_[0], start=1)]
        scores = model.decision_function(reduce.transform(X_test))
        results.append(ScoredModel(name, y_test, scores, weights))
    return results
