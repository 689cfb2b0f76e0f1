"""Small reports that several tests share."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from apmax.app.drift import Shift
from apmax.app.report import Report, ScoredModel
from apmax.tabular.effects import CategoryEffect, Effect, Margin, NumberEffect, PairEffect
from apmax.tabular.leaderboard import Leaderboard

HOSTILE = "</script><b>&\u2028'\"$x$"
LONG = "months_since_the_most_recent_delinquency_of_any_kind_" * 3


def make_scored(
    n: int = 600, *, name: str = "a model", seed: int = 0, digits: int | None = 2
) -> ScoredModel:
    """Return probabilities of 10 % positives, rounded so that they are tied."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 10 == 0
    p = expit(rng.normal(size=n) + 1.5 * y - 2.5)
    return ScoredModel(name, y, p if digits is None else p.round(digits))


def made_effects() -> list[Effect]:
    """Return one effect of each kind, and one with a name that tries to break the page."""
    grid = np.linspace(0, 100, 50)
    number = NumberEffect("age", 0, grid, np.sin(grid / 20), 0.4, np.full(50, 0.019))
    names = [*(f"level {k}" for k in range(24)), HOSTILE]
    words = CategoryEffect(HOSTILE, 0, names, np.linspace(-1, 1, 25), np.full(25, 0.04))
    sides = [
        Margin(LONG, 0, np.array([1.0, 2.0, 3.0]), []),
        Margin("city", 1, None, ["a", HOSTILE]),
    ]
    pair = PairEffect(
        *sides, np.array([[0.1, -0.3], [0.0, 0.2], [-0.1, 0.1]]), 0.0, np.full((3, 2), 1 / 6)
    )
    more = [
        NumberEffect(f"x{k}", 0, grid, 0.01 * grid / 100, 0.0, np.full(50, 0.02)) for k in range(12)
    ]
    empty = NumberEffect("empty", 0, np.empty(0), np.empty(0), 0.3, np.empty(0))
    return [number, words, pair, *more, empty]


def full_report() -> Report:
    """Return a report with everything it can contain, and names that try to break the page."""
    features = [(f"feature {k}", (-1) ** k * (30 - k) / 10) for k in range(30)]
    results = [
        make_scored(name="logistic"),
        make_scored(name="additive", seed=1),
        make_scored(name=HOSTILE, seed=2, digits=None),
    ]
    rng = np.random.default_rng(0)
    folds = 0.5 + 0.05 * rng.normal(size=5)
    ap = {
        HOSTILE: folds,
        "additive": folds + 0.08 + 0.03 * rng.normal(size=5),
        "logistic": folds - 0.1,
        LONG: folds - 0.2,
    }
    losses, seconds = dict.fromkeys(ap, 0.3), dict.fromkeys(ap, 1.5)
    return Report(
        title="A title with <i>HTML</i> & more",
        results=results,
        leaderboard=Leaderboard.of(ap, losses, seconds, 0.2, "additive"),
        advice="Use the additive model <u>now</u>.",
        effects=made_effects(),
        coefficients=[(LONG, 4.0), *features],
        drift=[Shift("income", 0.31, 0.02, "large"), Shift(HOSTILE, 0.001, 0.02, "small")],
        facts={"rows": "600", "<u>odd</u>": "a & b", "SHA-256": 64 * "f"},
        command="apmax report 'model <1>.apmax' test.csv",
        warnings=["'income' is <b>empty</b>", "is it the same unit?"],
    )
