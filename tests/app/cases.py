"""Small reports that several tests share."""

from __future__ import annotations

from typing import Any

import numpy as np

from apmax.app.leaderboard import Leaderboard
from apmax.app.report import Report, ScoredModel

HOSTILE = "</script><b>&\u2028'\"$x$"


def make_scored(
    n: int = 600, *, name: str = "a model", seed: int = 0, digits: int | None = 2, **more: Any
) -> ScoredModel:
    """Return log-odds of 10 % positives, rounded so that scores are tied."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 10 == 0
    scores = rng.normal(size=n) + 1.5 * y - 2.5
    return ScoredModel(name, y, scores if digits is None else scores.round(digits), **more)


def full_report() -> Report:
    """Return a report with everything it can contain, and names that try to break the page."""
    features = [(f"feature {k}", (-1) ** k * (30 - k) / 10) for k in range(30)]
    results = [
        make_scored(name="logistic regression", coefficients=features),
        make_scored(name="APClassifier", seed=1, coefficients=[(HOSTILE, 1.0), ("b", -2.0)]),
        make_scored(name=HOSTILE, seed=2, digits=None),
    ]
    rng = np.random.default_rng(0)
    folds = 0.5 + 0.05 * rng.normal(size=20)
    ap = {"logistic regression": folds, HOSTILE: folds + 0.08 + 0.03 * rng.normal(size=20)}
    return Report(
        title="A title with <i>HTML</i> & more",
        results=results,
        leaderboard=Leaderboard(ap, test_fraction=0.2),
        facts={"rows": "600", "<u>odd</u>": "a & b"},
        command="apmax report 'model <1>.apmax' test.csv",
        warnings=["'income' is <b>empty</b>", "is it the same unit?"],
    )
