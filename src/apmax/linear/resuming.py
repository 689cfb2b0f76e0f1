"""What of a stochastic fit goes into a checkpoint, and how it comes back."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from apmax.errors import CheckpointError
from apmax.linear.checkpoint import Saved, generator_state, restore_generator
from apmax.linear.history import FitStatus, History
from apmax.linear.stochastic import StochasticRun
from apmax.validation import Floats


class Outcome(NamedTuple):
    """What a solver returns."""

    w: Floats
    iterations: int
    status: FitStatus
    interrupted: bool = False


def saved_fit(run: StochasticRun, history: History, outcome: Outcome | None = None) -> Saved:
    """The run and its history as they are now; with an outcome, at their end."""
    best = np.empty(0) if history.best is None else history.best
    arrays = {**run.arrays(), "history": history.table(), "best": best}
    facts = {
        "rounds": run.rounds,
        "gradient_norm": float(run.gradient_norm),
        "generator": generator_state(run.rng),
        "seconds": history.seconds(),
        "best_ap": float(history.best_ap),
        "rows_since_best": history.rows_since_best,
    }
    if outcome is not None:
        arrays["kept"] = outcome.w
        facts["status"] = [outcome.status.converged, outcome.status.message]
    return Saved(arrays, facts)


def restore_fit(path: Path, saved: Saved, run: StochasticRun, history: History) -> Outcome | None:
    """Put the run and its history where they were; the outcome if that was their end."""
    arrays, facts = saved.arrays, saved.facts
    try:
        for name in ("best", "kept") if facts["finished"] else ("best",):
            if arrays[name].size and arrays[name].shape != run.w.shape:
                raise ValueError(f"{name} has the shape {arrays[name].shape}")
        rounds = int(facts["rounds"])
        run.restore(arrays, rounds=rounds, gradient_norm=float(facts["gradient_norm"]))
        restore_generator(run.rng, facts["generator"])
        history.restore(
            arrays["history"],
            best=arrays["best"] if arrays["best"].size else None,
            best_ap=float(facts["best_ap"]),
            rows_since_best=int(facts["rows_since_best"]),
            seconds=float(facts["seconds"]),
        )
        if not facts["finished"]:
            return None
        converged, message = facts["status"]
        return Outcome(arrays["kept"], rounds, FitStatus(bool(converged), str(message)))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(
            f"{path} holds no usable state ({error}): delete it to start anew"
        ) from None
