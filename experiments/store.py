"""Results on disk: a run that was killed goes on, and never mixes different code or settings."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import scipy
import sklearn
from joblib import Parallel, delayed

from apmax.app.disk import make_folder, write_aside

Advance = Callable[[int, int], None]
"""(units done, of how many)."""

SOURCES = ("kernels", "method", "problem", "data", "linear", "metrics.py", "paper/protocol.py")
"""What all results depend on; each depends on the file of its own work, too."""


class Unit(NamedTuple):
    """A piece of work: a function of plain arguments that returns plain data."""

    work: Callable[..., Any]
    arguments: tuple[Any, ...]

    @property
    def name(self) -> str:
        """What tells this unit from others, in words."""
        return "-".join([self.work.__name__.strip("_"), *map(str, self.arguments)])


def code_digest(work: Callable[..., Any]) -> str:
    """SHA-256 of all code that a result depends on, and of the libraries' versions."""
    return digest_of(SOURCES, Path(inspect.getfile(work)))


def digest_of(sources: Iterable[str], *others: Path) -> str:
    """SHA-256 of these files and folders of the package, and of the libraries' versions."""
    versions = [library.__version__ for library in (np, numba, scipy, sklearn)]
    digest = hashlib.sha256(" ".join(versions).encode())
    root = Path(str(files("apmax")))
    for source in sources:
        place = root / source
        for path in [place] if place.suffix else sorted(place.rglob("*.py")):
            digest.update(path.read_bytes())
    for path in others:
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Store:
    """A folder with one JSON file per finished unit, under the digest of its code."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[Callable[..., Any], Path] = {}

    def results(self, units: Iterable[Unit], *, jobs: int = 2) -> Iterator[tuple[Unit, Any]]:
        """Every unit with its result: what is there already first, the rest as it comes."""
        missing = []
        for unit in units:
            found = self._read(unit)
            if found is None:
                missing.append(unit)
            else:
                yield unit, found
        calls = (delayed(_run)(unit, os.getpid()) for unit in missing)
        done = Parallel(n_jobs=jobs, return_as="generator_unordered")(calls)
        for unit, result in done:
            self._write(unit, result)
            yield unit, result

    def gather(
        self,
        units: Sequence[Unit],
        *,
        jobs: int = 2,
        advance: Advance | None = None,
        after: int = 0,
        of: int | None = None,
    ) -> Iterator[tuple[Unit, Any]]:
        """:meth:`results`, telling how far it is; `after` and `of` where it is a part of more."""
        for done, found in enumerate(self.results(units, jobs=jobs), start=after + 1):
            if advance is not None:
                advance(done, of or len(units))
            yield found

    def _path(self, unit: Unit) -> Path:
        if unit.work not in self._places:
            place = self.folder / code_digest(unit.work)[:16]
            make_folder(place)
            self._places[unit.work] = place
        return self._places[unit.work] / f"{unit.name}.json"

    def _read(self, unit: Unit) -> Any:
        """What was stored; None if there is nothing, or what a failing disk left of it."""
        try:
            stored = json.loads(self._path(unit).read_text())
        except (FileNotFoundError, ValueError):
            return None
        return stored.get("result") if isinstance(stored, dict) else None

    def _write(self, unit: Unit, result: Any) -> None:
        content = json.dumps({"unit": unit.name, "result": result})
        write_aside(self._path(unit), content.encode())


def _run(unit: Unit, owner: int) -> tuple[Unit, Any]:
    if os.getpid() != owner:
        _end_with(owner)
    return unit, unit.work(*unit.arguments)


@cache  # one watch for each worker
def _end_with(owner: int) -> None:
    """Let this worker end soon after its owner: joblib's would idle for another five minutes."""

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
