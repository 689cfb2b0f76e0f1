"""Models side by side over the folds of repeated cross-validation, and what may be concluded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from apmax.app.report.wording import signed
from apmax.errors import EmptyInputError, ParameterError, ShapeError
from apmax.validation import Floats, check_real, check_scores


@dataclass(frozen=True, eq=False)
class FoldScores:
    """AP of one model on every fold, in the order of the folds."""

    model: str
    ap: Floats

    def __post_init__(self) -> None:
        ap = check_scores(self.ap, name="ap")
        for value in (ap.min(), ap.max()):
            check_real(value, "ap", at_least=0, at_most=1, why="it is an average precision")
        object.__setattr__(self, "ap", ap)

    @property
    def mean(self) -> float:
        """The mean over folds."""
        return float(self.ap.mean())

    @property
    def std(self) -> float:
        """The standard deviation over folds; NaN for a single one."""
        return float(self.ap.std(ddof=1)) if self.ap.size > 1 else float("nan")


@dataclass(frozen=True)
class Difference:
    """A model against the baseline, fold by fold."""

    model: str
    baseline: str
    mean: float
    standard_error: float
    """NaN for a single fold."""
    wins: int
    losses: int
    folds: int

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the mean difference, by Student's t."""
        half = float(stdtrit(max(self.folds - 1, 1), 0.975)) * self.standard_error
        return self.mean - half, self.mean + half

    def sentence(self) -> str:
        """What the folds allow to say, and no more."""
        new, old = self.model, self.baseline
        if self.wins == self.losses == 0:
            return f"{new} and {old} have the same AP in every fold."
        size = f"{abs(self.mean):.3f} AP"
        if self.folds == 1:
            higher = "higher" if self.mean > 0 else "lower"
            return (
                f"{new} is {size} {higher} than {old} on a single fold, which says nothing about "
                "another: repeat it on more."
            )
        low, high = self.interval
        evidence = (
            f"on average (95 % interval {signed(low)} to {signed(high)}); it wins {self.wins} and "
            f"loses {self.losses} of {self.folds} folds."
        )
        if low > 0:
            return f"{new} is better than {old} by {size} {evidence}"
        if high < 0:
            return f"{new} is worse than {old} by {size} {evidence} On this data, use {old}."
        return (
            f"No difference between {new} and {old} can be shown: {signed(self.mean)} AP "
            f"{evidence} On this data there is no reason to prefer {new}."
        )


@dataclass(frozen=True, eq=False)
class Comparison:
    """AP per fold of two or more models; the first is the baseline.

    Parameters
    ----------
    rows : one per model, all over the same folds in the same order.
    test_fraction : the share of the data that a fold tests, 0.2 for five folds. Folds share
        their training data, so that the plain standard error of their mean is too small. With
        this share known it is corrected as Nadeau and Bengio (2003) propose:
        (1/J + test/train) s² in place of s²/J, for J folds.

    Examples
    --------
    >>> from apmax.app.report import Comparison, FoldScores
    >>> rows = [FoldScores("old", [0.5, 0.6, 0.4]), FoldScores("new", [0.6, 0.7, 0.5])]
    >>> round(Comparison(rows).differences()[0].mean, 3)
    0.1
    """

    rows: Sequence[FoldScores]
    test_fraction: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        if not self.rows:
            raise EmptyInputError("`rows` is empty: pass one FoldScores per model")
        first = self.rows[0]
        for row in self.rows:
            if row.ap.size != first.ap.size:
                raise ShapeError(
                    f"`rows` differ in folds: {first.model!r} has {first.ap.size} and "
                    f"{row.model!r} has {row.ap.size}; differences are taken fold by fold, so "
                    "run every model on the same ones"
                )
        if self.test_fraction is not None:
            why = "it is the part of the data that each fold tests, 0.2 for five folds"
            check_real(self.test_fraction, "test_fraction", above=0, at_most=0.999, why=why)
        names = [row.model for row in self.rows]
        if len(set(names)) < len(names):
            raise ParameterError(
                f"`rows` names a model twice among {names}: give each row its own name"
            )

    @property
    def folds(self) -> int:
        """How many folds every row has."""
        return int(self.rows[0].ap.size)

    def differences(self) -> list[Difference]:
        """Every other row against the first."""
        baseline = self.rows[0]
        return [self._difference(row, baseline) for row in self.rows[1:]]

    def _difference(self, row: FoldScores, baseline: FoldScores) -> Difference:
        gains = row.ap - baseline.ap
        # Folds that are equal to the last digits were not won by anybody.
        gains = np.where(np.abs(gains) < 1e-12, 0.0, gains)
        share = self.test_fraction
        overlap = 0.0 if share is None else share / (1 - share)
        error = float("nan")
        if self.folds > 1:
            error = float(gains.std(ddof=1) * np.sqrt(1 / self.folds + overlap))
        return Difference(
            model=row.model,
            baseline=baseline.model,
            mean=float(gains.mean()),
            standard_error=error,
            wins=int((gains > 0).sum()),
            losses=int((gains < 0).sum()),
            folds=self.folds,
        )
