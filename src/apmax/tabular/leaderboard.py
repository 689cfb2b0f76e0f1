"""The leaderboard: cross-validated average precision of several models on the same folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from apmax.splits import standard_error
from apmax.validation import Floats

HEADER = ("model", "AP ± SE", "to the best ± SE", "log-loss", "seconds", "")
BEST = "best"


class Standing(NamedTuple):
    """One line of a :class:`Leaderboard`.

    Examples
    --------
    >>> from apmax.tabular import Leaderboard, Standing
    >>> Leaderboard((Standing("logistic", 0.61, 0.02, 0.0, 0.0, 0.21, 0.5, chosen=True),))
    model             AP ± SE  to the best ± SE  log-loss  seconds
    logistic  0.6100 ± 0.0200              best    0.2100      0.5  ←
    """

    model: str
    """Name of the model, as in `models` of :class:`AutoAPClassifier`."""
    ap: float
    """Mean average precision over the held-out folds."""
    ap_se: float
    """Its standard error."""
    difference: float
    """AP minus that of the best model, on the same folds."""
    difference_se: float
    """Standard error of the difference; NaN for a single fold."""
    log_loss: float
    """Of the calibrated, held-out probabilities."""
    seconds: float
    """Time spent on all fits of the model."""
    chosen: bool
    """Whether this model predicts."""

    def cells(self) -> tuple[str, ...]:
        """Return the cells of `HEADER` for this model; an arrow marks the chosen one."""
        differs = self.difference or self.difference_se > 0
        return (
            self.model,
            _with_error(f"{self.ap:.4f}", self.ap_se),
            _with_error(f"{self.difference:+.4f}", self.difference_se) if differs else BEST,
            f"{self.log_loss:.4f}",
            f"{self.seconds:.1f}",
            "←" if self.chosen else "",
        )

    def plain(self) -> dict[str, Any]:
        """Return the fields as plain data; None for NaN."""
        return {
            name: None if isinstance(value, float) and isnan(value) else value
            for name, value in self._asdict().items()
        }


def _with_error(value: str, error: float) -> str:
    return value if isnan(error) else f"{value} ± {error:.4f}"


def ranked(ap: dict[str, Floats], log_loss: dict[str, float]) -> list[str]:
    """Return the models by mean AP, the best first; of equal ones, by log-loss."""
    return sorted(ap, key=lambda name: (-float(ap[name].mean()), log_loss[name]))


@dataclass(frozen=True, repr=False)
class Leaderboard(Sequence[Standing]):
    """Standings of all models, the best first, shown as a table.

    ``pandas.DataFrame(leaderboard)`` makes a data frame of it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from apmax import AutoAPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AutoAPClassifier(["logistic", "boosting-5x100"], cv=3).fit(X[::2], y[::2])
    >>> best = model.leaderboard_[0]
    >>> best.ap > 0.98, best.difference
    (True, 0.0)
    """

    standings: tuple[Standing, ...]
    """The lines, the best first; the leaderboard is a sequence of them."""

    @classmethod
    def of(
        cls,
        ap: dict[str, Floats],
        log_loss: dict[str, float],
        seconds: dict[str, float],
        test_share: float,
        chosen: str,
    ) -> Leaderboard:
        """Rank models by the mean of their AP per fold; `test_share` is that of a fold."""
        names = ranked(ap, log_loss)
        best = ap[names[0]]
        return cls(
            tuple(
                Standing(
                    name,
                    float(ap[name].mean()),
                    float(standard_error(ap[name], test_share)),
                    float((ap[name] - best).mean()),
                    float(standard_error(ap[name] - best, test_share)),
                    log_loss[name],
                    seconds[name],
                    name == chosen,
                )
                for name in names
            )
        )

    def __len__(self) -> int:
        return len(self.standings)

    def __getitem__(self, place: Any) -> Any:
        return self.standings[place]

    def __repr__(self) -> str:
        rows = [HEADER, *(one.cells() for one in self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for name, *cells in rows:
            padded = [f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True)]
            lines.append("  ".join([f"{name:<{widths[0]}}", *padded]).rstrip())
        return "\n".join(lines)


def simplest_within_error(names: Sequence[str], ap: dict[str, Floats], test_share: float) -> str:
    """Return the first of `names` (simplest first) whose AP is within one SE of the best."""
    best = max(names, key=lambda name: float(ap[name].mean()))
    for name in names:
        behind = ap[best] - ap[name]
        error = standard_error(behind, test_share)
        if behind.mean() <= (0.0 if np.isnan(error) else error):
            return name
    return best
