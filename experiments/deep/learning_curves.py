"""The figure of Table 4: AP by epoch."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.deep.presets import TITLES
from experiments.deep.table4 import Row
from experiments.output import BLACK, BLUE, GREEN, ORANGE, PURPLE, VERMILION

COLOURS = dict(zip(TITLES, (VERMILION, BLUE, GREEN, BLACK, PURPLE, ORANGE), strict=True))
LINES = ("solid", "dashed", "dashdot", "dotted", (0, (1, 2)), (0, (5, 1)))
STYLES: dict[str, Any] = dict(zip(TITLES, LINES, strict=True))


def draw_learning_curves(rows: list[Row]) -> Figure:
    """Draw AP on training and validation images after each epoch, a line for every seed."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, column in zip(panels, ("train_ap", "validation_ap"), strict=True):
        for row in rows:
            method = row["method"]
            style = {"color": COLOURS[method], "linestyle": STYLES[method]}
            for k, curve in enumerate(row["curves"]):
                epochs = [point["epoch"] for point in curve]
                aps = [point[column] for point in curve]
                label = TITLES[method] if k == 0 else None
                axes.plot(epochs, aps, marker="o", markersize=3, label=label, **style)
        axes.set(xlabel="epoch after pretraining", title=f"{column.split('_')[0]} AP")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
