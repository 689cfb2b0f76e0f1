"""The tables of a report as CSV files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from apmax.app.report.calibration import calibration
from apmax.app.report.measures import deciles, operating_points, quality, top_rows
from apmax.app.report.results import Report, ScoredModel
from apmax.atomic_files import write_file
from apmax.tabular.effects import CategoryEffect, Effect, NumberEffect

Row = dict[str, Any]


def write_tables(report: Report, folder: Path) -> list[Path]:
    """Write one CSV file per table that has rows.

    Parameters
    ----------
    report : Report
        The content.
    folder : Path
        Folder of the files; it is created if it is missing.

    Returns
    -------
    list of Path
        The files.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from apmax.app.report import Report, ScoredModel, write_tables
    >>> report = Report("Loans", [ScoredModel("model", [1, 0, 0, 0], [0.9, 0.4, 0.2, 0.1])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [file.name for file in write_tables(report, Path(folder))][:2]
    ['metrics.csv', 'operating_points.csv']
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {folder / f"{name}.csv": rows for name, rows in tables(report).items() if rows}
    for file, rows in files.items():
        write_file(file, pd.DataFrame(rows).to_csv(index=False).encode())
    return [*files]


def tables(report: Report) -> dict[str, list[Row]]:
    """Return the rows of each table by its name."""
    models = report.results
    return {
        "leaderboard": [one._asdict() for one in report.leaderboard or ()],
        "metrics": [{"model": one.name, **quality(one)._asdict()} for one in models],
        "operating_points": [row for one in models for row in _operating_points(one)],
        "top_rows": [
            {"model": one.name, **top._asdict()} for one in models for top in top_rows(one)
        ],
        "deciles": [
            {"model": one.name, **part._asdict()} for one in models for part in deciles(one)
        ],
        "calibration": [row for one in models for row in _calibration(one)],
        "effects": [row for effect in report.effects for row in _effect(effect)],
        "coefficients": [
            {"feature": name, "per_standard_deviation": value}
            for name, value in report.coefficients
        ],
        "drift": [shift._asdict() for shift in report.drift],
    }


def _operating_points(result: ScoredModel) -> Iterator[Row]:
    for target, point in operating_points(result).items():
        if point is not None:  # the others are not reachable
            yield {"model": result.name, "target_precision": target, **point._asdict()}


def _calibration(result: ScoredModel) -> Iterator[Row]:
    bins = calibration(result)
    for k in range(bins.rows.size):
        names = ("lowest", "predicted", "observed", "low", "high", "rows", "positives")
        yield {"model": result.name, **{name: getattr(bins, name)[k].item() for name in names}}


def _effect(effect: Effect) -> Iterator[Row]:
    """Yield the contribution to the log-odds at each value, or pair of values."""

    def row(first: Any, second: Any, value: float) -> Row:
        return {"effect": effect.name, "value": first, "second_value": second, "log_odds": value}

    if isinstance(effect, NumberEffect):
        for value, log_odds in zip(effect.grid.tolist(), effect.effect.tolist(), strict=True):
            yield row(value, "", log_odds)
        yield row("(missing)", "", effect.missing)
    elif isinstance(effect, CategoryEffect):
        for level, log_odds in zip(effect.levels, effect.effect.tolist(), strict=True):
            yield row(level, "", log_odds)
    else:
        sides = [
            margin.levels if margin.knots is None else margin.knots.tolist()
            for margin in (effect.first, effect.second)
        ]
        for k, first in enumerate(sides[0]):
            for j, second in enumerate(sides[1]):
                yield row(first, second, float(effect.effect[k, j]))
