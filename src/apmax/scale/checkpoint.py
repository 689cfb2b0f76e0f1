"""Checkpoints of a fit: a log of the evaluations of its objective.

A fit that starts again takes the evaluations from the log, in order. The optimiser therefore
repeats its steps without a pass over the data and continues with the same bits. When the logistic
regression has ended, its result replaces its evaluations. The log is read line by line, so that
one evaluation is in memory at a time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from apmax.atomic_files import write_file
from apmax.errors import CheckpointError, FileError
from apmax.lbfgs import Objective
from apmax.scale.sums import Statistics
from apmax.validation import Floats

logger = logging.getLogger("apmax")
FORMAT = "apmax checkpoint 3"
SAME = 1e-7
"""Relative difference of parameters up to which a stored evaluation is used: another processor or
another version of SciPy may round steps differently."""


LARGEST = 1e100
"""Largest number of a checkpoint: products with features stay finite, as compiled sums require."""


class Evaluation(NamedTuple):
    """Value and gradient of the objective of a stage."""

    w: Floats
    value: float
    gradient: Floats
    seconds: float
    """Since the fit began."""


class Checkpoint:
    """A file of JSON lines to which evaluations are appended; without a path nothing is written.

    The first line names the parameters and a digest of the data's statistics. A checkpoint from a
    different fit raises `CheckpointError`. A last line that is incomplete, because the process was
    killed while it was written, is ignored. A path that cannot be a file raises `FileError`.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.path = None if path is None else _checked_path(path)
        self.anchor: Floats | None = None
        """The logistic regression, if it has ended."""
        self._head: dict[str, Any] = {}
        self._place, self._end, self._left, self._size = 0, 0, 0, 0
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Time since the fit began, without pauses between a kill and the next start."""
        return time.monotonic() - self._start

    def load(self, settings: dict[str, Any], found: Statistics) -> None:
        """Check the file of an earlier run of the same fit, or begin a new one."""
        self._start = time.monotonic()  # now that the data have been read
        if self.path is None:
            return
        identity = {**settings, "rows": float(found.rows.sum()), "data": _digest(found)}
        self._head, self._size = {"format": FORMAT, "fit": identity}, found.mean.size + 1
        if not self.path.exists() or self.path.stat().st_size == 0:
            self._append(self._head)
            return
        try:
            fit = self._read()
        except (
            OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError
        ) as error:  # fmt: skip
            why = _shortened(str(error), 200)
            raise CheckpointError(
                f"{self.path} is not a checkpoint of apmax ({why}): delete it to start again"
            ) from None
        differs = [name for name, value in identity.items() if fit.get(name) != value]
        if differs:
            shown = ", ".join(
                f"{name} {_shortened(repr(fit.get(name)))} instead of {identity[name]!r}"
                for name in differs
            )
            raise CheckpointError(
                f"{self.path} belongs to another fit ({shown}): delete it to start again, or "
                "restore the parameters and data"
            )
        self._truncate(self._end)  # without an incomplete line
        logger.info("resuming after %d evaluations in %s", self._left, self.path)

    def recorded(self, objective: Objective) -> Objective:
        """Return an objective that takes stored evaluations first and appends new ones."""

        def evaluate(w: Floats) -> tuple[float, Floats]:
            one = self._next(w)
            if one is not None:
                self._continue_at(one.seconds)
                return one.value, one.gradient
            if self.path is not None and not (np.abs(w) <= LARGEST).all():
                raise CheckpointError(
                    f"{self.path} is damaged: its steps lead to coefficients that are not finite; "
                    "delete it to start again"
                )
            value, gradient = objective(w)
            self._append(
                {"seconds": self.seconds, "w": w.tolist(), "value": float(value),
                 "gradient": gradient.tolist()}
            )  # fmt: skip
            return value, gradient

        return evaluate

    def keep_anchor(self, anchor: Floats) -> None:
        """Replace the evaluations of the logistic regression by its result, in one step."""
        if self.path is None:
            return
        lines = (self._head, {"seconds": self.seconds, "anchor": anchor.tolist()})
        write_file(self.path, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        self._left = 0  # evaluations that were not used are those of other software

    def remove(self) -> None:
        """Delete the file; if that fails, only warn: the fit that calls has its result."""
        if self.path is None:
            return
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning(
                "the checkpoint %s cannot be deleted (%s): delete it before you fit other data",
                self.path, error.strerror or error,
            )  # fmt: skip

    def _read(self) -> dict[str, Any]:
        """Check all lines and return what the first one says about the fit."""
        lines = self._lines(0)
        head = next(lines, None)
        if head is None:
            raise ValueError("it has no complete line")
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise ValueError(f"its first line does not name the format {FORMAT!r}")
        if not isinstance(head.get("fit"), dict):
            raise ValueError("fit is not an object")
        self._left, first = 0, self._place
        for one in lines:
            if self._left == 0 and self.anchor is None and "anchor" in one:
                self.anchor, first = _vector(one["anchor"], self._size), self._place
                self._continue_at(_seconds(one["seconds"]))
            else:
                _evaluation(one, self._size)
                self._left += 1
        self._end, self._place = self._place, first
        return dict(head["fit"])

    def _lines(self, place: int) -> Iterator[Any]:
        """Yield the complete lines from a place on; `_place` is where the last one ended."""
        self._place = place
        with (self.path or Path()).open("rb") as file:
            file.seek(place)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                content = json.loads(line)
                self._place += len(line)
                yield content

    def _next(self, w: Floats) -> Evaluation | None:
        """Return the next stored evaluation; drop the rest if it is of other parameters."""
        if self._left == 0:
            return None
        place = self._place
        one = _evaluation(next(self._lines(place)), self._size)
        if np.abs(one.w - w).max() <= SAME * np.abs(w).max():
            self._left -= 1
            return one
        logger.warning(
            "%s was written by other software: %d evaluations are repeated", self.path, self._left
        )
        self._left = 0
        self._truncate(place)
        return None

    def _truncate(self, place: int) -> None:
        try:
            os.truncate(self.path or Path(), place)
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def _continue_at(self, seconds: float) -> None:
        self._start = min(self._start, time.monotonic() - seconds)

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
            raise _unwritable(self.path, error) from None


def _unwritable(path: Path | None, error: OSError) -> FileError:
    return FileError(
        f"cannot write the checkpoint {path} ({error.strerror or error}): choose a "
        "folder with space that can be written"
    )


def _checked_path(path: Any) -> Path:
    """Return the path of a file that exists, or that can be created in its folder."""
    try:
        found = Path(os.path.expanduser(os.fsdecode(path)))
        regular = stat.S_ISREG(os.stat(found).st_mode)
    except FileNotFoundError as error:
        if os.path.isdir(found.parent):
            return found
        raise _unwritable(found, error) from None
    except (TypeError, ValueError, OSError) as error:  # such as a null character, a long name
        raise FileError(
            f"checkpoint = {_shortened(repr(path))} cannot be a file ({_shortened(str(error))}): "
            "pass the path of a new file, or of one from an earlier fit"
        ) from None
    if not regular:
        raise FileError(f"checkpoint = {found} is not a file: pass the path of a file")
    return found


def _shortened(text: str, most: int = 80) -> str:
    """Return text on one line, of a length that can be read."""
    text = " ".join(text[: 10 * most].split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _evaluation(one: Any, size: int) -> Evaluation:
    value = float(_vector([one["value"]], 1)[0])
    gradient = _vector(one["gradient"], size)
    return Evaluation(_vector(one["w"], size), value, gradient, _seconds(one["seconds"]))


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < np.inf:
        raise ValueError(f"seconds is {_shortened(repr(value))}, not a number ≥ 0")
    return float(value)


def _vector(values: Any, size: int) -> Floats:
    vector = np.array(values, dtype=np.float64)
    if vector.shape != (size,) or not (np.abs(vector) <= LARGEST).all():
        raise ValueError(f"{size} numbers of at most {LARGEST:g} expected")
    return vector


def _digest(found: Statistics) -> str:
    """Return a digest of counts, weights, extents and moments of features, and of the labels."""
    digest = hashlib.sha256()
    for value in found:
        digest.update(np.asarray(value, dtype=np.float64).tobytes())
    return digest.hexdigest()
