"""Data files and the paper's data sets.

Tables and downloads need ``pip install 'apmax[data]'``; LIBSVM and .npz files do not. The names
below are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apmax.app.data.files import Dataset, load
    from apmax.app.data.libsvm import read_libsvm
    from apmax.app.data.sets import (
        PaperSet,
        PaperSetInfo,
        list_paper_sets,
        load_paper_set,
        paper_set_files,
    )
    from apmax.app.data.tables import read_table

_HOME = {
    "Dataset": "apmax.app.data.files",
    "PaperSet": "apmax.app.data.sets",
    "PaperSetInfo": "apmax.app.data.sets",
    "list_paper_sets": "apmax.app.data.sets",
    "load": "apmax.app.data.files",
    "load_paper_set": "apmax.app.data.sets",
    "paper_set_files": "apmax.app.data.sets",
    "read_libsvm": "apmax.app.data.libsvm",
    "read_table": "apmax.app.data.tables",
}

__all__ = [
    "Dataset",
    "PaperSet",
    "PaperSetInfo",
    "list_paper_sets",
    "load",
    "load_paper_set",
    "paper_set_files",
    "read_libsvm",
    "read_table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'apmax.app.data' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
