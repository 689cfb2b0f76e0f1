"""One sentence about the leaderboard: whether a simpler model is as good as the best one."""

from __future__ import annotations

from math import isnan

from apmax.app.linear_search import LINEAR
from apmax.tabular import Leaderboard, Standing
from apmax.tabular.library import LOGISTIC, NAMES

SIMPLEST_FIRST = (LOGISTIC, LINEAR, *NAMES[1:])
SMALL_LOSS = 0.01
"""A simpler model is advised if the upper bound of its loss of AP, one standard error above the
mean, is at most this."""


def advice(leaderboard: Leaderboard) -> str:
    """Return the advice for the model that was kept; `compare` marks the one to keep."""
    kept, best = next(one for one in leaderboard if one.chosen), leaderboard[0]
    if len(leaderboard) == 1:
        return f"{kept.model} is the only model compared."
    if isnan(best.difference_se):
        return f"{best.model} has the highest AP, on a single fold: compare on more folds."
    if kept.model != best.model:
        return f"{best.model} has the highest AP; {kept.model} is {_loss(kept)} below it."
    return _simpler(leaderboard)


def advised(leaderboard: Leaderboard) -> Standing:
    """Return the simplest model whose loss against the best one is surely small."""
    best: Standing = leaderboard[0]
    small = [
        one
        for one in leaderboard
        if _rank(one) < _rank(best) and one.difference_se - one.difference <= SMALL_LOSS
    ]
    return min([*small, best], key=_rank)


def _simpler(leaderboard: Leaderboard) -> str:
    """Compare the best model with the simpler ones."""
    best, use = leaderboard[0], advised(leaderboard)
    if use is not best:
        return (
            f"{use.model} is simpler and nearly as good, {_loss(use)} below {best.model}: to keep "
            f"it, train with --model {use.model}."
        )
    simpler = [one for one in leaderboard if _rank(one) < _rank(best)]
    if not simpler:
        return f"{best.model} has the highest AP and is the simplest of these models."
    near = max(simpler, key=lambda one: one.difference)
    if -near.difference > near.difference_se:
        return f"No simpler model is as good: the nearest, {near.model}, is {_loss(near)} below."
    return (
        f"{near.model} is simpler and may be as good: {_loss(near)} below {best.model} is too "
        "uncertain to tell."
    )


def _loss(one: Standing) -> str:
    return f"{-one.difference:.3f} ± {one.difference_se:.3f}"


def _rank(one: Standing) -> int:
    known = one.model in SIMPLEST_FIRST
    return SIMPLEST_FIRST.index(one.model) if known else len(SIMPLEST_FIRST)
