"""The command `apmax demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from apmax.app.cli.console import Console, make_table
from apmax.app.cli.report import write_files

DATA = Path(__file__).parents[1] / "data" / "wilt.csv.xz"
TARGET, TITLE = "tree", "Diseased trees in satellite images"
FOLDS = 5


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report.")] = Path(
        "demo-report"
    ),
) -> None:
    """Find diseased trees in satellite images, on data that come with apmax.

    Compares the models as `apmax compare` does and writes a report. The data are in the folder
    app/data of the package, with their source and licence.
    """
    console: Console = context.obj
    with console.errors():
        from apmax.app.io import load
        from apmax.app.report import training_report
        from apmax.app.training import train_model

        dataset = load(DATA, target=TARGET)
        with console.progress("comparing") as advance:
            trained = train_model(dataset, folds=FOLDS, on_progress=advance)
        table = make_table(TITLE, "model", "AP", "to the best", "log-loss", "seconds")
        for one in trained.leaderboard:
            table.add_row(
                f"{one.model} ←" if one.chosen else one.model,
                f"{one.ap:.3f} ± {one.ap_se:.3f}",
                f"{one.difference:+.3f} ± {one.difference_se:.3f}",
                f"{one.log_loss:.3f}",
                f"{one.seconds:.1f}",
            )
        console.show({"models": [one._asdict() for one in trained.leaderboard]}, table)
        console.say(trained.advice)
        report = training_report(trained, dataset, title=TITLE, command="apmax demo")
        write_files(console, report, out / "report.html", out / "tables")
