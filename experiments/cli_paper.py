"""apmax paper: the tables, figures and rates of the paper, re-run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apmax.app.cli.console import Settings, make_table, one_line_errors, progress

if TYPE_CHECKING:
    from experiments.linear_table import Cell, Key
    from experiments.protocol import Setting
    from experiments.store import Store

app = typer.Typer(help="The paper's experiments, re-run.", no_args_is_help=True)

Folder = Annotated[
    Path, typer.Option("--out", "-o", help="Folder for results; a stopped run goes on from there.")
]
Jobs = Annotated[int, typer.Option(min=1, help="Processes.")]
RESULTS = Path("paper-results")


@app.command("table2")
def table2(context: typer.Context) -> None:
    """Statistics of the data sets, computed from the data.

    [bold]Example:[/bold] apmax paper table2
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from experiments.tables import data_statistics

        rows = data_statistics()
        table = make_table("data sets after the paper's preparation", *rows[0])
        for row in rows:
            name, train, test, features, positives = row.values()
            table.add_row(name, f"{train:,}", f"{test:,}", str(features), f"{positives:.2%}")
        settings.show(table, {"table2": rows})


@app.command("table3")
def table3(
    context: typer.Context,
    out: Folder = RESULTS,
    further: Annotated[
        bool, typer.Option(help="Also the rows that the paper does not have.")
    ] = True,
    jobs: Jobs = 2,
) -> None:
    """Final test AP of linear models: every method, the whole grid, five repeats.

    [bold]Example:[/bold] apmax paper table3 --out paper-results
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from experiments.linear_table import all_keys
        from experiments.store import Store
        from experiments.tables import settings_to_markdown, title_of, to_json, to_markdown

        cells = _cells(settings, Store(out), all_keys(further=further), jobs)
        names = list(dict.fromkeys(cell.data for cell in cells))
        heads = (name.replace("-", "-\n") for name in names)
        table = make_table("test AP, and below it ours less the paper's", "method", *heads)
        for method in dict.fromkeys(cell.method for cell in cells):
            table.add_row(title_of(method), *(_told(c) for c in cells if c.method == method))
        data = to_json(cells)
        _write(out, "table3", data, to_markdown(cells) + "\n" + settings_to_markdown(cells))
        settings.show(table, {"table3": data})
        settings.say(f"table → {out / 'table3.md'} and table3.json")


@app.command("cell")
def cell(
    context: typer.Context,
    method: Annotated[str, typer.Argument(help="A row of the table, as adap-adam.")],
    data: Annotated[str, typer.Argument(help="A column of the table, as w8a.")],
    setting: Annotated[
        str | None,
        typer.Option(help="η,β,γ as table3.md has it; the whole grid is searched if not given."),
    ] = None,
    out: Folder = RESULTS,
    jobs: Jobs = 2,
) -> None:
    """One cell of table 3 again: what was chosen, and every repeat.

    [bold]Example:[/bold] apmax paper cell adap-adam w8a --setting 0.1,0.5,0.05
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from experiments.linear_table import check_key, run_cells
        from experiments.protocol import Setting
        from experiments.store import Store
        from experiments.tables import title_of, to_json

        key = check_key(method, data)
        if setting is None:
            one = _cells(settings, Store(out), [key], jobs)[0]
        else:
            one = run_cells(Store(out), [key], {key: Setting.read(setting, method)}, jobs=jobs)[0]
        table = make_table(f"{title_of(method)} on {data}", "repeat", "train AP", "test AP")
        for k, outcome in enumerate(one.outcomes):
            table.add_row(str(k), *(f"{ap:.4f}" for ap in outcome))
        table.add_row("mean", f"{one.train_mean:.4f}", f"{one.mean:.4f}", style="bold")
        settings.show(table, {"cell": to_json([one])[0]})
        if one.setting is not None:
            eta, beta, gamma = one.setting
            settings.say(f"η = {eta:g}, β₀ = β₁ = {beta:g}, γ = {gamma:g}")
        if one.published is not None:
            settings.say(f"the paper has {one.published:.3f} ({one.difference:+.3f})")
        settings.say(f"again: {one.command}")


@app.command("figures")
def figures(context: typer.Context, out: Folder = RESULTS, jobs: Jobs = 2) -> None:
    """Precision and recall, AP along rounds and time, V1 beside V2: as SVG and PNG.

    Settings are those of table 3, whose grid is run if it has not been.

    [bold]Example:[/bold] apmax paper figures --out paper-results
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from experiments.figures import paper_figures
        from experiments.protocol import DATA, PAPER_METHODS
        from experiments.tables import curves_to_json, title_of

        keys = [(method, name) for name in DATA for method in (*PAPER_METHODS, "moap-v1")]
        curves = _curves(settings, out, keys, jobs)
        _write(out, "figures", curves_to_json(curves))
        files = _save(out, paper_figures(curves))
        table = make_table("microseconds per round, one core", "method", *DATA)
        for method in (*PAPER_METHODS, "moap-v1"):
            times = (1e6 * curves[method, name].seconds_per_round for name in DATA)
            table.add_row(title_of(method), *(f"{time:.1f}" for time in times))
        settings.show(table, {"figures": [str(file) for file in files]})
        settings.say(f"figures → {', '.join(file.name for file in files)} in {out}")


@app.command("appendix")
def appendix(context: typer.Context, out: Folder = RESULTS, jobs: Jobs = 2) -> None:
    """MOAP-V1 beside MOAP-V2 on phishing and w6a, as in the paper's appendix.

    [bold]Example:[/bold] apmax paper appendix --out paper-results
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from experiments.figures import APPENDIX_DATA, APPENDIX_METHODS, appendix_figure
        from experiments.store import Store
        from experiments.tables import settings_to_markdown, title_of, to_json, to_markdown

        keys = [(method, name) for method in APPENDIX_METHODS for name in APPENDIX_DATA]
        curves = _curves(settings, out, keys, jobs)
        cells = _cells(settings, Store(out), keys, jobs)
        data = to_json(cells)
        _write(out, "appendix", data, to_markdown(cells) + "\n" + settings_to_markdown(cells))
        _save(out, {"appendix": appendix_figure(curves)})
        title = "test AP, and below it ours less the paper's"
        table = make_table(title, "method", *APPENDIX_DATA)
        for method in APPENDIX_METHODS:
            table.add_row(title_of(method), *(_told(c) for c in cells if c.method == method))
        settings.show(table, {"appendix": data})
        settings.say(f"appendix → appendix.md, .json, .svg and .png in {out}")


@app.command("rates")
def rates(
    context: typer.Context,
    out: Folder = RESULTS,
    quick: Annotated[
        bool, typer.Option("--quick", help="A short ladder on a small set: a look, no evidence.")
    ] = False,
    jobs: Jobs = 2,
) -> None:
    """How ‖∇F‖ falls with the number of rounds, beside what the theorems claim.

    [bold]Example:[/bold] apmax paper rates --out paper-results
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from experiments.figures import rates_figure
        from experiments.rates import CLAIMS, FULL, QUICK, measure_rates
        from experiments.store import Store
        from experiments.tables import interval, rates_to_json, rates_to_markdown

        ladder = QUICK if quick else FULL
        with progress(settings, "rates") as advance:
            found = measure_rates(
                Store(out), ladder, jobs=jobs, advance=lambda k, of: advance("rates", k, of)
            )
        data = rates_to_json(found, ladder)
        name = "rates-quick" if quick else "rates"
        _write(out, name, data, rates_to_markdown(found))
        _save(out, {name: rates_figure(found, ladder.data)})
        columns = ("method", "theorem", "p, all T", "p, longer half")
        table = make_table(f"T ∝ 1/εᵖ on {ladder.data}, 95 % intervals", *columns)
        for rate in found:
            claim = CLAIMS[rate.key]
            told = (interval(rate.whole), interval(rate.upper))
            table.add_row(claim.title, str(claim.exponent), *told)
        settings.show(table, {"rates": data})
        settings.say(f"rates → {name}.md, .json, .svg and .png in {out}")


def _cells(settings: Settings, store: Store, keys: list[Key], jobs: int) -> list[Cell]:
    """Search the grid on training data, then train and test what was chosen."""
    from experiments.linear_table import run_cells

    chosen = _chosen(settings, store, keys, jobs)
    with progress(settings, "chosen settings") as advance:
        return run_cells(
            store, keys, chosen, jobs=jobs, advance=lambda k, of: advance("chosen settings", k, of)
        )


def _chosen(settings: Settings, store: Store, keys: list[Key], jobs: int) -> dict[Key, Setting]:
    from experiments.linear_table import choose_settings

    with progress(settings, "grid") as advance:
        return choose_settings(store, keys, jobs=jobs, advance=lambda k, of: advance("grid", k, of))


def _curves(settings: Settings, out: Path, keys: list[Key], jobs: int) -> Any:
    from experiments.curves import draw_curves
    from experiments.store import Store

    store = Store(out)
    chosen = _chosen(settings, store, keys, jobs)
    with progress(settings, "curves") as advance:
        return draw_curves(
            store, {key: chosen[key] for key in keys}, jobs=jobs,
            advance=lambda k, of: advance("curves", k, of),
        )  # fmt: skip


def _told(cell: Cell) -> str:
    beside = "" if cell.difference is None else f"\n{cell.difference:+.3f}"
    return f"{cell.mean:.3f}{beside}"


def _write(out: Path, name: str, data: Any, markdown: str | None = None) -> None:
    from apmax.app.disk import write_aside

    write_aside(out / f"{name}.json", json.dumps(data, indent=1).encode())
    if markdown is not None:
        write_aside(out / f"{name}.md", markdown.encode())


def _save(out: Path, figures: dict[str, Any]) -> list[Path]:
    from experiments.figures import save

    return [file for name, figure in figures.items() for file in save(figure, out, name)]
