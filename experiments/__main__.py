"""The command line: ``python -m experiments table2|table3|cell|figures|appendix|rates|table4``."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments import output
from experiments.datasets import SETS, load_paper_set, local_files
from experiments.linear import curves, figures, rates, table3
from experiments.linear.grid import DATA, PAPER_METHODS, LinearSetting
from experiments.output import markdown_table, save_figures, show
from experiments.store import Store, code_digest, write

app = typer.Typer(
    cls=output.OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="The data sets of the linear experiments.", no_args_is_help=True)
app.add_typer(data_app, name="data")
Folder = Annotated[
    Path, typer.Option("--out", "-o", help="Folder for results; an interrupted run resumes there.")
]
Jobs = Annotated[int, typer.Option(min=1, help="Number of processes.")]
RESULTS = Path("paper-results")


@app.callback()
def options(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Re-run the experiments of the paper."""
    output.out.quiet = output.err.quiet = quiet


@app.command("table2")
def table_2(context: typer.Context) -> None:
    """Statistics of the data sets, computed from the data."""
    head = ["data", "training examples", "test examples", "features", "positives"]
    rows, data = [], []
    for name in SETS:
        X, y, _, y_test = load_paper_set(name)
        sizes, share = (y.size, y_test.size, X.shape[1]), float(y.mean())
        rows.append([name, *map("{:,}".format, sizes), f"{share:.2%}"])
        data.append(dict(zip(head, (name, *sizes, share), strict=True)))
    show(context, markdown_table(head, rows), data)


@app.command("table3")
def table_3(
    context: typer.Context,
    out: Folder = RESULTS,
    further: Annotated[bool, typer.Option(help="Add rows that the paper does not have.")] = True,
    jobs: Jobs = 2,
) -> None:
    """Test AP of linear models: every method, the whole grid, five repeats."""
    store, keys = Store(out), table3.all_keys(further=further)
    cells = table3.run_cells(store, keys, table3.choose_settings(store, keys, jobs), jobs)
    _publish(context, out, "table3", table3.cells_to_markdown(cells), cells)


@app.command("cell")
def cell(
    context: typer.Context,
    method: Annotated[str, typer.Argument(help="A row of Table 3, such as adap-adam.")],
    data: Annotated[str, typer.Argument(help="A column of Table 3, such as w8a.")],
    setting: Annotated[
        str | None,
        typer.Option(help="η,β,γ as in table3.md; without it the whole grid is searched."),
    ] = None,
    out: Folder = RESULTS,
    jobs: Jobs = 2,
) -> None:
    """Compute one cell of Table 3 and show every repeat.

    Example: python -m experiments cell adap-adam w8a --setting 0.1,0.5,0.05
    """
    store, key = Store(out), table3.check_key(method, data)
    if setting is None:
        settings = table3.choose_settings(store, [key], jobs)
    else:
        settings = {key: LinearSetting.read(setting, method)}
    cells = table3.run_cells(store, [key], settings, jobs)
    aps = [tuple(one.values()) for one in cells[0]["repeats"]]
    rows = [[str(k), f"{train:.4f}", f"{test:.4f}"] for k, (train, test) in enumerate(aps)]
    repeats = markdown_table(["repeat", "training AP", "test AP"], rows)
    show(context, f"{repeats}\n{table3.cells_to_markdown(cells)}", cells[0])


@app.command("figures")
def figures_command(context: typer.Context, out: Folder = RESULTS, jobs: Jobs = 2) -> None:
    """Precision and recall, AP by round and time, V1 and V2; as SVG and PNG.

    Settings are those of Table 3, whose grid is searched first.
    """
    keys = [(method, name) for name in DATA for method in (*PAPER_METHODS, "moap-v1")]
    store = Store(out)
    found = curves.run_curves(store, table3.choose_settings(store, keys, jobs), jobs)
    at = {"rounds": curves.AT, "recall": curves.RECALL.round(6).tolist()}
    write(out / "figures.json", json.dumps({**at, "curves": list(found.values())}, indent=1))
    files = save_figures(out, lambda: figures.paper_figures(found))
    show(context, "\n".join(f"- {file}" for file in files), [str(file) for file in files])


@app.command("appendix")
def appendix(context: typer.Context, out: Folder = RESULTS, jobs: Jobs = 2) -> None:
    """MOAP-V1 and MOAP-V2 on phishing and w6a, as in the paper's appendix."""
    store = Store(out)
    keys = [(method, name) for method in figures.APPENDIX_METHODS for name in figures.APPENDIX_DATA]
    settings = table3.choose_settings(store, keys, jobs)
    found = curves.run_curves(store, settings, jobs)
    save_figures(out, lambda: {"appendix": figures.appendix_figure(found)})
    cells = table3.run_cells(store, keys, settings, jobs)
    _publish(context, out, "appendix", table3.cells_to_markdown(cells), cells)


@app.command("rates")
def rates_command(
    context: typer.Context,
    out: Folder = RESULTS,
    quick: Annotated[
        bool, typer.Option("--quick", help="Short runs on a small data set, to try the command.")
    ] = False,
    jobs: Jobs = 2,
) -> None:
    """How ‖∇F‖ falls with the number of rounds, compared with the theorems."""
    ladder, name = (rates.QUICK, "rates-quick") if quick else (rates.FULL, "rates")
    found = rates.measure_rates(Store(out), ladder, jobs)
    save_figures(out, lambda: {name: figures.rates_figure(found, ladder)})
    data = {**ladder._asdict(), "rates": found}
    _publish(context, out, name, rates.rates_to_markdown(found), data)


@app.command("table4")
def table_4(
    context: typer.Context,
    out: Folder = RESULTS,
    preset: Annotated[
        str, typer.Option(help="laptop or short (ResNet-20), or paper (ResNet-18, as published).")
    ] = "laptop",
    data: Annotated[str, typer.Option(help="cifar10 or cifar100.")] = "cifar10",
    methods: Annotated[str | None, typer.Option(help="Some rows, such as adap,smoothap.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Some seeds, such as 0,1.")] = None,
    tune: Annotated[bool, typer.Option("--tune", help="Tune settings also if known.")] = False,
    finished: Annotated[
        bool, typer.Option("--finished", help="Train nothing; report what is finished.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    amp: Annotated[bool, typer.Option("--amp", help="Train in bfloat16.")] = False,
    compiled: Annotated[bool, typer.Option("--compile", help="Use torch.compile.")] = False,
    processes: Annotated[int, typer.Option(min=1, help="Ranks that share every batch.")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads per process.")] = None,
) -> None:
    """Test AP of networks on imbalanced CIFAR: methods for AP and cross-entropy.

    With --amp on a CPU with bfloat16 instructions, the laptop preset takes about half an hour of
    one core for each data set and seed; the paper preset needs a GPU.
    """
    import torch

    from experiments.deep import report, table4
    from experiments.deep.presets import PRESETS, PUBLISHED, TITLES

    chosen = list(TITLES) if methods is None else [name.strip() for name in methods.split(",")]
    for name in chosen:
        TITLES.choose(name)
    PUBLISHED.choose(data)
    numbers = None if seeds is None else [int(seed) for seed in seeds.split(",")]
    how = f"{device}{'-amp' if amp else ''}{'-compiled' if compiled else ''}-{processes}"
    version = f"{torch.__version__.split('+')[0]}-{how}-{code_digest(*table4.SOURCES)[:12]}"
    experiment = table4.DeepExperiment(
        PRESETS.choose(preset),
        out / f"deep-{version}",
        table4.make_fabric(device, processes, amp),
        data=data,
        tune=tune,
        training=not finished,
        compiled=compiled,
        threads=threads,
    )
    found = experiment.table(chosen, numbers)
    # A part of the table does not overwrite the whole.
    part = "" if methods is None and seeds is None else "-part"
    name = f"table4-{data}-{preset}{part}"
    save_figures(out, lambda: {f"{name}-curves": report.draw_learning_curves(found)})
    _publish(context, out, name, report.table_to_markdown(found), found)


@data_app.command("list")
def list_sets(context: typer.Context) -> None:
    """List the data sets and whether their files are on this machine."""
    local = {name: len(local_files(name)) == len(recipe.files) for name, recipe in SETS.items()}
    rows = [[name, "yes" if here else "download"] for name, here in local.items()]
    show(context, markdown_table(["data", "local"], rows), local)


@data_app.command("get")
def get_set(
    context: typer.Context, name: Annotated[str, typer.Argument(help=", ".join(SETS))]
) -> None:
    """Download a data set if it is not here, check its content, and show its files."""
    load_paper_set(name)
    files = [str(path) for path in local_files(name)]
    show(context, "\n".join(f"- {file}" for file in files), files)


def _publish(context: typer.Context, out: Path, name: str, markdown: str, data: Any) -> None:
    """Write a table as JSON and Markdown, and print it."""
    write(out / f"{name}.json", json.dumps(data, indent=1))
    write(out / f"{name}.md", markdown)
    show(context, markdown, data)
    output.note(f"wrote {name}.md and {name}.json to {out}")


if __name__ == "__main__":
    app(prog_name="python -m experiments")
