"""Checkpoints of a fit: the parameters after each iteration, in a JSON file."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from apmax.errors import CheckpointError, FileError
from apmax.scale.sums import Statistics
from apmax.validation import Floats

FORMAT = "apmax checkpoint 1"


class State(NamedTuple):
    """Where a fit is."""

    anchor: Floats | None = None
    """The logistic regression; None while it is being fitted."""
    w: Floats | None = None
    """Parameters of the stage; None at its start."""
    iteration: int = 0
    seconds: float = 0.0


class Checkpoint:
    """A file that is replaced after each iteration; without a path nothing is written.

    The file names the parameters and a digest of the data's statistics. A checkpoint from a
    different fit raises `CheckpointError`.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.path = None if path is None else Path(path)
        self.identity: dict[str, Any] = {}

    def load(self, settings: dict[str, Any], found: Statistics) -> State:
        """Return the stored state, or a new one if there is no file."""
        self.identity = {**settings, "rows": float(found.rows.sum()), "data": _digest(found)}
        if self.path is None or not self.path.exists():
            return State()
        try:
            content = json.loads(self.path.read_text())
            stored, state = content["fit"], content["state"]
            if content["format"] != FORMAT:
                raise ValueError(f"format is {content['format']!r}")
            if not isinstance(stored, dict):
                raise ValueError("fit is not an object")
            vectors = {
                name: None if state[name] is None else _vector(state[name], found.mean.size + 1)
                for name in ("anchor", "w")
            }
            iteration, seconds = int(_amount(state, "iteration")), _amount(state, "seconds")
            read = State(**vectors, iteration=iteration, seconds=seconds)
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise CheckpointError(
                f"{self.path} is not a checkpoint of apmax ({error}): delete it to start again"
            ) from None
        differs = [name for name, value in self.identity.items() if stored.get(name) != value]
        if differs:
            shown = ", ".join(
                f"{name} {stored.get(name)!r} instead of {self.identity[name]!r}"
                for name in differs
            )
            raise CheckpointError(
                f"{self.path} belongs to another fit ({shown}): delete it to start again, or "
                "restore the parameters and data"
            )
        return read

    def save(self, state: State) -> None:
        """Replace the file atomically."""
        if self.path is None:
            return
        content = {
            "format": FORMAT,
            "fit": self.identity,
            "state": {
                **state._asdict(),
                "anchor": None if state.anchor is None else state.anchor.tolist(),
                "w": None if state.w is None else state.w.tolist(),
            },
        }
        try:
            _replace(self.path, json.dumps(content))
        except OSError as error:
            raise FileError(
                f"cannot write the checkpoint {self.path} ({error.strerror or error}): choose a "
                "folder with space that can be written"
            ) from None

    def remove(self) -> None:
        """Delete the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _replace(path: Path, text: str) -> None:
    """Write a file under another name first; whatever stops this leaves no file behind."""
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        try:
            file.write(text)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(file.name)
            raise


def _amount(state: dict[str, Any], name: str) -> float:
    value = state[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < np.inf:
        raise ValueError(f"{name} is {value!r}, not a number ≥ 0")
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
