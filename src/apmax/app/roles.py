"""Columns that are not features: identifiers, weights, groups, times and dropped columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.app.target import find_column, listed
from apmax.errors import ParameterError, WeightError
from apmax.validation import Floats


@dataclass(frozen=True)
class Roles:
    """Columns by name, by number from 1, or "last", as given on the command line."""

    drop: tuple[str, ...] = ()
    """Columns to leave out; one text may name several, separated by commas."""
    only: tuple[str, ...] = ()
    """The only columns to use, if any is given."""
    id: str | None = None
    """The column that identifies rows."""
    weight: str | None = None
    """The column of sample weights."""
    group: str | None = None
    """The column of groups that cross-validation keeps together."""
    time: str | None = None
    """The column that orders rows in time; a feature only if `only` names it."""

    def given(self) -> str | None:
        """Return the first option that names a column, or None."""
        return next((f"--{one.name}" for one in fields(self) if getattr(self, one.name)), None)


NO_ROLES = Roles()


class Assigned(NamedTuple):
    """The features of a table, and the values of its other columns."""

    X: Any
    ids: Any
    """A series named like its column, or None."""
    weight: Floats | None
    weight_column: str | None
    groups: NDArray[Any] | None
    times: Floats | None


def assign_roles(frame: Any, roles: Roles, target: str | None) -> Assigned:
    """Take the columns with a role, and the target, out of a table."""
    names = list(frame.columns)
    single = {
        option: find_column(names, name, option=option)
        for option in ("--id", "--weight", "--group", "--time")
        if (name := getattr(roles, option[2:])) is not None
    }
    if {"--group", "--time"} <= single.keys():
        raise ParameterError("--group and --time exclude each other: each decides on the folds")
    for option in ("--weight", "--group", "--time"):
        if target is not None and single.get(option) == target:
            raise ParameterError(f"{option} = {target!r} is the target: name another column")
    only = _named(names, roles.only, "--only")
    used = {single.get("--time")} & set(only)
    apart = {*single.values(), *_named(names, roles.drop, "--drop")} - used
    kept = [name for name in only or names if name not in apart and name != target]
    if not kept:
        raise ParameterError(
            f"no column is left to learn from: {listed(map(repr, names))} are dropped or have "
            "another role; change --drop or --only"
        )
    return Assigned(
        frame[kept],
        frame[single["--id"]] if "--id" in single else None,
        read_weights(frame[single["--weight"]]) if "--weight" in single else None,
        single.get("--weight"),
        _groups(frame[single["--group"]]) if "--group" in single else None,
        _times(frame[single["--time"]]) if "--time" in single else None,
    )


def _named(names: list[str], given: Iterable[str], option: str) -> list[str]:
    """Return the columns that an option names, without repetition, in the order of the table."""
    parts = [
        part.strip()
        for text in given
        for part in ([text] if text in names else text.split(","))
        if part.strip()
    ]
    found = {find_column(names, part, option=option) for part in parts}
    return [name for name in names if name in found]


def read_weights(values: Any) -> Floats:
    """Return a column of sample weights; WeightError if one is not a number of at least 0."""
    import pandas as pd

    weight = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~(np.isfinite(weight) & (weight >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise WeightError(
            f"--weight = {values.name!r}: row {row + 1} has {str(values.iloc[row])!r}, and a "
            "weight is a number of at least 0: correct the column, or drop these rows"
        )
    return np.asarray(weight)


def _groups(values: Any) -> NDArray[Any]:
    missing = values.isna().to_numpy()
    if missing.any():
        raise ParameterError(
            f"--group = {values.name!r} is missing in {int(missing.sum())} rows, first in row "
            f"{int(np.argmax(missing)) + 1}: give every row a group"
        )
    return np.asarray(values.astype(str).to_numpy(dtype=object).astype(str))


def _times(values: Any) -> Floats:
    """Return numbers or dates as numbers that order the rows."""
    from apmax.app.column_values import DATE, NUMBER, kind_of, to_dates, to_numbers

    kind, date_format = kind_of(values)
    order = to_numbers(values)
    if kind == DATE:
        dates = to_dates(values, date_format)
        order = dates.astype("int64").astype(float).where(dates.notna())
    missing = order.isna().to_numpy()
    if kind not in (NUMBER, DATE) or missing.all():
        raise ParameterError(
            f"--time = {values.name!r} is text (first {str(values.iloc[0])[:40]!r}), and rows are "
            "ordered by a number or a date: name another column"
        )
    if missing.any():
        row = int(np.argmax(missing))
        raise ParameterError(
            f"--time = {values.name!r}: row {row + 1} has {str(values.iloc[row])[:40]!r}, and "
            f"{int(missing.sum())} rows have no {kind}: correct the column, or drop these rows"
        )
    return np.asarray(order.to_numpy(dtype=np.float64))
