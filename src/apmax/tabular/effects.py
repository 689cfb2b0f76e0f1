"""The fitted terms of an additive model: contributions to the log-odds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from apmax.tabular.columns import PAIR, Table
from apmax.tabular.spline import Interpolation
from apmax.validation import Floats


@dataclass(frozen=True, eq=False)
class NumberEffect:
    """A function of one number: linear between the grid points, constant outside.

    An entry of `shape_functions_` of :class:`AdditiveAPClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from apmax import AdditiveAPClassifier
    >>> X, y = load_breast_cancer(as_frame=True, return_X_y=True)
    >>> model = AdditiveAPClassifier(cv=2).fit(X[["mean area"]], y)
    >>> effect = model.shape_functions_["mean area"]
    >>> bool(effect.effect[0] > effect.effect[-1])  # small areas are of class 1
    True
    """

    name: str
    """Name of the column."""
    column: int
    """Position among the numeric columns."""
    grid: Floats
    """Grid points, ascending."""
    effect: Floats
    """Contribution to the log-odds at each grid point."""
    missing: float
    """Contribution of a missing value."""
    density: Floats
    """Share of the training weight nearest to each grid point; the rest is missing."""

    @property
    def importance(self) -> float:
        """Return the standard deviation of the contribution over the training data."""
        missing_share = max(0.0, 1.0 - float(self.density.sum()))
        return float(
            np.sqrt(self.density @ np.square(self.effect) + missing_share * self.missing**2)
        )

    def __call__(self, table: Table) -> Floats:
        """Return the contribution to each row."""
        x = table.numbers[:, self.column]
        if self.grid.size == 1:
            return np.where(np.isnan(x), self.missing, self.effect)
        # Not np.interp: its slopes overflow where grid points are subnormal distances apart.
        along = Interpolation.of(x, self.grid)(self.effect[:, None])[:, 0]
        return np.where(np.isnan(x), self.missing, along)


@dataclass(frozen=True, eq=False)
class CategoryEffect:
    """A contribution per category; new categories contribute 0 unless there is "(other)".

    An entry of `shape_functions_` of :class:`AdditiveAPClassifier`.

    Examples
    --------
    >>> import pandas as pd
    >>> from apmax import AdditiveAPClassifier
    >>> X = pd.DataFrame({"city": ["Oslo", "Rome", "Rome", "Rome"] * 50})
    >>> model = AdditiveAPClassifier(cv=2).fit(X, [1, 0, 0, 1, 0, 0, 0, 0] * 25)
    >>> effect = model.shape_functions_["city"]
    >>> effect.levels, bool(effect.effect[0] > effect.effect[1])
    (['Oslo', 'Rome'], True)
    """

    name: str
    """Name of the column."""
    column: int
    """Position among the categorical columns."""
    levels: list[str]
    """Names of the categories."""
    effect: Floats
    """Contribution to the log-odds of each category."""
    density: Floats
    """Share of the training weight of each category."""

    @property
    def importance(self) -> float:
        """Return the standard deviation of the contribution over the training data."""
        return float(np.sqrt(self.density @ np.square(self.effect)))

    def __call__(self, table: Table) -> Floats:
        """Return the contribution to each row."""
        codes = table.codes[:, self.column]
        known = np.append(self.effect, 0.0)  # UNKNOWN is -1, the last entry
        return np.asarray(known[codes])


@dataclass(frozen=True, eq=False)
class Margin:
    """One side of a pair: hat functions at values of a number, or indicators of categories."""

    name: str
    column: int
    knots: Floats | None
    """Values of a number; None for a category."""
    levels: list[str]
    """Names of the categories with an indicator."""

    @property
    def size(self) -> int:
        """Return the number of functions."""
        return len(self.levels) if self.knots is None else int(self.knots.size)

    def __call__(self, table: Table) -> Floats:
        """Return the functions at each row, shape (n, size); 0 for missing values."""
        if self.knots is None:
            codes = table.codes[:, self.column]
            return np.asarray(codes[:, None] == np.arange(self.size), dtype=np.float64)
        x = table.numbers[:, self.column]
        present = ~np.isnan(x)
        out = np.zeros((x.size, self.size))
        out[present] = Interpolation.of(x[present], self.knots)(np.eye(self.size))
        return out


@dataclass(frozen=True, eq=False)
class PairEffect:
    """A function of two columns: bilinear between the knots of numbers.

    An entry of `shape_functions_` of :class:`AdditiveAPClassifier` with ``interactions`` above 0.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from apmax import AdditiveAPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({name: rng.choice(["low", "high"], 400) for name in ("x", "y")})
    >>> y = (X["x"] == X["y"]) & (rng.random(400) < 0.5)
    >>> model = AdditiveAPClassifier(interactions=1, cv=2).fit(X, y)
    >>> *_, pair = model.shape_functions_.values()
    >>> sorted([pair.first.name, pair.second.name]), pair.effect.shape
    (['x', 'y'], (2, 2))
    """

    first: Margin
    """The first column: its name, and its values or categories."""
    second: Margin
    """The second column, likewise."""
    effect: Floats
    """Contribution at each pair of knots or categories, shape (first.size, second.size)."""
    missing: float
    """Contribution of a row with a missing value or a new category in one of the columns."""
    density: Floats
    """Share of the training weight near each pair, same shape."""

    @property
    def importance(self) -> float:
        """Return an upper bound of the standard deviation over the training data.

        It is exact if both columns are categories, or have no values between the knots.
        """
        missing_share = max(0.0, 1.0 - float(self.density.sum()))
        return float(
            np.sqrt(np.vdot(self.density, np.square(self.effect)) + missing_share * self.missing**2)
        )

    @property
    def name(self) -> str:
        """Return the names of both columns."""
        return f"{self.first.name}{PAIR}{self.second.name}"

    def __call__(self, table: Table) -> Floats:
        """Return the contribution to each row."""
        # The functions of a column sum to 1, or are all 0 where it is missing.
        beyond_missing = self.first(table) @ (self.effect - self.missing)
        return np.asarray(self.missing + np.sum(beyond_missing * self.second(table), axis=1))


Effect = NumberEffect | CategoryEffect | PairEffect


def scaled(effect: Effect, factor: float) -> Effect:
    """Return an effect times a factor."""
    if isinstance(effect, CategoryEffect):
        return replace(effect, effect=factor * effect.effect)
    return replace(effect, effect=factor * effect.effect, missing=factor * effect.missing)
