"""Read columns of text as numbers with decimal commas or separators of thousands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from apmax.app.column_values import MIN_SHARE, means_missing
from apmax.app.target import listed
from apmax.errors import ParameterError

SAMPLE = 200
"""Values that decide whether a column is looked at as a whole."""
MIN_GROUPED = 20
"""Values like 1.101 that, beside whole numbers below 1000, suggest separators of thousands."""
SPACES = " \u00a0\u202f"
"""Written for a blank between thousands: also blanks that do not break lines."""
_MARKS = rf"[.,'_{SPACES}]"
_MAYBE_NUMBER = rf"[+-]?\d(?:\d|{_MARKS})*(?:[eE][+-]?\d+)?"


class NumberFormat(NamedTuple):
    """The decimal separator, and the separator of groups of three digits, which may be absent."""

    decimal: str = "."
    thousands: str = ""

    def fits(self, values: Any) -> Any:
        """Tell for each text whether it is a number of this format."""
        point, group = re.escape(self.decimal), self._thousands()
        grouped = rf"[1-9]\d{{0,2}}(?:{group}\d{{3}})+|" if group else ""
        pattern = rf"[+-]?(?:(?:{grouped}\d+)(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?"
        return values.str.fullmatch(pattern)

    def read(self, values: Any) -> Any:
        """Return texts of this format as numbers."""
        import pandas as pd

        if self.thousands:
            values = values.str.replace(self._thousands(), "", regex=True)
        return pd.to_numeric(values.str.replace(self.decimal, ".", regex=False), errors="coerce")

    def describe(self) -> str:
        """Return the name of the format for messages."""
        decimal = {",": "decimal commas", ".": "decimal points"}[self.decimal]
        mark = "spaces" if self.thousands == " " else repr(self.thousands)
        return decimal + (f" and {mark} between thousands" if self.thousands else "")

    def _thousands(self) -> str:
        """Return a regular expression for the separator of thousands."""
        return f"[{SPACES}]" if self.thousands == " " else re.escape(self.thousands)


PLAIN = NumberFormat()
COMMA = NumberFormat(",", ".")
ENGLISH = NumberFormat(".", ",")
SPACED = tuple(NumberFormat(decimal, mark) for mark in (" ", "'") for decimal in (".", ","))
"""Formats in which points and commas are never separators of thousands."""


def number_format(decimal: str | None, thousands: str | None) -> NumberFormat | None:
    """Return the format of the options --decimal and --thousands, or None without any."""
    if decimal is None and thousands is None:
        return None
    if decimal is None:
        decimal = "," if thousands == "." else "."
    if decimal not in (".", ","):
        raise ParameterError(f'--decimal = {decimal!r} must be "." or ","')
    if thousands is None:
        thousands = "." if decimal == "," else ","
    if thousands == decimal or thousands not in (".", ",", " ", "'", "_", ""):
        raise ParameterError(
            f"--thousands = {thousands!r} must differ from the decimal separator {decimal!r} and "
            'be one of "." "," " " "\'" "_", or "" for none'
        )
    return NumberFormat(decimal, thousands)


@dataclass
class NumberReader:
    """Decides for each column how its numbers are written.

    Columns that can be read in two ways are read like the other columns of the file, if these
    agree. Otherwise a note names the options that decide.
    """

    given: NumberFormat | None = None
    """The format of all columns."""
    known: Mapping[str, NumberFormat] = field(default_factory=dict)
    """The formats of the columns of a model, used wherever they fit."""
    formats: dict[str, NumberFormat] = field(default_factory=dict)
    """Result: the formats of columns that are not plain numbers."""
    notes: list[str] = field(default_factory=list)
    """Result: what was decided, in sentences."""

    def needs_text(self, name: str, numbers: Any) -> bool:
        """Tell whether floats may have been texts like 1.101, which is 1101 in some countries."""
        if self.given is not None or name in self.known:
            return (self.given or self.known[name]) != PLAIN
        values = numbers[np.isfinite(numbers)]
        size, thousandths = np.abs(values), 1000 * values
        whole = np.abs(thousandths - np.rint(thousandths)) < 1e-6
        return bool((whole & ((size == 0) | (size >= 1)) & (size < 1000)).all())

    def convert(self, texts: Mapping[str, Any], *, points: bool) -> dict[str, Any]:
        """Return the columns that are not plain numbers, read as numbers.

        `points` is whether other columns of the file certainly have decimal points.
        """
        looked = {name: _numerals(values) for name, values in texts.items()}
        possible = {
            name: self._possible(name, values)
            for name, values in looked.items()
            if values is not None
        }
        decimals = {of[0].decimal for of in possible.values() if len(of) == 1} | (
            {"."} if points else set()
        )
        chosen: dict[str, NumberFormat] = {}
        guessed: set[str] = set()
        for name, formats in possible.items():
            agreeing = [one for one in formats if one.decimal in decimals]
            if (
                len(formats) > 1
                and formats[0] not in SPACED
                and (len(decimals) != 1 or not agreeing)
            ):
                guessed.add(name)
                chosen[name] = self._guess(name, looked[name], formats)
            elif formats:
                chosen[name] = (agreeing or formats)[0]
        self._note({name: one for name, one in chosen.items() if name not in guessed}, looked)
        self.formats.update({name: one for name, one in chosen.items() if one != PLAIN})
        return {
            name: self._read(name, texts[name], looked[name], one)
            for name, one in chosen.items()
            if one != PLAIN
        }

    def _possible(self, name: str, values: Any) -> list[NumberFormat]:
        """Return the formats that fit most values, if they fit enough."""
        fixed = self.given or self.known.get(name)
        if fixed is not None and fixed.fits(values).mean() >= MIN_SHARE:
            return [fixed]
        if self.given is not None:
            return []
        spaced = values.str.contains(rf"\d['{SPACES}]\d").any()
        shares = {
            one: float(one.fits(values).mean())
            for one in (PLAIN, COMMA, ENGLISH, *(SPACED if spaced else ()))
        }
        best = max(shares.values())
        fitting = [one for one, share in shares.items() if share == best >= MIN_SHARE]
        # 3.5 cannot be read with thousands: without groups, both formats agree.
        return [PLAIN] if {PLAIN, ENGLISH} <= {*fitting} and COMMA not in fitting else fitting

    def _guess(self, name: str, values: Any, formats: list[NumberFormat]) -> NumberFormat:
        """Choose a format for a column that can be read in two ways, with a note."""
        marked = values.str.contains(r"[.,]")
        example = values[marked].iloc[0]
        formats = [one for one in formats if one != PLAIN or ENGLISH not in formats]
        whole = values[~marked]
        grouped = len(whole) > 0 and marked.sum() >= MIN_GROUPED and whole.str.len().max() <= 3
        guess = ENGLISH if "," in example or not grouped else COMMA
        guess = guess if guess in formats else formats[0]
        read = [guess, *(one for one in formats if one != guess)]
        results = [one.read(values[marked].iloc[:1]).iloc[0] for one in read]
        options = ", or ".join(
            f"--decimal {one.decimal} --thousands {one.thousands or _other(one.decimal)} for "
            f"{result:g}"
            for one, result in zip(read, results, strict=True)
        )
        self.notes.append(
            f"{name!r} can be read in two ways: {example!r} is taken for {results[0]:g}; set "
            f"{options}"
        )
        return guess

    def _note(self, chosen: dict[str, NumberFormat], looked: Any) -> None:
        for one in dict.fromkeys(chosen.values()):
            names = [name for name in chosen if chosen[name] == one and name not in self.known]
            if one == PLAIN:
                continue
            if self.given is None and names:
                values = looked[names[0]]
                example = values[values.str.contains(_MARKS) & one.fits(values)].iloc[:1]
                self.notes.append(
                    f"{listed(map(repr, names))}: read as numbers with {one.describe()}, for "
                    f"example {example.iloc[0]!r} as {one.read(example).iloc[0]:.10g}"
                )

    def _read(self, name: str, texts: Any, values: Any, one: NumberFormat) -> Any:
        fits = one.fits(values)
        if not fits.all():
            bad = values[~fits]
            self.notes.append(
                f"{name!r}: {len(bad):,} of {len(values):,} values are not numbers with "
                f"{one.describe()} (first {bad.iloc[0][:40]!r}), and count as missing"
            )
        return one.read(values[fits]).astype(np.float64).reindex(texts.index)


def _other(decimal: str) -> str:
    return "." if decimal == "," else ","


def _numerals(values: Any) -> Any:
    """Return the texts that are not missing, or None if they are not numbers with separators."""
    values = values.dropna()
    values = values[~means_missing(values)]
    if not len(values) or values.iloc[:SAMPLE].str.fullmatch(_MAYBE_NUMBER).mean() < 0.8:
        return None
    return values if values.str.contains(rf"\d{_MARKS}\d").any() else None
