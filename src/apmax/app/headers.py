"""Tell whether the first row of a text table is a header, and name its columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from apmax.errors import ParameterError

MISSING = {
    "", "?", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
}  # fmt: skip
"""Cells that count as missing, as in pandas."""


def has_header(
    file: Path, rows: Sequence[Sequence[str]], target: str | None, known: Collection[str]
) -> bool:
    """Tell whether the first of some rows is a header.

    It is one if its cells are distinct and none is empty, "?" or a number, or if it contains
    `target` or, without a target, most of the `known` names. A target that is a number or "last"
    may be a position, and equal a cell by chance: see `_names_a_column`. ParameterError is raised
    if that cannot be decided.
    """
    first = rows[0]
    by_position = target is not None and (target == "last" or _is_number(target))
    names = unique_names(first)
    named = {name for name, cell in zip(names, first, strict=True) if _plain(cell)}
    wanted = {*known} if target is None or by_position else {target}
    wanted -= {*names} - named  # names that empty cells would get
    if _looks_like_header(first) or 2 * len(wanted & named) > len(wanted):
        return True
    return by_position and target in named and _names_a_column(file, rows, str(target))


def unique_names(cells: Sequence[str]) -> list[str]:
    """Return the names of columns: cells without quotes, numbered if they are empty or equal."""
    copies: dict[str, int] = {}  # of each name so far, so that equal names take linear time
    for k, cell in enumerate(cells, start=1):
        name = plain = _plain(cell) or f"column {k}"
        while name in copies:
            copies[plain] += 1
            name = f"{plain} ({copies[plain]})"
        copies[name] = 1
    return list(copies)


def _names_a_column(file: Path, rows: Sequence[Sequence[str]], target: str) -> bool:
    """Tell whether a cell of the first row that equals `target` is the name of a column.

    A word above numbers is a name. A word that occurs again in its column is data, and so is a row
    of numbers only, unless it counts the columns.
    """
    first, *below = ([_plain(cell) for cell in row] for row in rows)
    words = [k for k, cell in enumerate(first) if cell not in MISSING and not _is_number(cell)]
    columns = [[row[k] for row in below if len(row) > k and row[k] not in MISSING] for k in words]
    above_numbers = any(column and all(map(_is_number, column)) for column in columns)
    again = any(first[k] in column for k, column in zip(words, columns, strict=True))
    if above_numbers != again:
        return above_numbers
    is_position = target == "last" or (target.isdecimal() and 1 <= int(target) <= len(first))
    counted = first[1:] if first[0] == "" else first  # above pandas' row numbers
    counts = any(counted == [str(k + start) for k in range(len(counted))] for start in (0, 1))
    if is_position and not (words or counts):
        return False
    if not is_position and (words or counts):
        return True
    raise ParameterError(
        f"--target = {target!r} is a cell of the first row of {file}, which may be a header or "
        "data: if it is a header, give the column a name that is not a number; if it is data, "
        "write a header above it"
    )


def _looks_like_header(cells: Sequence[str]) -> bool:
    import pandas as pd

    plain = [_plain(cell) for cell in cells]
    plain = plain[1:] if len(plain) > 1 and not plain[0] else plain  # above pandas' row numbers
    numbers = pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce").notna().any()
    return len(set(plain)) == len(plain) and not numbers and not {"", "?"} & set(plain)


def _is_number(cell: str) -> bool:
    """Tell whether a cell is a number, perhaps with a decimal comma."""
    with suppress(ValueError):
        return float(cell.replace(",", ".")) is not None
    return False


def _plain(cell: str) -> str:
    return cell.strip("'\" ")
