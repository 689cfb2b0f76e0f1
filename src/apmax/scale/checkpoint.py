"""Checkpoints of a fit: a log of all evaluations of its objectives.

A fit that starts again takes the evaluations from the log, in order. The optimiser therefore
repeats its steps without a pass over the data and continues with the same bits.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from apmax.errors import CheckpointError, FileError
from apmax.lbfgs import Objective
from apmax.scale.sums import Statistics
from apmax.validation import Floats

logger = logging.getLogger("apmax")
FORMAT = "apmax checkpoint 2"
SAME = 1e-7
"""Relative difference of parameters up to which a stored evaluation is used: another processor or
another version of SciPy may round steps differently."""


class Evaluation(NamedTuple):
    """Value and gradient of the objective of a stage."""

    w: Floats
    value: float
    gradient: Floats
    seconds: float
    """Since the fit began."""
    place: int
    """First byte in the file."""


class Checkpoint:
    """A file of JSON lines to which evaluations are appended; without a path nothing is written.

    The first line names the parameters and a digest of the data's statistics. A checkpoint from a
    different fit raises `CheckpointError`. A last line that is incomplete, because the process was
    killed while it was written, is ignored.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.path = None if path is None else Path(path)
        self._stored: deque[Evaluation] = deque()
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Time since the fit began, without pauses between a kill and the next start."""
        return time.monotonic() - self._start

    def load(self, settings: dict[str, Any], found: Statistics) -> None:
        """Read the evaluations of an earlier run of the same fit, or begin a new file."""
        if self.path is None:
            return
        identity = {**settings, "rows": float(found.rows.sum()), "data": _digest(found)}
        if not self.path.exists() or self.path.stat().st_size == 0:
            self._append({"format": FORMAT, "fit": identity})
            return
        try:
            fit, stored, end = _read(self.path, found.mean.size + 1)
        except (
            OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError
        ) as error:  # fmt: skip
            raise CheckpointError(
                f"{self.path} is not a checkpoint of apmax ({error}): delete it to start again"
            ) from None
        differs = [name for name, value in identity.items() if fit.get(name) != value]
        if differs:
            shown = ", ".join(
                f"{name} {fit.get(name)!r} instead of {identity[name]!r}" for name in differs
            )
            raise CheckpointError(
                f"{self.path} belongs to another fit ({shown}): delete it to start again, or "
                "restore the parameters and data"
            )
        os.truncate(self.path, end)  # without an incomplete line
        self._stored = stored
        logger.info("resuming after %d evaluations in %s", len(self._stored), self.path)

    def recorded(self, objective: Objective) -> Objective:
        """Return an objective that takes stored evaluations first and appends new ones."""

        def evaluate(w: Floats) -> tuple[float, Floats]:
            one = self._next(w)
            if one is not None:
                self._start = min(self._start, time.monotonic() - one.seconds)
                return one.value, one.gradient
            value, gradient = objective(w)
            self._append(
                {"seconds": self.seconds, "w": w.tolist(), "value": float(value),
                 "gradient": gradient.tolist()}
            )  # fmt: skip
            return value, gradient

        return evaluate

    def remove(self) -> None:
        """Delete the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _next(self, w: Floats) -> Evaluation | None:
        """Return the next stored evaluation; drop the rest if it is of other parameters."""
        if not self._stored or self.path is None:
            return None
        one = self._stored.popleft()
        if np.abs(one.w - w).max() <= SAME * np.abs(w).max():
            return one
        logger.warning(
            "%s was written by other software: %d evaluations are repeated",
            self.path, len(self._stored) + 1,
        )  # fmt: skip
        self._stored.clear()
        os.truncate(self.path, one.place)
        return None

    def _append(self, content: dict[str, Any]) -> None:
        if self.path is None:
            return
        begin = -1
        try:
            with self.path.open("ab") as file:
                begin = file.tell()
                file.write(json.dumps(content).encode() + b"\n")
        except OSError as error:
            if begin == 0:
                self.remove()
            raise FileError(
                f"cannot write the checkpoint {self.path} ({error.strerror or error}): choose a "
                "folder with space that can be written"
            ) from None


def _read(path: Path, size: int) -> tuple[dict[str, Any], deque[Evaluation], int]:
    """Return what the first line says about the fit, the evaluations, and where they end."""
    lines = path.read_bytes().split(b"\n")
    complete = lines[:-1]  # the last one is empty, or incomplete
    if not complete:
        raise ValueError("it has no complete line")
    head = json.loads(complete[0])
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ValueError(f"its first line does not name the format {FORMAT!r}")
    if not isinstance(head.get("fit"), dict):
        raise ValueError("fit is not an object")
    found: deque[Evaluation] = deque()
    place = len(complete[0]) + 1
    for line in complete[1:]:
        one = json.loads(line)
        vectors = _vector(one["w"], size), _vector(one["gradient"], size)
        value = float(_vector([one["value"]], 1)[0])
        found.append(Evaluation(vectors[0], value, vectors[1], _seconds(one["seconds"]), place))
        place += len(line) + 1
    return head["fit"], found, place


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < np.inf:
        raise ValueError(f"seconds is {value!r}, not a number ≥ 0")
    return float(value)


def _vector(values: Any, size: int) -> Floats:
    vector = np.array(values, dtype=np.float64)
    if vector.shape != (size,) or not np.isfinite(vector).all():
        raise ValueError(f"{size} finite numbers expected")
    return vector


def _digest(found: Statistics) -> str:
    """Return a digest of counts, weights, extents and moments of features, and of the labels."""
    digest = hashlib.sha256()
    for value in found:
        digest.update(np.asarray(value, dtype=np.float64).tobytes())
    return digest.hexdigest()
