"""Rows of six features of very different scales, with rare positives."""

from __future__ import annotations

from typing import Any

import numpy as np

from apmax import APClassifier, APClassifierCV, StochasticAPClassifier, average_precision
from apmax.methods import METHODS

RNG = np.random.default_rng(0)
N, D = 2000, 6
X = RNG.normal(size=(N, D)) * [1, 1, 1, 1e-3, 1e3, 1] + [0, 0, 5, 0, 0, 0]
LOGIT = X[:, 0] + 0.8 * X[:, 1] * (X[:, 1] > 0) + 500 * X[:, 3] - 4.2
Y = RNG.random(N) < 1 / (1 + np.exp(-LOGIT))
SMALL = APClassifierCV(alphas=(1.0, 0.01), Cs=(0.1, 10.0), cv=3)
SOLVERS = ["lbfgs", *METHODS]


def make(solver: str, **options: Any) -> Any:
    """The full-batch estimator for "lbfgs", otherwise a stochastic one with seed 0."""
    if solver == "lbfgs":
        return APClassifier(**options)
    return StochasticAPClassifier(solver, random_state=0, **options)


def ap(model: Any, matrix: Any = X) -> float:
    return average_precision(Y, model.decision_function(matrix))
