"""apmax data: the paper's data sets."""

from __future__ import annotations

from typing import Annotated

import typer

from apmax.app.cli.console import Settings, make_table, one_line_errors

app = typer.Typer(help="The data sets of the paper.", no_args_is_help=True)


@app.command("list")
def list_sets(context: typer.Context) -> None:
    """What there is, and what is on this machine already."""
    settings: Settings = context.obj
    with one_line_errors(settings):
        from apmax.app.data import list_paper_sets

        known = list_paper_sets()
        table = make_table(
            "data sets of the paper", "name", "rows", "test rows", "features", "positives", "here"
        )
        for one in known:
            table.add_row(
                one.name, f"{one.rows:,}", f"{one.test_rows:,}", str(one.features),
                f"{one.positive_share:.2%}", "yes" if one.available else "download",
            )  # fmt: skip
        settings.show(table, {"sets": [one._asdict() for one in known]})


@app.command("get")
def get_set(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="mushrooms, phishing, w6a, a9a, w8a or ijcnn1")],
    seed: Annotated[int, typer.Option(help="Of the split, where the paper splits at random.")] = 0,
) -> None:
    """Download a set unless it is here, check it, and show what it holds and where it lies.

    [bold]Example:[/bold] apmax data get w8a
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from apmax.app.data import load_paper_set, paper_set_files

        data = load_paper_set(name, seed=seed)
        table = make_table(name, "part", "rows", "features", "positives")
        result = {}
        for part, X, y in (("train", data.X, data.y), ("test", data.X_test, data.y_test)):
            table.add_row(part, f"{X.shape[0]:,}", str(X.shape[1]), f"{y.mean():.2%}")
            result[part] = {
                "rows": int(X.shape[0]), "features": int(X.shape[1]), "positives": int(y.sum()),
            }  # fmt: skip
        files = [str(path) for path in paper_set_files(name)]
        settings.show(table, {"name": name, **result, "files": files})
        for path in files:
            settings.say(f"raw: {path}")
