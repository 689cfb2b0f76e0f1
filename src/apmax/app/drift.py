"""Report columns that a model cannot use: in training, and in new rows that differ from it."""

from __future__ import annotations

from typing import Any

from apmax.app.features import CATEGORY, DATE, MISSING, NUMBER, TableEncoder, means_missing

MAX_NEW_CATEGORIES = 0.5
"""Share of new categories above which a column is reported."""


def training_warnings(encoder: TableEncoder, frame: Any) -> list[str]:
    """Describe the columns of the training table that are not fully used."""
    frame = frame.rename(columns=str)
    found: list[str] = []
    for name, kind in encoder.kinds_.items():
        if kind != CATEGORY:
            found += _unreadable(encoder, name, frame[name].dropna())
        elif not set(encoder.categories(name)[0]) - {MISSING}:
            found.append(
                f"{name!r} is text whose values hardly ever repeat; only whether it is missing "
                "is used"
            )
    found += [
        f"{name!r} is text whose values hardly ever repeat, and is not used"
        for name in encoder.unused_
    ]
    return found


def drift_warnings(encoder: TableEncoder, frame: Any) -> list[str]:
    """Describe the columns of new data that differ from the training table.

    Reported are columns that are empty but never were in training, values that are not numbers
    or dates as in training, and mostly new categories.
    """
    frame = frame.rename(columns=str)
    found: list[str] = []
    for name, kind in encoder.kinds_.items() if len(frame) else ():
        known = frame[name].dropna()
        if kind == NUMBER:
            known = known[encoder.read(name, known).notna() | ~means_missing(known)]
        if not len(known) and name in encoder.complete_:
            found.append(f"{name!r} is empty, but had values in every row in training")
        found += (_new_categories if kind == CATEGORY else _unreadable)(encoder, name, known)
    return found


def _unreadable(encoder: TableEncoder, name: str, known: Any) -> list[str]:
    bad = known[encoder.read(name, known).isna()]
    expected = "not a number"
    if encoder.kinds_[name] == DATE:
        expected = f"not dates like {encoder.date_formats_[name]}"
    return [_describe(name, bad, known, expected, "count as missing")] if len(bad) else []


def _new_categories(encoder: TableEncoder, name: str, known: Any) -> list[str]:
    kept, rare = encoder.categories(name)
    new = known[~encoder.read(name, known).isin([*kept, *rare])]
    if len(rare) > len(kept) or len(new) <= MAX_NEW_CATEGORIES * len(known):
        return []
    return [_describe(name, new, known, "new categories", "are ignored")]


def _describe(name: str, bad: Any, known: Any, problem: str, use: str) -> str:
    count = f"{len(bad):,} of {len(known):,} values are {problem}"
    return f"{name!r}: {count} (first {str(bad.iloc[0])[:40]!r}), and {use}"
