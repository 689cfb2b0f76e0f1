"""Classification with rare positives: models selected and trained by average precision.

Public names are imported on first use, so that ``import apmax`` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from apmax._version import __version__

if TYPE_CHECKING:
    from apmax.app.leaks import check_table
    from apmax.app.pipeline import load
    from apmax.app.saving import save
    from apmax.errors import ApmaxError
    from apmax.linear import APClassifier, APClassifierCV, FitResult, StochasticAPClassifier
    from apmax.metrics import (
        OperatingPoint,
        average_precision,
        operating_point,
    )
    from apmax.objective.exact import SurrogateAP, surrogate_ap
    from apmax.objective.surrogates import Surrogate
    from apmax.tabular import AdditiveAPClassifier, AutoAPClassifier

_HOME = {
    "APClassifier": "apmax.linear",
    "APClassifierCV": "apmax.linear",
    "AdditiveAPClassifier": "apmax.tabular",
    "ApmaxError": "apmax.errors",
    "AutoAPClassifier": "apmax.tabular",
    "FitResult": "apmax.linear",
    "OperatingPoint": "apmax.metrics",
    "StochasticAPClassifier": "apmax.linear",
    "Surrogate": "apmax.objective.surrogates",
    "SurrogateAP": "apmax.objective.exact",
    "average_precision": "apmax.metrics",
    "check_table": "apmax.app.leaks",
    "load": "apmax.app.pipeline",
    "operating_point": "apmax.metrics",
    "save": "apmax.app.saving",
    "surrogate_ap": "apmax.objective.exact",
}

__all__ = [
    "APClassifier",
    "APClassifierCV",
    "AdditiveAPClassifier",
    "ApmaxError",
    "AutoAPClassifier",
    "FitResult",
    "OperatingPoint",
    "StochasticAPClassifier",
    "Surrogate",
    "SurrogateAP",
    "__version__",
    "average_precision",
    "check_table",
    "load",
    "operating_point",
    "save",
    "surrogate_ap",
]

_MODULES = {
    "app",
    "dask",
    "errors",
    "linear",
    "methods",
    "metrics",
    "objective",
    "scale",
    "tabular",
    "torch",
}


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
