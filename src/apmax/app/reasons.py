"""Reasons for the scores of rows: the columns that contribute most to their log-odds."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from apmax.app.features import TableEncoder
from apmax.tabular import AutoAPClassifier
from apmax.tabular.columns import INTERCEPT
from apmax.tabular.explanation import changes_from_typical, has_trees

if TYPE_CHECKING:
    from apmax.app.model import Model

BLOCK_CELLS, BLOCK_ROWS = 1 << 24, 1000
"""Contributions and rows that are computed at a time, which bounds the memory for wide data."""


def contributions(model: Model, X: Any) -> Any:
    """Return a frame with the contribution of each column to the log-odds of each row.

    Linear and additive models are sums of effects, which have mean 0 over the training data. For
    trees, a contribution is the change of the log-odds if the column had its typical value.
    """
    import pandas as pd

    if model.coef is not None:
        return _of_weights(model, X)
    has_blend = isinstance(model.classifier, AutoAPClassifier)
    if has_blend and has_trees(model.classifier.blend_) and model.preprocessor is not None:
        # Columns of the table, because a date is three columns for the classifier.
        typical = model.preprocessor.typical_
        return pd.DataFrame(changes_from_typical(model.log_odds, X.rename(columns=str), typical))
    return _of_effects(model, X)


def _of_weights(model: Model, X: Any) -> Any:
    """Return weight · (value - mean), summed over the features of a column."""
    import pandas as pd

    features, classifier = model.features(X), model.classifier
    sources = model.feature_names()
    if isinstance(model.preprocessor, TableEncoder):
        sources = model.preprocessor.source_columns()
    sign = 1.0 if str(classifier.classes_[1]) == model.positive else -1.0
    weights = sign * np.asarray(model.coef)
    means = getattr(classifier, "feature_means_", np.zeros(weights.size))
    parts = features.multiply(weights).toarray() - weights * means
    names = list(dict.fromkeys(sources))
    if len(names) < len(sources):
        parts = parts @ np.eye(len(names))[[names.index(name) for name in sources]]
    return pd.DataFrame(parts, columns=names)


def _of_effects(model: Model, X: Any) -> Any:
    """Return what the classifier itself says about its columns, without the intercept."""
    import pandas as pd

    features, classifier = model.features(X), model.classifier
    if not hasattr(features, "columns"):
        features = pd.DataFrame(features, columns=classifier.columns_.names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the columns of a matrix have no names
        parts = classifier.explain(features)
    parts = parts.drop(columns=INTERCEPT, errors="ignore").reset_index(drop=True)
    if model.preprocessor is None:
        number = re.compile(r"\bx(\d+)\b")
        parts.columns = [
            number.sub(lambda found: f"feature {int(found[1]) + 1}", name) for name in parts
        ]
    return parts


def reasons_of(
    model: Model, X: Any, count: int, on_progress: Callable[[int], None] = lambda rows: None
) -> dict[str, list[str]]:
    """Return the strongest reasons for the scores of rows, as columns of text."""
    rows = X.shape[0]
    found: dict[str, list[str]] = {f"reason_{k + 1}": [] for k in range(count if rows == 0 else 0)}
    block = max(1, min(BLOCK_ROWS, BLOCK_CELLS // max(len(model.feature_names()), 1)))
    for start in range(0, rows, block):
        part = X.iloc[start : start + block] if hasattr(X, "iloc") else X[start : start + block]
        for name, texts in strongest_reasons(contributions(model, part), count).items():
            found.setdefault(name, []).extend(texts)
        on_progress(min(start + block, rows))
    return found


def strongest_reasons(parts: Any, count: int) -> dict[str, list[str]]:
    """Return columns reason_1, reason_2, … with texts such as "income: +0.83".

    `parts` is a frame of contributions with a row per row and a column per column of the table.
    Reasons are ordered by size; contributions of 0 are left out.
    """
    names, values = list(parts.columns), parts.to_numpy()
    count = min(count, len(names))
    order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :count]
    strongest = np.take_along_axis(values, order, axis=1)
    return {
        f"reason_{k + 1}": [
            f"{names[place]}: {value:+.2f}" if value else ""
            for place, value in zip(order[:, k].tolist(), strongest[:, k].tolist(), strict=True)
        ]
        for k in range(count)
    }
