"""How APClassifier is fitted: L-BFGS on the exact objective, or rounds of a method."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from apmax.linear.base import TrainingSet
from apmax.linear.checkpoint import Checkpoint
from apmax.linear.design import Design
from apmax.linear.full_batch import ap_objective, minimise, relative_penalty
from apmax.linear.history import SURROGATE, TRAIN_AP, VALIDATION_AP, FitStatus, History
from apmax.linear.resuming import Outcome, restore_fit, saved_fit
from apmax.linear.settings import FADING, Settings
from apmax.linear.stochastic import StochasticRun
from apmax.methods import METHODS, SCHEDULES
from apmax.objective.exact import surrogate_ap
from apmax.validation import Floats

ROUNDS_PER_CHUNK = 500
"""Rounds between two looks at the clock and at Ctrl-C."""
PASSES_PER_RECORD = 3
"""Over the data, between two records of the history, each of which takes less than one."""
MUCH_WORSE = 0.9
"""Of the AP of a warm start or an anchor; within that, it is the noise of the rounds."""
LARGEST_WEIGHT = 1e100
"""On scaled features; beyond it a run has diverged."""


class Fit(NamedTuple):
    """What a solver is given."""

    model: Any
    settings: Settings
    design: Design
    train: TrainingSet
    anchor: Floats
    start: Floats
    history: History
    rng: np.random.Generator
    checkpoint: Checkpoint | None = None


def _penalty(settings: Settings, anchor: Floats) -> float:
    return relative_penalty(settings.alpha, anchor) if settings.anchored else settings.alpha


def run_full_batch(fit: Fit) -> Outcome:
    """L-BFGS on the exact objective."""
    model, settings, design, train, anchor, start, history, *_ = fit
    penalty = _penalty(settings, anchor)
    objective = ap_objective(
        design,
        train.positive,
        train.weight,
        surrogate=settings.surrogate,
        gamma=settings.gamma,
        penalty=penalty,
        anchor=anchor,
    )

    value, gradient = objective(start)
    away = start[:-1] - anchor[:-1]
    norm = float(np.linalg.norm(gradient))
    history.record(0, start, -value + penalty * float(away @ away), norm)

    def each_iteration(w: Floats, value: float, gradient: Floats) -> None:
        away = w[:-1] - anchor[:-1]
        surrogate = -value + penalty * float(away @ away)
        step = len(history.rows)
        if history.record(step, w, surrogate, float(np.linalg.norm(gradient))):
            raise StopIteration

    found = minimise(
        objective, start, max_iter=settings.max_iter, tol=model.tol, each_iteration=each_iteration
    )
    message = found.message
    if found.message.startswith("stopped at max_iter"):
        message += ": raise max_iter, tol or alpha"
    return Outcome(found.w, found.iterations, FitStatus(found.converged, message))


def run_stochastic(fit: Fit) -> Outcome:
    """Rounds of a method in chunks, with a record after some of them."""
    model, settings, design, train, anchor, start, history, rng, checkpoint = fit
    fades = settings.schedule == FADING
    method = replace(METHODS[settings.solver], schedule=SCHEDULES["constant" if fades else settings.schedule])
    positives, negatives = batch_of(model, train)
    run = StochasticRun(
        method,
        design,
        train.positive,
        start,
        weight=train.weight,
        surrogate=settings.surrogate,
        gamma=settings.gamma,
        penalty=_penalty(settings, anchor),
        anchor=anchor,
        fit_intercept=model.fit_intercept,
        learning_rate=settings.learning_rate,
        beta0=model.beta0,
        beta1=model.beta1,
        beta2=model.beta2,
        delta=model.delta,
        positives_per_batch=positives,
        negatives_per_batch=negatives,
        sampling=model.sampling,
        rng=rng,
        fade_over=settings.max_iter if fades else None,
    )
    if checkpoint is not None and checkpoint.saved is not None:
        ended = restore_fit(checkpoint.path, checkpoint.saved, run, history)
        if ended is not None:
            return ended
    else:
        _record(run, fit)
    outcome = _rounds(run, fit)
    if checkpoint is not None and not outcome.interrupted:
        checkpoint.write(saved_fit(run, history, outcome), finished=True)
    return outcome


def _rounds(run: StochasticRun, fit: Fit) -> Outcome:
    """The rounds that are left."""
    settings, history, checkpoint = fit.settings, fit.history, fit.checkpoint
    status = FitStatus(True, f"did all {settings.max_iter} rounds")
    each = _rounds_per_record(run, fit)
    kept = run.w.copy()
    try:
        while run.rounds < settings.max_iter:
            run.advance(min(ROUNDS_PER_CHUNK, settings.max_iter - run.rounds))
            if not np.abs(run.w).max() < LARGEST_WEIGHT:  # also if it is NaN
                return Outcome(kept, run.rounds, _diverged(run.rounds, settings))
            kept = run.w.copy()
            if run.rounds % each and run.rounds < settings.max_iter:
                history.progress(run.rounds)
            elif _record(run, fit):
                status = FitStatus(True, "stopped early: validation AP did not rise any more")
                break
            if checkpoint is not None and checkpoint.due:
                checkpoint.write(saved_fit(run, history))
        else:
            if _is_worse(run, fit):
                status = _diverged(run.rounds, settings)
    except KeyboardInterrupt:
        status = FitStatus(False, "interrupted: kept the last rounds")
        return Outcome(kept, run.rounds, status, interrupted=True)
    return Outcome(kept, run.rounds, status)


def _is_worse(run: StochasticRun, fit: Fit) -> bool:
    """Whether a run from 0 is no better than 0, or one from a fit much worse than that.

    Where held-out data choose the point that is kept, it is that one that counts.
    """
    first, last = fit.history.rows[0], fit.history.rows[-1]
    held_out = fit.history.validation is not None
    if fit.start.any():
        return bool(not held_out and last[TRAIN_AP] < MUCH_WORSE * first[TRAIN_AP])
    if held_out:
        return bool(run.w[:-1].any() and fit.history.best_ap <= first[VALIDATION_AP])
    return bool(run.w[:-1].any() and last[SURROGATE] <= first[SURROGATE])


def _rounds_per_record(run: StochasticRun, fit: Fit) -> int:
    """Whole chunks: one if held-out data are to choose among the records, or else some passes."""
    if fit.history.validation is not None:
        return ROUNDS_PER_CHUNK
    passes = PASSES_PER_RECORD * fit.train.positive.size / sum(run.batch)
    return ROUNDS_PER_CHUNK * max(1, math.ceil(passes / ROUNDS_PER_CHUNK))


def _record(run: StochasticRun, fit: Fit) -> bool:
    """Add where the run is to the history; True if it is time to stop."""
    margins = fit.design.margins(run.w)
    positive, weight = fit.train.positive, fit.train.weight
    if run.w.any():
        value = surrogate_ap(
            expit(margins),
            positive,
            surrogate=fit.settings.surrogate,
            gamma=fit.settings.gamma,
            sample_weight=weight,
        ).value
    else:  # all pairs are alike: every precision is the share of positives
        value = float(np.average(positive, weights=weight))
    return fit.history.record(run.rounds, run.w.copy(), value, float(run.gradient_norm), margins)


def _diverged(rounds: int, settings: Settings) -> FitStatus:
    message = (
        f"diverged: after {rounds} rounds it is no better than at the start; lower "
        f"learning_rate (now {settings.learning_rate:g})"
    )
    return FitStatus(False, message)


def batch_of(model: Any, train: TrainingSet) -> tuple[int, int]:
    """Positives and negatives per batch, no more than there are of each."""
    available = int(train.positive.sum()), int((~train.positive).sum())
    wanted = min(max(2, round(model.batch_size * model.positive_rate)), model.batch_size - 1)
    return min(wanted, available[0]), min(model.batch_size - wanted, available[1])
