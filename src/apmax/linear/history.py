"""What a fit did: its path, its best point, and when it was time to stop."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from apmax.linear.base import TrainingSet
from apmax.linear.design import Design
from apmax.metrics import average_precision
from apmax.validation import Floats, Mask


@dataclass(frozen=True)
class FitStatus:
    """Whether a fit ended where it should, and a sentence that says so."""

    converged: bool
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass
class Watched:
    """Examples whose AP is followed during a fit."""

    design: Design
    positive: Mask
    weight: Floats | None

    def average_precision(self, w: Floats, margins: Floats | None = None) -> float:
        """AP of the margins of w, which may be given where they are known."""
        if margins is None:
            margins = self.design.margins(w)
        return average_precision(self.positive, margins, sample_weight=self.weight)


def watch(data: TrainingSet, like: Design) -> Watched:
    """Follow the AP of these examples, read as the design reads its own."""
    return Watched(like.of(data.X), data.positive, data.weight)


class OnProgress(Protocol):
    """Who wants to know how far a fit is, for a bar of their own."""

    def __call__(self, stage: str, done: int, of: int, ap: float) -> None:
        """`ap` is the best so far, on training, held-out or cross-validated data."""
        ...


COLUMNS = ("step", "seconds", "surrogate_ap", "train_ap", "validation_ap", "gradient_norm")
SURROGATE, TRAIN_AP, VALIDATION_AP = map(
    COLUMNS.index, ("surrogate_ap", "train_ap", "validation_ap")
)


@dataclass
class History:
    """Rows of `COLUMNS`, one per iteration of L-BFGS or after some stochastic rounds."""

    train: Watched
    validation: Watched | None
    patience: int | None
    """Rows without a better validation AP after which to stop; None never stops."""
    verbose: bool
    on_progress: OnProgress | None = None
    steps: int = 0
    """How many there will be at most."""
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    best: Floats | None = None
    best_ap: float = -np.inf
    rows_since_best: int = 0
    start: float = field(default_factory=time.perf_counter)

    def record(
        self,
        step: int,
        w: Floats,
        surrogate: float,
        gradient_norm: float,
        margins: Floats | None = None,
    ) -> bool:
        """Add a row; True if validation AP has not risen for too long.

        `margins` are those of w on the training data, where they are known.
        """
        train = self.train.average_precision(w, margins)
        held_out = np.nan if self.validation is None else self.validation.average_precision(w)
        self.rows.append((step, self.seconds(), surrogate, train, held_out, gradient_norm))
        self._show(step, surrogate, train, held_out)
        judged_by = train if self.validation is None else held_out
        if judged_by > self.best_ap:
            self.best, self.best_ap, self.rows_since_best = w.copy(), judged_by, 0
        else:
            self.rows_since_best += 1
        self.progress(step)
        return self.patience is not None and self.rows_since_best >= self.patience

    def progress(self, step: int) -> None:
        """Say how far the fit is, also between two rows."""
        if self.verbose and self.rows[-1][0] != step:
            show_line(f"step {step} of {self.steps}  AP so far {self.best_ap:.4f}")
        if self.on_progress is not None:
            self.on_progress("training", step, self.steps, self.best_ap)

    def columns(self) -> dict[str, Floats]:
        """The rows as one array per column."""
        return dict(zip(COLUMNS, self.table().T, strict=True))

    def table(self) -> Floats:
        """The rows as one array."""
        return np.array(self.rows, dtype=np.float64).reshape(-1, len(COLUMNS))

    def seconds(self) -> float:
        """Since the fit began, without the time between a kill and a new start."""
        return time.perf_counter() - self.start

    def restore(
        self,
        table: Floats,
        *,
        best: Floats | None,
        best_ap: float,
        rows_since_best: int,
        seconds: float,
    ) -> None:
        """Go back to where an earlier run of the same fit was."""
        if table.ndim != 2 or table.shape[1] != len(COLUMNS) or not len(table):
            raise ValueError(f"its history has the shape {table.shape}")
        self.rows = [(int(step), *rest) for step, *rest in table.tolist()]
        self.best, self.best_ap, self.rows_since_best = best, best_ap, rows_since_best
        self.start = time.perf_counter() - seconds

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self.verbose:
            end_line()

    def _show(self, step: int, surrogate: float, train: float, held_out: float) -> None:
        if self.verbose:
            line = f"step {step}  surrogate AP {surrogate:.4f}  train AP {train:.4f}"
            show_line(line + ("" if np.isnan(held_out) else f"  validation AP {held_out:.4f}"))


def show_line(text: str) -> None:
    """Show progress in place of the last line; nothing in a pipe."""
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)


def end_line() -> None:
    """Leave the line of progress where it is, and the terminal at the next."""
    if sys.stderr.isatty():
        print(file=sys.stderr)
