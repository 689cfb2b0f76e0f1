"""A matplotlib backend that draws the figures of a script and counts their axes with data."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

__all__ = ["FigureCanvas", "show"]


def show(*_: object, **__: object) -> None:
    """Add a line for each figure to the file `figures` of the working folder."""
    for number in plt.get_fignums():
        figure = plt.figure(number)
        figure.canvas.draw()
        with Path("figures").open("a") as file:
            file.write(f"{sum(axes.has_data() for axes in figure.axes)} axes with data\n")
    plt.close("all")
