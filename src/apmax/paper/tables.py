"""The tables as Markdown for people and as plain data for programs."""

from __future__ import annotations

from typing import Any

from apmax.data import load_paper_set
from apmax.method.table import METHODS
from apmax.paper.linear_table import NOT_STOCHASTIC, Cell
from apmax.paper.protocol import DATA


def data_statistics() -> list[dict[str, Any]]:
    """Table 2: the data sets after their preparation, computed from the data."""
    rows = []
    for name in DATA:
        data = load_paper_set(name, seed=0)
        rows.append(
            {
                "data": name,
                "training examples": int(data.y.size),
                "test examples": int(data.y_test.size),
                "features": int(data.X.shape[1]),
                "positives": float(data.y.mean()),
            }
        )
    return rows


def title_of(method: str) -> str:
    """What a person calls it."""
    return METHODS[method].title if method in METHODS else NOT_STOCHASTIC[method]


def to_json(cells: list[Cell]) -> list[dict[str, Any]]:
    """Every cell with its setting and the paper's number."""
    return [
        {
            **cell._asdict(),
            "setting": None if cell.setting is None else cell.setting._asdict(),
            "difference": cell.difference,
        }
        for cell in cells
    ]


def to_markdown(cells: list[Cell]) -> str:
    """Test AP ± std, and below it the paper's number and the difference."""
    by_method: dict[str, list[Cell]] = {}
    for cell in cells:
        by_method.setdefault(cell.method, []).append(cell)
    lines = [f"| method | {' | '.join(DATA)} |", "|---" * (len(DATA) + 1) + "|"]
    for method, row in by_method.items():
        told = " | ".join(f"{cell.mean:.3f} ± {cell.std:.3f}" for cell in row)
        lines.append(f"| {title_of(method)} | {told} |")
        if row[0].published is not None:
            beside = " | ".join(f"{cell.published:.3f} ({cell.difference:+.3f})" for cell in row)
            lines.append(f"| *paper (ours − paper)* | {beside} |")
    return "\n".join(lines) + "\n"


def settings_to_markdown(cells: list[Cell]) -> str:
    """What was chosen for every cell: η, β, γ."""
    chosen = [cell for cell in cells if cell.setting is not None]
    by_method: dict[str, list[Cell]] = {}
    for cell in chosen:
        by_method.setdefault(cell.method, []).append(cell)
    lines = [f"| η, β, γ | {' | '.join(DATA)} |", "|---" * (len(DATA) + 1) + "|"]
    for method, row in by_method.items():
        told = " | ".join(
            f"{cell.setting.eta:g}, {cell.setting.beta:g}, {cell.setting.gamma:g}"
            for cell in row
            if cell.setting is not None
        )
        lines.append(f"| {title_of(method)} | {told} |")
    return "\n".join(lines) + "\n"
