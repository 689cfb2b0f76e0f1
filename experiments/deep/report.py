"""Table 4 as Markdown and as a figure, from its results."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.deep.presets import HEAD, TITLES
from experiments.output import markdown_table

COLOURS = dict(zip(TITLES, ("C1", "C6", "C0", "C2", "C4", "C5", "C3", "C3"), strict=True))
LINES = ("solid", (0, (3, 1)), "dashed", "dashdot", "dotted", (0, (5, 1)), (0, (1, 2)), "solid")
STYLES: dict[str, Any] = dict(zip(TITLES, LINES, strict=True))


def table_to_markdown(table: dict[str, Any]) -> str:
    """Format test AP of the methods, then their paired differences."""
    rows = [_cells_of(row) for row in table["rows"]]
    head = ["method", "test AP", "every seed", "paper", "chosen"]
    text = markdown_table(head, rows)
    if table["differences"]:
        head = ["difference in test AP", "every seed ± its test images", "mean ± seeds"]
        text += "\n" + markdown_table(head, map(_difference_cells, table["differences"]))
    return text


def _cells_of(row: dict[str, Any]) -> list[str]:
    """Mean ± std, every seed, the paper's number and the chosen setting."""
    seeds = ", ".join(f"{ap:.4f}" for ap in row["test_aps"])
    mean = f"{row['mean']:.4f}"
    if len(row["test_aps"]) > 1:
        mean += f" ± {row['std']:.4f}"
    paper = "–" if row["published"] is None else "{:.4f} ± {:.4f}".format(*row["published"])
    names = ("η", "τ" if row["method"] == "smoothap" else "γ", "β₀")
    named = zip(names, row["setting"].values(), strict=True)
    chosen = [f"{name} {value:g}" for name, value in named if value is not None]
    if row["method"] == HEAD:
        chosen.append("/".join(_alpha_of(head) for head in row["heads"]))
    else:
        chosen.append(f"epoch {'/'.join(map(str, row['chosen_epochs']))}")
    return [TITLES[row["method"]], mean, seeds, paper, ", ".join(chosen)]


def _alpha_of(head: dict[str, Any]) -> str:
    return "layer kept" if head["alpha"] is None else f"α {head['alpha']:g}"


def _difference_cells(one: dict[str, Any]) -> list[str]:
    each = zip(one["differences"], one["errors"], strict=True)
    seeds = ", ".join(f"{_signed(gain)} ± {error:.4f}" for gain, error in each)
    mean = _signed(one["mean"])
    if one["error"] is not None:
        mean += f" ± {one['error']:.4f}"
    return [f"{one['method']} − {one['baseline']}", seeds, mean]


def _signed(number: float) -> str:
    return f"{number:+.4f}".replace("-", "−")


def draw_learning_curves(table: dict[str, Any]) -> Figure:
    """Draw AP on training and validation images after each epoch, a line for every seed."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, column in zip(panels, ("train_ap", "validation_ap"), strict=True):
        pretraining = [run["curves"] for run in table["pretraining"]]
        style = {"color": "0.6", "linestyle": "solid"}
        _draw(axes, pretraining, column, -max(map(len, pretraining)), "pretraining", style)
        for row in table["rows"]:
            method = row["method"]
            style = {"color": COLOURS[method], "linestyle": STYLES[method]}
            if method != HEAD:  # it has no epochs
                _draw(axes, row["curves"], column, 0, TITLES[method], style)
        axes.set(xlabel="epoch after pretraining", title=f"{column.split('_')[0]} AP")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _draw(axes: Axes, curves: Any, column: str, shift: int, title: str, style: Any) -> None:
    for k, curve in enumerate(curves):
        epochs = [point["epoch"] + shift for point in curve]
        aps = [point[column] for point in curve]
        label = title if k == 0 else None
        axes.plot(epochs, aps, marker="o", markersize=2.5, linewidth=1.1, label=label, **style)
