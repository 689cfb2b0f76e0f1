"""Reasons for the scores of rows: the columns that contribute most to their log-odds."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from apmax.app.features import TableEncoder
from apmax.errors import ParameterError
from apmax.tabular.columns import INTERCEPT

if TYPE_CHECKING:
    from apmax.app.model import Model

BLOCK_CELLS, BLOCK_ROWS = 1 << 24, 1000
"""Contributions and rows that are computed at a time, which bounds the memory for wide data."""


def contributions(model: Model, X: Any) -> Any:
    """Return a frame with the contribution of each column to the log-odds of each row.

    Linear and additive models are sums of effects, which have mean 0 over the training data. For
    trees, a contribution is the change of the log-odds if the column had its typical value.
    """
    if model.coef is not None:
        return _of_weights(model, X)
    try:
        return _of_effects(model, X)
    except ParameterError:
        return _from_typical_values(model, X)


def _of_weights(model: Model, X: Any) -> Any:
    """Return weight · (value - mean), summed over the features of a column."""
    import pandas as pd

    features, classifier = model.features(X), model.classifier
    sources = model.feature_names()
    if isinstance(model.preprocessor, TableEncoder):
        sources = model.preprocessor.source_columns()
    sign = 1.0 if classifier.classes_[1] == model.positive else -1.0
    weights = sign * np.asarray(model.coef)
    means = getattr(classifier, "feature_means_", np.zeros(weights.size))
    parts = features.multiply(weights).toarray() - weights * means
    names = list(dict.fromkeys(sources))
    if len(names) < len(sources):
        parts = parts @ np.eye(len(names))[[names.index(name) for name in sources]]
    return pd.DataFrame(parts, columns=names)


def _of_effects(model: Model, X: Any) -> Any:
    """Return the terms of an additive model; ParameterError if there are trees."""
    import pandas as pd

    features, classifier = model.features(X), model.classifier
    if not hasattr(features, "columns"):
        features = pd.DataFrame(features, columns=classifier.columns_.names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the columns of a matrix have no names
        parts = classifier.explain(features)
    parts = parts.drop(columns=INTERCEPT).reset_index(drop=True)
    if model.preprocessor is None:
        number = re.compile(r"\bx(\d+)\b")
        parts.columns = [
            number.sub(lambda found: f"feature {int(found[1]) + 1}", name) for name in parts
        ]
    return parts


def _from_typical_values(model: Model, X: Any) -> Any:
    import pandas as pd

    if model.preprocessor is None:
        raise ParameterError(
            f"{model.name} has no reasons for numbered features, because it is made of trees: "
            "train with --model additive, or on a table with named columns"
        )
    X = X.rename(columns=str)
    log_odds = model.log_odds(X)
    typical = model.preprocessor.typical_
    changes = {}
    for name, value in typical.items():
        changed = X.copy(deep=False)
        changed[name] = value
        changes[name] = log_odds - model.log_odds(changed)
    return pd.DataFrame(changes)


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
