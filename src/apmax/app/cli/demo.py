"""The command `apmax demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from apmax.app.cli.compare import show_comparison
from apmax.app.cli.console import Console

DIGIT = 8


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report.")] = Path(
        "demo-report"
    ),
) -> None:
    """Find the digit 8 among handwritten digits, on data that comes with scikit-learn.

    Compares logistic regression, apmax and gradient boosting, as `apmax compare` does.
    """
    console: Console = context.obj
    with console.errors():
        from sklearn.datasets import load_digits

        from apmax.app.io import Dataset

        X, digits = load_digits(return_X_y=True)
        dataset = Dataset(X, digits == DIGIT, Path(f"digit {DIGIT} among all digits"))
        show_comparison(console, dataset, out / "report.html")
