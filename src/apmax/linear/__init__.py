"""Linear classifiers trained for average precision, with scikit-learn's conventions."""

from __future__ import annotations

from apmax.linear.classifier import APClassifier
from apmax.linear.classifier_cv import APClassifierCV
from apmax.linear.result import FitResult
from apmax.linear.stochastic_classifier import StochasticAPClassifier

__all__ = ["APClassifier", "APClassifierCV", "FitResult", "StochasticAPClassifier"]
