"""Table 4 as Markdown, JSON and learning curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.deep.protocol import METHODS, TITLES
from experiments.deep.table import Row
from experiments.figures import BLACK, BLUE, GREEN, ORANGE, PURPLE, VERMILION, in_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = dict(zip(METHODS, (VERMILION, BLUE, GREEN, BLACK, PURPLE, ORANGE), strict=True))
LINES = ("solid", "dashed", "dashdot", "dotted", (0, (1, 2)), (0, (5, 1)))
STYLES = dict(zip(METHODS, LINES, strict=True))


def to_markdown(rows: list[Row]) -> str:
    """A line for each method: mean ± std, every seed, the paper's number, what was chosen."""
    lines = ["| method | test AP | every seed | paper | chosen |", "|---|---|---|---|---|"]
    for row in rows:
        seeds = ", ".join(f"{ap:.4f}" for ap in row.test_aps)
        paper = "–" if row.published is None else "{:.4f} ± {:.4f}".format(*row.published)
        lines.append(
            f"| {TITLES[row.method]} | {row.mean:.4f} ± {row.std:.4f} | {seeds} | {paper} | "
            f"{setting_in_words(row)} |"
        )
    return "\n".join(lines) + "\n"


def setting_in_words(row: Row) -> str:
    """η, γ (SmoothAP: τ), β₀, and the epoch with the highest validation AP of each seed."""
    setting = row.setting
    told = [f"η {setting.lr:g}"]
    if setting.gamma is not None:
        told.append(f"{'τ' if row.method == 'smoothap' else 'γ'} {setting.gamma:g}")
    if setting.beta0 is not None:
        told.append(f"β₀ {setting.beta0:g}")
    return ", ".join([*told, f"epoch {'/'.join(map(str, row.chosen_epochs))}"])


def to_json(rows: list[Row]) -> list[dict[str, Any]]:
    """Everything, for programs."""
    return [
        {**row._asdict(), "setting": row.setting._asdict(), "mean": row.mean, "std": row.std}
        for row in rows
    ]


@in_style
def draw_curves(rows: list[Row]) -> Figure:
    """AP on training and validation images after each epoch, a thin line for every seed."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, column in zip(panels, ("train_ap", "validation_ap"), strict=True):
        for row in rows:
            for k, curve in enumerate(row.curves):
                axes.plot(
                    [point["epoch"] for point in curve],
                    [point[column] for point in curve],
                    color=COLOURS[row.method],
                    linestyle=STYLES[row.method],
                    marker="o",
                    markersize=3,
                    label=TITLES[row.method] if k == 0 else None,
                )
        axes.set(xlabel="epoch after pretraining", title=f"{column.split('_')[0]} AP")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
