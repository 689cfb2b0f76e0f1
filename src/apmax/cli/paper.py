"""apmax paper: the tables of the paper, re-run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from apmax.cli.console import Settings, make_table, one_line_errors, progress

app = typer.Typer(help="The paper's linear experiments, re-run.", no_args_is_help=True)

Folder = Annotated[
    Path, typer.Option("--out", "-o", help="Folder for results; a stopped run goes on from there.")
]


@app.command("table2")
def table2(context: typer.Context) -> None:
    """Statistics of the data sets, computed from the data.

    [bold]Example:[/bold] apmax paper table2
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from apmax.paper.tables import data_statistics

        rows = data_statistics()
        table = make_table("data sets after the paper's preparation", *rows[0])
        for row in rows:
            name, train, test, features, positives = row.values()
            table.add_row(name, f"{train:,}", f"{test:,}", str(features), f"{positives:.2%}")
        settings.show(table, {"table2": rows})


@app.command("table3")
def table3(
    context: typer.Context,
    out: Folder = Path("paper-results"),
    further: Annotated[
        bool, typer.Option(help="Also the rows that the paper does not have.")
    ] = True,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
) -> None:
    """Final test AP of linear models: every method, the whole grid, five repeats.

    [bold]Example:[/bold] apmax paper table3 --out paper-results
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from apmax.disk import write_aside
        from apmax.paper.linear_table import linear_table
        from apmax.paper.protocol import DATA
        from apmax.paper.store import Store
        from apmax.paper.tables import settings_to_markdown, title_of, to_json, to_markdown

        with progress(settings, "table 3") as advance:
            cells = linear_table(
                Store(out),
                further=further,
                jobs=jobs,
                advance=lambda done, of: advance("table 3", done, of),
            )
        table = make_table("test AP (ours less the paper's)", "method", *DATA)
        for method in dict.fromkeys(cell.method for cell in cells):
            row = [cell for cell in cells if cell.method == method]
            told = (
                f"{cell.mean:.3f}"
                + ("" if cell.difference is None else f" ({cell.difference:+.3f})")
                for cell in row
            )
            table.add_row(title_of(method), *told)
        text = to_markdown(cells) + "\n" + settings_to_markdown(cells)
        write_aside(out / "table3.md", text.encode())
        data = to_json(cells)
        write_aside(out / "table3.json", json.dumps(data, indent=1).encode())
        settings.show(table, {"table3": data})
        settings.say(f"table → {out / 'table3.md'} and table3.json")
