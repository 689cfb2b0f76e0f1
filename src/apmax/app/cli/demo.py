"""The command `apmax demo`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from apmax.app.cli.compare import show_comparison
from apmax.app.cli.console import Console

DATA = Path(__file__).parents[1] / "data" / "wilt.csv.xz"
TARGET, TITLE = "tree", "Diseased trees in satellite images"
SETTINGS = {"folds": 5}


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report.")] = Path(
        "demo-report"
    ),
) -> None:
    """Find diseased trees in satellite images, on data that come with apmax.

    Does the same as `apmax compare` and writes a report. The folder app/data of the package
    contains the data, with their source and licence.
    """
    console: Console = context.obj
    with console.errors():
        from apmax.app.io import load
        from apmax.errors import FileError

        if out.exists() and not out.is_dir():
            raise FileError(f"{out} is a file: --out takes a folder for the report")

        dataset = load(DATA, target=TARGET)
        page, tables = out / "report.html", out / "tables"
        show_comparison(console, dataset, page, settings=SETTINGS, title=TITLE, csv=tables)
        console.say(f"to train a model on these data: {_apmax()} train {DATA} --target {TARGET}")


def _apmax() -> str:
    """Return what runs the command line from here."""
    if shutil.which("apmax"):
        return "apmax"
    return "python -m apmax" if sys.argv[0].endswith("__main__.py") else sys.argv[0]
