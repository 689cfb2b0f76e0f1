"""scikit-learn's own checks, for the classifiers of tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from apmax import AdditiveAPClassifier, AutoAPClassifier


@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
@parametrize_with_checks(
    [AdditiveAPClassifier(cv=2), AutoAPClassifier(["logistic", "boosting-5x100"], cv=2)]
)
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
