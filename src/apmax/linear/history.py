"""The course of a fit: its records, its best point, and when to stop early."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from apmax.linear.base import TrainingSet, logger
from apmax.linear.design import Design
from apmax.metrics import ap_of_scores
from apmax.validation import Floats, Mask

OnProgress = Callable[[str, int, int, float], None]
"""Callback (stage, done, total, AP) for a progress bar."""
SECONDS_PER_LINE = 10.0
"""Least time between two progress lines in the log."""


class EvaluationSet(NamedTuple):
    """Examples whose AP is followed during a fit."""

    design: Design
    positive: Mask
    weight: Floats | None

    @classmethod
    def of(cls, data: TrainingSet, like: Design) -> EvaluationSet:
        """Follow these examples, scaled as `like` scales its own."""
        return cls(like.of(data.X), data.positive, data.weight)

    def average_precision(self, w: Floats, margins: Floats | None = None) -> float:
        """Return the AP of w; `margins` saves the product if they are known."""
        if margins is None:
            margins = self.design.margins(w)
        return ap_of_scores(self.positive, margins, self.weight)


class ProgressLog:
    """Log a line at most every `SECONDS_PER_LINE` seconds."""

    def __init__(self) -> None:
        self.next_line = time.monotonic() + SECONDS_PER_LINE

    def report(self, stage: str, done: int, of: int, ap: float) -> None:
        """Log if it is time."""
        if time.monotonic() >= self.next_line:
            self.next_line = time.monotonic() + SECONDS_PER_LINE
            reached = "" if np.isnan(ap) else f", AP {ap:.4f}"
            logger.info("%s: %d of %d%s", stage, done, of, reached)


class HistoryRow(NamedTuple):
    """One record: an iteration of L-BFGS, or the state after some stochastic rounds."""

    step: int
    seconds: float
    surrogate_ap: float
    train_ap: float
    validation_ap: float
    gradient_norm: float


@dataclass
class History:
    """The records of one fit."""

    train: EvaluationSet
    validation: EvaluationSet | None = None
    patience: int | None = None
    """Records without a better validation AP after which to stop; None never stops."""
    on_progress: OnProgress | None = None
    steps: int = 0
    """Largest number of steps."""
    rows: list[HistoryRow] = field(default_factory=list)
    best: Floats | None = None
    best_ap: float = -np.inf
    rows_since_best: int = 0
    start: float = field(default_factory=time.perf_counter)
    log: ProgressLog = field(default_factory=ProgressLog)

    def record(
        self,
        step: int,
        w: Floats,
        surrogate_ap: float,
        gradient_norm: float,
        margins: Floats | None = None,
    ) -> bool:
        """Add a row; return whether validation AP has not risen for too long.

        `margins` are those of w on the training data, if they are known.
        """
        train = self.train.average_precision(w, margins)
        held_out = np.nan if self.validation is None else self.validation.average_precision(w)
        seconds = time.perf_counter() - self.start
        self.rows.append(HistoryRow(step, seconds, surrogate_ap, train, held_out, gradient_norm))
        judged_by = train if self.validation is None else held_out
        if judged_by > self.best_ap:
            self.best, self.best_ap, self.rows_since_best = w.copy(), judged_by, 0
        else:
            self.rows_since_best += 1
        self.progress(step)
        return self.patience is not None and self.rows_since_best >= self.patience

    def progress(self, step: int) -> None:
        """Report progress, also between two rows."""
        self.log.report("training", step, self.steps, self.best_ap)
        if self.on_progress is not None:
            self.on_progress("training", step, self.steps, self.best_ap)

    def columns(self) -> dict[str, Any]:
        """Return the rows as one array per column."""
        table = np.array(self.rows, dtype=np.float64).reshape(-1, len(HistoryRow._fields))
        return dict(zip(HistoryRow._fields, table.T, strict=True))
