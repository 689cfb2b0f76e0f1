"""The parameters of APClassifier: what None means for each solver, and what is refused."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from apmax.errors import ParameterError
from apmax.linear.stochastic import SAMPLING
from apmax.methods import METHODS, SCHEDULES, check_beta
from apmax.objective.surrogates import Surrogate, default_gamma, resolve
from apmax.registry import Registry
from apmax.validation import check_count, check_gamma, check_real, check_switch

FULL_BATCH = "lbfgs"
FADING = "linear"
"""The schedule under which η falls evenly to nothing over the rounds, and the betas stay."""
STOCHASTIC_GAMMA = {"logistic": 40.0}
"""Where it is not the default: measured, see docs/linear.md."""
ADAPTIVE_RATES = (0.02, 0.1)
RATES = {"plain": (0.4, 5.0), "momentum": (0.4, 5.0), "adagrad": (0.02, 0.05)}
"""η of a direction that is not as Adam's: where it stays or fades, and where it falls as 1/√t."""


class Settings(NamedTuple):
    """The parameters of one fit, all decided."""

    solver: str
    surrogate: Surrogate
    gamma: float
    alpha: float
    anchored: bool
    max_iter: int
    learning_rate: float
    schedule: str


def defaults_of(
    solver: str, surrogate: str | Surrogate | None, anchor: str | None, schedule: str | None
) -> Settings:
    """What None means for a solver: measured on real data, and so not always the paper's.

    The penalty is relative to the anchor, or else plain λ‖w‖²: their alphas differ.
    """
    full_batch = solver == FULL_BATCH
    anchored = full_batch if anchor == "auto" else anchor == "logistic"
    alpha = 1.0 if anchored else 1e-5
    chosen = resolve(surrogate or "logistic")
    gamma = default_gamma(chosen)
    if full_batch:
        return Settings(solver, chosen, gamma, alpha, anchored, 200, 1.0, "constant")
    method = METHODS[solver]
    gamma = STOCHASTIC_GAMMA.get(chosen.name, gamma)
    schedule = schedule or (FADING if method.schedule.name == "constant" else method.schedule.name)
    rates = RATES.get(method.direction.name, ADAPTIVE_RATES)
    rate = rates[1 if schedule == "inverse_sqrt" else 0]
    return Settings(solver, chosen, gamma, alpha, anchored, 4000, rate, schedule)


def settings_of(model: Any) -> Settings:
    """Every parameter checked, None and "auto" resolved; no state has changed yet."""
    solver = FULL_BATCH if model.solver == "auto" else model.solver
    known: Registry[Any] = Registry("solver", {FULL_BATCH: None, "auto": None, **METHODS})
    known.choose(solver)
    if model.anchor is not None:
        Registry("anchor", {"auto": 0, "logistic": 0}).choose(model.anchor)
    if model.schedule is not None:
        Registry("schedule", {**SCHEDULES, FADING: None}).choose(model.schedule)
    default = defaults_of(solver, model.surrogate, model.anchor, model.schedule)

    def given(value: Any, otherwise: Any) -> Any:
        return otherwise if value is None else value

    why = "0 is no penalty, larger stays nearer to the anchor"
    alpha = check_real(given(model.alpha, default.alpha), "alpha", at_least=0, why=why)
    why = "it is the size of a step"
    rate = given(model.learning_rate, default.learning_rate)
    check_real(rate, "learning_rate", above=0, why=why)
    check_real(model.tol, "tol", above=0, why="it is where L-BFGS stops; try 1e-4")
    check_real(model.delta, "delta", above=0, why="it keeps adaptive steps finite")
    for name in ("beta0", "beta1", "beta2"):
        check_beta(getattr(model, name), name)
    why = "it is the share of positives in a batch; try 0.25"
    check_real(model.positive_rate, "positive_rate", above=0, at_most=1, why=why)
    why = "it is the share of the data that is held out; try 0.1"
    check_real(model.validation_fraction, "validation_fraction", above=0, at_most=0.9, why=why)
    check_count(model.n_iter_no_change, "n_iter_no_change", why="it is how long to wait")
    check_count(model.batch_size, "batch_size", at_least=3, why="it holds both classes")
    max_iter = given(model.max_iter, default.max_iter)
    check_count(max_iter, "max_iter", why="it is the number of iterations or rounds")
    for name in ("fit_intercept", "early_stopping", "warm_start"):
        check_switch(getattr(model, name), name)
    SAMPLING.choose(model.sampling)
    check_checkpoint(model, solver)
    return default._replace(
        gamma=check_gamma(given(model.gamma, default.gamma)),
        alpha=alpha,
        max_iter=max_iter,
        learning_rate=rate,
    )


def check_checkpoint(model: Any, solver: str) -> None:
    """A folder, for a fit that goes in rounds and whose draws can be drawn again."""
    if model.checkpoint is None:
        return
    if not isinstance(model.checkpoint, str | os.PathLike):
        raise ParameterError(
            f"`checkpoint` must be a folder, got {model.checkpoint!r}: give its path, or None"
        )
    if solver == FULL_BATCH:
        raise ParameterError(
            f"`checkpoint` = {str(model.checkpoint)!r} is for the stochastic solvers, and solver = "
            f"{model.solver!r} is none: leave it out, or choose one, e.g. solver='soap-adam'"
        )
    if model.random_state is None:
        raise ParameterError(
            f"`checkpoint` = {str(model.checkpoint)!r} needs a `random_state`, got None: the same "
            "fit must be known by its draws when it goes on; give a number, e.g. random_state=0"
        )
