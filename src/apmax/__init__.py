"""Train classifiers by directly maximising average precision.

The names below are the public surface; they are imported when they are first used, so that
``import apmax`` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from apmax._version import __version__

if TYPE_CHECKING:
    from apmax.errors import ApmaxError
    from apmax.linear.classifier import APClassifier
    from apmax.linear.classifier_cv import APClassifierCV
    from apmax.metrics import (
        OperatingPoint,
        PrecisionRecallCurve,
        average_precision,
        operating_point,
        precision_recall_curve,
    )
    from apmax.objective.exact import SurrogateAP, surrogate_ap
    from apmax.objective.surrogates import Surrogate

_HOME = {
    "APClassifier": "apmax.linear.classifier",
    "APClassifierCV": "apmax.linear.classifier_cv",
    "ApmaxError": "apmax.errors",
    "OperatingPoint": "apmax.metrics",
    "PrecisionRecallCurve": "apmax.metrics",
    "Surrogate": "apmax.objective.surrogates",
    "SurrogateAP": "apmax.objective.exact",
    "average_precision": "apmax.metrics",
    "operating_point": "apmax.metrics",
    "precision_recall_curve": "apmax.metrics",
    "surrogate_ap": "apmax.objective.exact",
}

__all__ = [
    "APClassifier",
    "APClassifierCV",
    "ApmaxError",
    "OperatingPoint",
    "PrecisionRecallCurve",
    "Surrogate",
    "SurrogateAP",
    "__version__",
    "average_precision",
    "operating_point",
    "precision_recall_curve",
    "surrogate_ap",
]


_MODULES = {"errors", "linear", "methods", "metrics", "objective", "torch"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"apmax.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'apmax' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
