"""Contributions of columns to the log-odds of a blend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from apmax.tabular.columns import INTERCEPT, Columns, with_column
from apmax.tabular.library import ADDITIVE, LOGISTIC, encoded
from apmax.tabular.logistic import Shape, contributions
from apmax.tabular.search import TrainingTable
from apmax.tabular.stacking import Blend
from apmax.validation import Floats, shares


def has_trees(blend: Blend) -> bool:
    """Return whether a member is not a sum of contributions."""
    return not {*blend.members} <= {LOGISTIC, ADDITIVE}


def changes_from_typical(
    log_odds: Callable[[Any], Floats], X: Any, typical: Mapping[str, float | str | None]
) -> dict[str, Floats]:
    """Return how the log-odds of each row change if one column had its typical value.

    A contribution is the log-odds of the row, minus those with the typical value.
    """
    given = log_odds(X)
    return {name: given - log_odds(with_column(X, name, value)) for name, value in typical.items()}


def explained(
    blend: Blend,
    models: dict[str, list[Any]],
    columns: Columns,
    means: Floats | None,
    X: Any,
) -> dict[str, Floats]:
    """Return the contribution of each column to each row's log-odds, and the intercept last.

    The blend has no trees. `means` are those of :func:`mean_contributions`, if there is a logistic
    regression.
    """
    total: dict[str, Floats] = {}
    constant = blend.stack.intercept
    for name, weight in blend.weights.items():
        if name == ADDITIVE:
            parts, intercept = _of_additive(models[name], X)
        else:
            parts, intercept = _of_logistic(models[name], columns, means, X)
        constant += weight * intercept
        for column, values in parts.items():
            total[column] = total.get(column, 0.0) + weight * values
    total[INTERCEPT] = np.full(X.shape[0], constant)
    return total


def _of_additive(models: list[Any], X: Any) -> tuple[dict[str, Floats], float]:
    (model,) = models
    parts = np.asarray(model.explain(X))
    return dict(zip(model.shape_functions_, parts.T, strict=False)), model.intercept_


def _of_logistic(
    models: list[Any], columns: Columns, means: Floats | None, X: Any
) -> tuple[dict[str, Floats], float]:
    matrix = encoded(columns.transform(X))
    shape = Shape(len(columns.numeric), len(columns.categorical))
    found = np.mean([contributions(one, matrix, shape) for one in models], axis=0)
    centre = np.zeros(found.shape[1] - 1) if means is None else means
    places = [*columns.numeric, *columns.categorical]
    parts = {columns.names[places[k]]: found[:, k] - centre[k] for k in np.argsort(places)}
    return parts, float(found[0, -1] + centre.sum())


def mean_contributions(models: list[Any], data: TrainingTable) -> Floats:
    """Return the mean contribution of each column over the training data."""
    parts = [contributions(one, data.matrix, data.shape) for one in models]
    mean = shares(data.weight, data.positive.size) @ np.mean(parts, axis=0)
    return np.asarray(mean[:-1])
