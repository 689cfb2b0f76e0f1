"""scikit-learn's own checks, for all estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from apmax import APClassifier, APClassifierCV, StochasticAPClassifier


@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:`y` holds .* positive examples")
@parametrize_with_checks(
    [
        APClassifier(),
        StochasticAPClassifier("adap-adagrad", max_iter=500),
        APClassifierCV(alphas=(1.0, 0.1), Cs=(0.1, 1.0)),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
