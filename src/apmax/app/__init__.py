"""The application: from a data file to a model, its evaluation and a report."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apmax.app.drift import DriftWarning
    from apmax.app.features import TablePreprocessor
    from apmax.app.leaks import Finding
    from apmax.app.pipeline import ModelPipeline

__all__ = ["DriftWarning", "Finding", "ModelPipeline", "TablePreprocessor"]
_MODULES = {
    "DriftWarning": "drift",
    "Finding": "leaks",
    "ModelPipeline": "pipeline",
    "TablePreprocessor": "features",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'apmax.app' has no attribute {name!r}")
    return getattr(import_module(f"apmax.app.{_MODULES[name]}"), name)
