"""The models that AutoAPClassifier compares, from simple to complex.

All but the additive model work on a matrix with the numbers first and the codes of categories last,
NaN where missing.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)

from apmax.tabular.columns import UNKNOWN, Table
from apmax.tabular.logistic import Shape
from apmax.validation import Floats, Mask

LOGISTIC, ADDITIVE, STACK = "logistic", "additive", "stack"
BOOSTING = {
    "boosting-5x100": (5, 100),
    "boosting-20x100": (20, 100),
    "boosting-20x300": (20, 300),
}
"""Leaves per tree and number of trees."""
EXTRA_TREES, RANDOM_FOREST = "extra-trees", "random-forest"
NAMES = (LOGISTIC, ADDITIVE, *BOOSTING, EXTRA_TREES, RANDOM_FOREST, STACK)
"""Names of all models, the simplest first: "logistic", "additive", "boosting-5x100",
"boosting-20x100", "boosting-20x300", "extra-trees", "random-forest" and "stack"."""
TREES = 200
"""Trees of a forest."""
LARGEST = 1e30
"""Numbers are clipped to this size: trees are single precision, and squares must be finite."""
LEARNING_RATE, LEAST_LEAF = 0.1, 20


def encoded(table: Table) -> Floats:
    """Return the matrix that the models read."""
    codes = np.where(table.codes == UNKNOWN, np.nan, table.codes)
    return np.hstack([np.clip(table.numbers, -LARGEST, LARGEST), codes])


def fit_trees(
    name: str, X: Floats, positive: Mask, weight: Floats | None, shape: Shape, seed: int
) -> Any:
    """Fit the trees of this name."""
    if name in BOOSTING:
        return _fit_boosting(*BOOSTING[name], X, positive, weight, shape, seed)
    forests = {EXTRA_TREES: ExtraTreesClassifier, RANDOM_FOREST: RandomForestClassifier}
    least = max(3, positive.size // 20_000)  # bounds the size of a tree
    return forests[name](TREES, min_samples_leaf=least, random_state=seed).fit(X, positive, weight)


def log_odds(model: Any, X: Floats) -> Floats:
    """Return the log-odds of the positive class."""
    if isinstance(model, (ExtraTreesClassifier, RandomForestClassifier)):
        # One more tree with a constant share of positives keeps the log-odds finite.
        share = model.predict_proba(X)[:, 1]
        return np.asarray(logit((TREES * share + 0.5) / (TREES + 1)))
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    return np.asarray(model.predict(X, raw_score=True))


def _fit_boosting(
    leaves: int,
    trees: int,
    X: Floats,
    positive: Mask,
    weight: Floats | None,
    shape: Shape,
    seed: int,
) -> Any:
    """Fit gradient boosting with LightGBM if it is installed, otherwise with scikit-learn."""
    if not has_lightgbm():
        categorical = np.isin(np.arange(X.shape[1]), shape.categorical)
        model = HistGradientBoostingClassifier(
            max_iter=trees,
            max_leaf_nodes=leaves,
            learning_rate=LEARNING_RATE,
            min_samples_leaf=LEAST_LEAF,
            early_stopping=False,
            categorical_features=categorical,
            random_state=seed,
        )
        return model.fit(X, positive, weight)
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(
        n_estimators=trees,
        num_leaves=leaves,
        learning_rate=LEARNING_RATE,
        min_child_samples=LEAST_LEAF,
        n_jobs=1,
        deterministic=True,
        force_row_wise=True,
        random_state=seed,
        verbose=-1,
    )
    return model.fit(
        X, positive, sample_weight=weight, categorical_feature=shape.categorical or "auto"
    )


def has_lightgbm() -> bool:
    """Return whether LightGBM is installed."""
    return find_spec("lightgbm") is not None
