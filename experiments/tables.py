"""The tables as Markdown for people and as plain data for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apmax.app.data import load_paper_set
from apmax.methods import METHODS
from experiments.curves import AT, RECALL, Curves
from experiments.linear_table import NOT_STOCHASTIC, Cell, Key
from experiments.protocol import DATA
from experiments.rates import CLAIMS, Fitted, Ladder, Rate
from apmax.validation import Floats


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
    """Every cell with its repeats, its setting, the paper's number and the command for it."""
    return [
        {
            "method": cell.method,
            "data": cell.data,
            "mean": cell.mean,
            "std": cell.std,
            "train_mean": cell.train_mean,
            "repeats": [one._asdict() for one in cell.outcomes],
            "setting": None if cell.setting is None else cell.setting._asdict(),
            "published": cell.published,
            "difference": cell.difference,
            "command": cell.command,
        }
        for cell in cells
    ]


def to_markdown(cells: list[Cell]) -> str:
    """Test AP, ± std where there are repeats; below it the paper's number and the difference."""
    names = _names(cells)
    lines = [_row("method", names), _rule(names)]
    for method, row in _by_method(cells).items():
        told = [
            f"{cell.mean:.3f}" + (f" ± {cell.std:.3f}" if len(cell.outcomes) > 1 else "")
            for cell in row.values()
        ]
        lines.append(_row(title_of(method), told, names))
        if any(cell.published is not None for cell in row.values()):
            beside = [
                "–" if cell.published is None else f"{cell.published:.3f} ({cell.difference:+.3f})"
                for cell in row.values()
            ]
            lines.append(_row("*paper (ours − paper)*", beside, names))
    return "\n".join(lines) + "\n"


def settings_to_markdown(cells: list[Cell]) -> str:
    """What was chosen for every cell, as `apmax paper cell` takes it."""
    chosen = [cell for cell in cells if cell.setting is not None]
    names = _names(chosen)
    lines = [_row("η,β,γ", names), _rule(names)]
    for method, row in _by_method(chosen).items():
        told = [cell.setting.spelled for cell in row.values() if cell.setting is not None]
        lines.append(_row(f"`{method}`", told, names))
    example = chosen[-1]
    return (
        "\n".join(lines) + "\n\nAny cell again: `apmax paper cell METHOD DATA --setting η,β,γ`, "
        f"for example `{example.command}`; without `--setting` the grid is searched again.\n"
    )


def rates_to_markdown(rates: Sequence[Rate]) -> str:
    """The exponent of every method beside the theorem's."""
    lines = [
        "| method | statement | theorem | p, all T | p, longer half | ε, shortest → longest | "
        "η, β at the shortest |",
        "|---|---|---|---|---|---|---|",
    ]
    for rate in rates:
        claim = CLAIMS[rate.key]
        first, last = (float(np.sqrt(np.mean(rate.squares[k]))) for k in (0, -1))
        lines.append(
            f"| {claim.title} | {claim.source} | {claim.exponent} | {interval(rate.whole)} | "
            f"{interval(rate.upper)} | {first:.3g} → {last:.3g} | {rate.eta:g}, {rate.beta:g} |"
        )
    return "\n".join(lines) + "\n"


def rates_to_json(rates: Sequence[Rate], ladder: Ladder) -> dict[str, Any]:
    """All that was measured; an exponent that is not finite is null."""
    told = []
    for rate in rates:
        claim = CLAIMS[rate.key]
        told.append(
            {
                "run": rate.key,
                "statement": claim.source,
                "theorem": claim.exponent,
                "eta": rate.eta,
                "beta": rate.beta,
                "squares": rate.squares,
                "exponent": _finite(rate.whole),
                "exponent_of_longer_half": _finite(rate.upper),
            }
        )
    return {"data": ladder.data, "rounds": ladder.lengths, "seeds": ladder.seeds, "rates": told}


def curves_to_json(curves: Mapping[Key, Curves]) -> dict[str, Any]:
    """What the figures show: means and deviations over the repeats."""

    def told(values: Floats) -> dict[str, list[float]]:
        return {
            "mean": values.mean(axis=0).round(6).tolist(),
            "std": values.std(axis=0, ddof=1).round(6).tolist(),
        }

    return {
        "rounds": AT,
        "recall": RECALL.round(6).tolist(),
        "curves": [
            {
                "method": one.method,
                "data": one.data,
                "setting": one.setting._asdict(),
                "train_ap": told(one.train_ap),
                "precision": told(one.precision),
                "microseconds_per_round": 1e6 * one.seconds_per_round,
            }
            for one in curves.values()
        ],
    }


def interval(fitted: Fitted) -> str:
    """An exponent with the ends of its interval."""
    ends = (f"{x:.1f}" if np.isfinite(x) else "∞" for x in fitted)
    return "{} ({} to {})".format(*ends)


def _finite(fitted: Fitted) -> dict[str, float | None]:
    return {name: x if np.isfinite(x) else None for name, x in fitted._asdict().items()}


def _names(cells: list[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.data for cell in cells))


def _by_method(cells: list[Cell]) -> dict[str, dict[str, Cell]]:
    by_method: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        by_method.setdefault(cell.method, {})[cell.data] = cell
    return by_method


def _row(title: str, told: Sequence[str], names: Sequence[str] = ()) -> str:
    blanks = [""] * (len(names) - len(told))
    return f"| {' | '.join([title, *told, *blanks])} |"


def _rule(names: Sequence[str]) -> str:
    return "|---" * (len(names) + 1) + "|"
