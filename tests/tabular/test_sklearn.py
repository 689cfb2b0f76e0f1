"""scikit-learn's own checks, for the classifiers of tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from apmax import AdditiveAPClassifier, AutoAPClassifier

FAIL = {
    "AutoAPClassifier": {
        "check_sample_weight_equivalence_on_dense_data": "boosted trees count rows in a leaf"
    }
}


@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
@parametrize_with_checks(
    [
        AdditiveAPClassifier(interactions=0, cv=2),
        AutoAPClassifier(["logistic", "boosting-5x100"], cv=2),
    ],
    expected_failed_checks=lambda estimator: FAIL.get(type(estimator).__name__, {}),
)
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
