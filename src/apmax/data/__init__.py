"""Data files and the paper's data sets.

Tables and downloads need ``pip install 'apmax[data]'``; LIBSVM and .npz files do not. The names
below are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apmax.data.files import Dataset, load
    from apmax.data.libsvm import read_libsvm
    from apmax.data.sets import (
        PaperSet,
        PaperSetInfo,
        list_paper_sets,
        load_paper_set,
        paper_set_files,
    )
    from apmax.data.tables import read_table

_HOME = {
    "Dataset": "apmax.data.files",
    "PaperSet": "apmax.data.sets",
    "PaperSetInfo": "apmax.data.sets",
    "list_paper_sets": "apmax.data.sets",
    "load": "apmax.data.files",
    "load_paper_set": "apmax.data.sets",
    "paper_set_files": "apmax.data.sets",
    "read_libsvm": "apmax.data.libsvm",
    "read_table": "apmax.data.tables",
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
        raise AttributeError(f"module 'apmax.data' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
