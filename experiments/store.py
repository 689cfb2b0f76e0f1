"""Results on disk, so that a stopped run resumes and results of different code are not mixed."""

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
import scipy
import sklearn
from joblib import Parallel, delayed

import apmax
from apmax.app.workers import end_with
from apmax.atomic_files import write_file
from experiments.output import progress_bar

K = TypeVar("K")
LIBRARY, HERE = Path(apmax.__file__).parent, Path(__file__).parent
SOURCES = (
    *(LIBRARY / name for name in ("objective", "linear", "methods.py", "metrics.py")),
    *(HERE / name for name in ("datasets.py", "linear/grid.py")),
)
"""Code that all results of linear models depend on."""


class Unit(NamedTuple):
    """A piece of work: a function of plain arguments that returns plain data."""

    work: Callable[..., Any]
    arguments: tuple[Any, ...]

    @property
    def name(self) -> str:
        """Name of the function and its arguments."""
        return "-".join([self.work.__name__.strip("_"), *map(str, self.arguments)])


class Store:
    """A folder with one JSON file per finished unit; each version of the code has a subfolder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def collect(
        self, groups: Mapping[K, Sequence[Unit]], jobs: int, title: str
    ) -> dict[K, list[Any]]:
        """Results of groups of units, in their order, with a progress bar."""
        units = [unit for group in groups.values() for unit in group]
        found = dict(progress_bar(self.results(units, jobs=jobs), title, len(units)))
        return {key: [found[unit] for unit in group] for key, group in groups.items()}

    def results(self, units: Sequence[Unit], *, jobs: int = 2) -> Iterator[tuple[Unit, Any]]:
        """Yield every unit with its result: stored ones first, others as they are finished."""
        missing = []
        for unit in units:
            stored = read_json(self._path(unit), "result")
            if stored is None:
                missing.append(unit)
            else:
                yield unit, stored["result"]
        calls = (delayed(_run)(unit, os.getpid()) for unit in missing)
        for unit, result in Parallel(n_jobs=jobs, return_as="generator_unordered")(calls):
            write(self._path(unit), json.dumps({"unit": unit.name, "result": result}))
            yield unit, result

    def _path(self, unit: Unit) -> Path:
        digest = code_digest(*SOURCES, Path(inspect.getfile(unit.work)))
        return self.folder / digest[:16] / f"{unit.name}.json"


@cache
def code_digest(*sources: Path) -> str:
    """SHA-256 of these files and folders, and of the versions of the numerical libraries."""
    versions = [library.__version__ for library in (np, numba, scipy, sklearn)]
    digest = hashlib.sha256(" ".join(versions).encode())
    for source in sources:
        for path in [source] if source.is_file() else sorted(source.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def write(path: Path, content: str | bytes) -> None:
    """Replace a file atomically: readers see the old content or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content.encode() if isinstance(content, str) else content)


def read_json(path: Path, *keys: str) -> dict[str, Any] | None:
    """Return the stored object, or None if it is missing, damaged or without one of the keys."""
    try:
        stored = json.loads(path.read_text())
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return stored if isinstance(stored, dict) and stored.keys() >= {*keys} else None


def _run(unit: Unit, owner: int) -> tuple[Unit, Any]:
    if os.getpid() != owner:
        end_with(owner)
    return unit, unit.work(*unit.arguments)
