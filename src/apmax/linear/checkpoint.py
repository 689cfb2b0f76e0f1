"""A stochastic fit on disk, so that a run that was killed goes on and ends with the same bits.

A checkpoint is one file in a folder of its own: a line of JSON, then arrays as raw bytes. It is
read, never run, and written aside and renamed. It carries the digests of the data and of the
draws, the parameters and the versions: it is gone on with only if all of them are the same.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray

from apmax._version import __version__
from apmax.app.disk import locked_folder, make_folder, write_aside
from apmax.errors import CheckpointError
from apmax.linear.base import TrainingSet
from apmax.linear.settings import Settings

FILE, FORMAT, SCHEMA = "fit.checkpoint", "apmax-checkpoint", 2
SECONDS = 1.0
"""Between two writings, at least."""
SHARE = 0.02
"""Of the time, at most, that is spent on writing."""
NOT_IN_IDENTITY = ("checkpoint", "verbose", "warm_start")
"""Parameters that change nothing of what a fit finds; a warm start is known by its weights."""
DIGESTS = ("data", "random_state", "start")
"""What an identity holds as digests only."""

Arrays = dict[str, NDArray[Any]]


@dataclass
class Saved:
    """A fit after some of its rounds: arrays, and the rest as plain JSON."""

    arrays: Arrays
    facts: dict[str, Any]


def identity_of(
    model: Any,
    settings: Settings,
    data: TrainingSet,
    rng: np.random.Generator,
    start: NDArray[Any] | None,
) -> dict[str, Any]:
    """What tells a fit from others: versions, data, draws, the start if warm, and parameters.

    Those that are None count as what they stand for, which another version may decide otherwise.
    """
    import numba  # as the kernels do: when it is needed

    skipped = (*NOT_IN_IDENTITY, "random_state")
    parameters = {
        name: value for name, value in model.get_params(deep=False).items() if name not in skipped
    }
    parameters |= settings._asdict() | {"surrogate": settings.surrogate.name}
    return {
        "versions": f"apmax {__version__}, NumPy {np.__version__}, Numba {numba.__version__}, "
        f"SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}",
        "data": _digest_of_data(data),
        "random_state": hashlib.sha256(json.dumps(generator_state(rng)).encode()).hexdigest(),
        "start": None if start is None else hashlib.sha256(start.tobytes()).hexdigest(),
        **json.loads(json.dumps(parameters, default=float)),
    }


def generator_state(rng: np.random.Generator) -> Any:
    """The state of any of NumPy's bit generators as plain data."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else value

    return plain(rng.bit_generator.state)


def restore_generator(rng: np.random.Generator, state: Any) -> None:
    """Put a generator of the same kind where :func:`generator_state` found it."""

    def like(old: Any, new: Any) -> Any:
        if isinstance(old, dict):
            return {key: like(part, new[key]) for key, part in old.items()}
        return np.array(new, dtype=old.dtype) if isinstance(old, np.ndarray) else new

    rng.bit_generator.state = like(rng.bit_generator.state, state)


@dataclass
class Checkpoint:
    """The file of one fit, while that fit has the folder to itself."""

    path: Path
    identity: dict[str, Any]
    saved: Saved | None = None
    """What an earlier run of the same fit has left."""
    next_writing: float = field(default_factory=lambda: time.perf_counter() + SECONDS)

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.perf_counter() >= self.next_writing

    def write(self, saved: Saved, *, finished: bool = False) -> None:
        """Replace the file by this state."""
        begin = time.perf_counter()
        blob = b"".join(array.tobytes() for array in saved.arrays.values())
        body = {
            "identity": self.identity,
            "finished": finished,
            "facts": saved.facts,
            "arrays": {
                name: [array.dtype.str, *array.shape] for name, array in saved.arrays.items()
            },
        }
        line = json.dumps(
            {
                "format": FORMAT,
                "schema": SCHEMA,
                "versions": self.identity["versions"],
                "digest": _digest(body, blob),
                "body": body,
            }
        )
        write_aside(self.path, line.encode() + b"\n" + blob)
        end = time.perf_counter()
        self.next_writing = end + max(SECONDS, (end - begin) / SHARE)


@contextmanager
def open_checkpoint(
    folder: str | os.PathLike[str], identity: dict[str, Any]
) -> Iterator[Checkpoint]:
    """The folder's checkpoint, locked; an unfinished one of another fit is not lost but refused."""
    place = Path(folder)
    make_folder(place)
    with locked_folder(place) as alone:
        if not alone:
            raise CheckpointError(
                f"`checkpoint` = {str(place)!r} is in use by another fit that runs now: wait for "
                "it, or give each fit a folder of its own"
            )
        path = place / FILE
        yield Checkpoint(path, identity, _read(path, identity) if path.exists() else None)


def _read(path: Path, identity: dict[str, Any]) -> Saved | None:
    """The state of the same fit; None if it is another's that has come to its end."""
    try:
        line, _, blob = path.read_bytes().partition(b"\n")
        whole = json.loads(line)
        if whole["format"] != FORMAT:
            raise ValueError("its format is another")
        if whole["schema"] != SCHEMA:
            raise CheckpointError(
                f"{path} was written by {str(whole['versions'])[:80]}, and this is "
                f"{identity['versions']}: {_remedy(path, 'use that version again')}"
            )
        body = whole["body"]
        if whole["digest"] != _digest(body, blob):
            raise ValueError("its digest does not match")
        if whole["versions"] != body["identity"]["versions"]:
            raise ValueError("its versions do not match")
        saved = Saved(_arrays_of(body["arrays"], blob), dict(body["facts"]))
        theirs, finished = dict(body["identity"]), bool(body["finished"])
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f"cannot read {path} ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, RecursionError, UnicodeError) as error:
        what = f"{type(error).__name__}: {error}"[:100]
        raise CheckpointError(
            f"{path} is no checkpoint, or a damaged one ({what}): delete it to start anew"
        ) from None
    differing = [name for name in identity if theirs.get(name) != identity[name]]
    if differing and not finished:
        told = "; ".join(_difference(name, theirs, identity) for name in differing[:3])
        raise CheckpointError(
            f"{path} is of another fit that has not come to its end ({told}): "
            f"{_remedy(path, 'run that fit again')}"
        )
    return None if differing else Saved(saved.arrays, {**saved.facts, "finished": finished})


def _difference(name: str, theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    if name in DIGESTS:
        return f"its {name} is another"
    return f"{name} was {str(theirs.get(name))[:80]} and is {str(ours[name])[:80]}"


def _remedy(path: Path, first: str) -> str:
    return f"{first}, choose another folder, or delete {path.name} to start anew"


def _arrays_of(layout: dict[str, list[Any]], blob: bytes) -> Arrays:
    arrays, at = {}, 0
    for name, (dtype, *shape) in layout.items():
        kind = np.dtype(dtype)
        if kind.hasobject or min(shape, default=0) < 0:
            raise ValueError(f"{name} is of {kind} and {shape}")
        count = math.prod(shape)
        array = np.frombuffer(blob, kind, count, at)
        arrays[name] = array.reshape(shape).copy()
        at += array.nbytes
    return arrays


def _digest_of_data(data: TrainingSet) -> str:
    """SHA-256 of X, of which rows are positive, and of the weights."""
    digest = hashlib.sha256(str((data.X.shape, data.X.dtype.str)).encode())
    parts = [data.X.indptr, data.X.indices, data.X.data] if sp.issparse(data.X) else [data.X]
    for part in (*parts, data.positive, *(() if data.weight is None else (data.weight,))):
        digest.update(part.dtype.str.encode())
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def _digest(body: dict[str, Any], blob: bytes) -> str:
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode())
    digest.update(blob)
    return digest.hexdigest()
