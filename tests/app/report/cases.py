"""Small reports that the tests of this folder share."""

from __future__ import annotations

from typing import Any

import numpy as np

from apmax.app.report import Comparison, FoldScores, Report, Scored


def make_scored(
    n: int = 600, *, name: str = "a model", seed: int = 0, digits: int | None = 2, **more: Any
) -> Scored:
    """Log-odds of a tenth of positives, rounded so that scores are tied."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 10 == 0
    scores = rng.normal(size=n) + 1.5 * y - 2.5
    return Scored(name, y, scores if digits is None else scores.round(digits), **more)


def make_history(size: int = 30, *, held_out: bool = True) -> dict[str, Any]:
    step = np.arange(size, dtype=float)
    rising = 0.6 - 0.3 * np.exp(-step / 5)
    return {
        "step": step,
        "seconds": 0.01 * step + 0.002,
        "surrogate_ap": rising - 0.05,
        "train_ap": rising,
        "validation_ap": rising - 0.1 if held_out else np.full(size, np.nan),
        "gradient_norm": np.exp(-step),
    }


def full_report() -> Report:
    """Three models, with everything a report can hold, and names that try to break it."""
    features = [(f"feature {k}", (-1) ** k * (30 - k) / 10) for k in range(30)]
    results = [
        make_scored(name="logistic regression", coefficients=features),
        make_scored(name="APClassifier", seed=1, history=make_history(), coefficients=features),
        make_scored(name="</script><b>&\u2028'\"", seed=2, digits=None),
    ]
    rng = np.random.default_rng(0)
    folds = 0.5 + 0.05 * rng.normal(size=20)
    noise = 0.03 * rng.normal(size=(2, 20))
    rows = [FoldScores("logistic regression", folds)]
    rows += [FoldScores("APClassifier", folds + 0.002 + noise[0])]
    rows += [FoldScores("</script><b>&\u2028'\"", folds + 0.08 + noise[1])]
    return Report(
        title="A title with <i>HTML</i> & more",
        results=results,
        comparison=Comparison(rows, test_fraction=0.2),
        facts={"rows": "600", "<u>odd</u>": "a & b"},
        command="apmax report 'model <1>.apmax' test.csv",
    )
