"""The application: from a data file to a model, its evaluation and a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apmax.app.features import TablePreprocessor

__all__ = ["TablePreprocessor"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'apmax.app' has no attribute {name!r}")
    from apmax.app import features

    return getattr(features, name)
