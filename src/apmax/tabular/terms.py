"""Basis functions of an additive model: the matrix to fit, and effects from its coefficients."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from apmax.binary_target import BinaryTarget
from apmax.tabular.columns import MIN_FREQUENCY, Columns, Table
from apmax.tabular.effects import CategoryEffect, Effect, Margin, NumberEffect, PairEffect
from apmax.tabular.spline import DEGREE, KNOTS, SplineBasis
from apmax.validation import Floats, shares

MAX_FUNCTIONS = KNOTS + DEGREE
"""Largest number of basis functions of a number: KNOTS + DEGREE − 1 splines, and a linear one."""
MAX_WIDTH, MAX_ENTRIES = 5000, 1 << 29
"""Largest number of columns, and of entries, of a matrix with splines."""
PAIR_SCALE = 0.8
"""Scale of the products of a pair; below 1, so that a ridge penalty shrinks them more."""
DOUBLE_ENTRIES = 1 << 25
"""Largest matrix that is kept in double precision."""
BLOCK = 1 << 16
"""Rows that are expanded at a time, which bounds the memory beyond the matrix itself."""


class Term(Protocol):
    """Some columns of the matrix that belong to one effect."""

    @property
    def width(self) -> int:
        """Return the number of columns."""

    @property
    def axes(self) -> tuple[Margin, ...]:
        """Return the grids, of one or two columns, between whose points the columns are linear."""

    def __call__(self, table: Table) -> Floats:
        """Return the columns, shape (n, width)."""

    def effect(self, w: Floats) -> tuple[Effect, float]:
        """Return the effect of these coefficients, centred, and what it adds to the intercept."""


@dataclass(frozen=True, eq=False)
class NumberTerm:
    """Splines of a numeric column, and an indicator of missing values if there are enough."""

    name: str
    column: int
    basis: SplineBasis | None
    """None if the values that are present are all equal."""
    value: float
    """A value that is present."""
    missing_share: float
    """Share of missing values; 0 if they are too few for an indicator."""
    density: Floats

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return (0 if self.basis is None else self.basis.table.shape[1]) + (self.missing_share > 0)

    @property
    def axes(self) -> tuple[Margin, ...]:
        """Return the grid between whose points the columns are linear."""
        grid = np.array([self.value]) if self.basis is None else self.basis.grid
        return (Margin(self.name, self.column, grid, []),)

    def __call__(self, table: Table) -> Floats:
        """Return the columns, shape (n, width)."""
        x = table.numbers[:, self.column]
        parts = [] if self.basis is None else [self.basis(x)]
        if self.missing_share > 0:
            parts.append(np.isnan(x)[:, None])
        return np.hstack(parts) if parts else np.empty((x.size, 0))

    def effect(self, w: Floats) -> tuple[NumberEffect, float]:
        """Return the effect of these coefficients, centred, and what it adds to the intercept."""
        missing = float(w[-1]) if self.missing_share > 0 else 0.0
        mean = self.missing_share * missing
        grid, along = np.array([self.value]), np.array([-mean])
        if self.basis is not None:
            grid = self.basis.grid
            along = self.basis.table @ w[: self.basis.table.shape[1]] - mean
        found = NumberEffect(self.name, self.column, grid, along, missing - mean, self.density)
        return found, mean


@dataclass(frozen=True, eq=False)
class CategoryTerm:
    """Indicators of the categories of a column."""

    name: str
    column: int
    levels: list[str]
    density: Floats

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return len(self.levels)

    @property
    def axes(self) -> tuple[Margin, ...]:
        """Return the categories."""
        return (Margin(self.name, self.column, None, self.levels),)

    def __call__(self, table: Table) -> Floats:
        """Return the columns, shape (n, width)."""
        codes = table.codes[:, self.column]
        return np.asarray(codes[:, None] == np.arange(self.width), dtype=np.float64)

    def effect(self, w: Floats) -> tuple[CategoryEffect, float]:
        """Return the effect of these coefficients, centred, and what it adds to the intercept."""
        mean = float(self.density @ w)
        return CategoryEffect(self.name, self.column, self.levels, w - mean, self.density), mean


@dataclass(frozen=True, eq=False)
class PairTerm:
    """Products of the functions of two columns."""

    first: Margin
    second: Margin
    density: Floats
    """Mean of each product over the training data, shape (first.size, second.size)."""

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.first.size * self.second.size

    @property
    def axes(self) -> tuple[Margin, ...]:
        """Return the functions of both columns, between whose knots the products are bilinear."""
        return self.first, self.second

    def __call__(self, table: Table) -> Floats:
        """Return the columns, shape (n, width)."""
        products = self.first(table)[:, :, None] * self.second(table)[:, None, :]
        return PAIR_SCALE * products.reshape(products.shape[0], -1)

    def effect(self, w: Floats) -> tuple[PairEffect, float]:
        """Return the effect of these coefficients, centred, and what it adds to the intercept."""
        effect = PAIR_SCALE * w.reshape(self.first.size, -1)
        mean = float(np.vdot(self.density, effect))
        return PairEffect(self.first, self.second, effect - mean, -mean, self.density), mean


def main_terms(columns: Columns, table: Table, target: BinaryTarget) -> list[Term]:
    """Return a term for each column, in the order of the table.

    If splines of all numeric columns would make too large a matrix, there are none, with a warning.
    """
    n, width = table.numbers.shape[0], len(columns.numeric) * MAX_FUNCTIONS
    linear = width > MAX_WIDTH or n * width > MAX_ENTRIES
    if linear:
        warnings.warn(
            f"splines of {len(columns.numeric)} numeric columns and {n} rows would take too much "
            "memory and time: each column has a linear function of its normal scores instead; "
            "select fewer columns for smooth functions",
            UserWarning,
            stacklevel=4,  # the caller of `fit`
        )
    terms: dict[int, Term] = {}
    for column, place in enumerate(columns.numeric):
        x = table.numbers[:, column]
        terms[place] = _number_term(columns.names[place], column, x, target, linear=linear)
    share = shares(target.weight, n)
    for column, place in enumerate(columns.categorical):
        levels = columns.levels(column)
        density = np.bincount(table.codes[:, column], weights=share, minlength=len(levels))
        terms[place] = CategoryTerm(
            columns.names[place], column, levels, np.asarray(density, float)
        )
    return [terms[place] for place in sorted(terms)]


def _number_term(
    name: str, column: int, x: Floats, target: BinaryTarget, *, linear: bool
) -> NumberTerm:
    weight, share = target.weight, shares(target.weight, x.size)
    missing = np.isnan(x)
    present = ~missing
    basis = SplineBasis.fit(x[present], None if weight is None else weight[present], linear=linear)
    missing_share = float(share[missing].sum())
    enough = missing_share * target.total >= MIN_FREQUENCY * (1 - 1e-9) and present.any()
    density = np.array([1.0 - missing_share])
    if basis is not None:
        between = (basis.grid[1:] + basis.grid[:-1]) / 2
        nearest = np.searchsorted(between, x[present])
        count = basis.grid.size
        density = np.asarray(np.bincount(nearest, weights=share[present], minlength=count), float)
    value = float(x[present][0]) if present.any() else 0.0
    share_of_missing = missing_share if enough else 0.0
    return NumberTerm(name, column, basis, value, share_of_missing, density)


def matrix(terms: Sequence[Term], table: Table) -> Any:
    """Return the columns of all terms side by side; a large matrix is in single precision."""
    n, width = table.numbers.shape[0], sum(term.width for term in terms)
    out = np.empty((n, width), np.float64 if n * width <= DOUBLE_ENTRIES else np.float32)
    for start in range(0, n, BLOCK):
        rows = slice(start, start + BLOCK)
        for term, columns in _places(terms):
            out[rows, columns] = term(table.rows(rows))
    return out


def effects(
    terms: Sequence[Term], coefficients: Floats, intercept: float
) -> tuple[list[Effect], float]:
    """Return the effects of the coefficients of :func:`matrix`, and the intercept."""
    found = []
    for term, columns in _places(terms):
        effect, mean = term.effect(coefficients[columns])
        found.append(effect)
        intercept += mean
    return found, intercept


def _places(terms: Sequence[Term]) -> Iterator[tuple[Term, slice]]:
    start = 0
    for term in terms:
        yield term, slice(start, start + term.width)
        start += term.width
