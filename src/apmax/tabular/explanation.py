"""Contributions of columns to the log-odds, for the members of a blend that have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from apmax.errors import ParameterError
from apmax.tabular.columns import INTERCEPT, Columns
from apmax.tabular.library import ADDITIVE, LOGISTIC, encoded
from apmax.tabular.logistic import Shape, contributions
from apmax.tabular.search import TrainingTable
from apmax.tabular.stacking import Blend
from apmax.validation import Floats, shares


def explained(
    best: str,
    blend: Blend,
    models: dict[str, list[Any]],
    columns: Columns,
    means: Floats | None,
    X: Any,
) -> dict[str, Floats]:
    """Return the contribution of each column to each row's log-odds, and the intercept last.

    `means` are those of :func:`mean_contributions`, if there is a logistic regression.
    """
    trees = [name for name in blend.members if name not in (LOGISTIC, ADDITIVE)]
    if trees:
        raise ParameterError(
            f"{best} predicts with trees ({', '.join(trees)}), which have no contributions of "
            'columns: fit with select="additive", or use the package shap'
        )
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
