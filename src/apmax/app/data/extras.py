"""Packages of ``apmax[data]``, imported when they are first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from apmax.errors import MissingExtraError


def need(package: str, purpose: str) -> Any:
    """The package, or the error that says how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed: pip install 'apmax[data]'"
        ) from error
