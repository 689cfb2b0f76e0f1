"""Models on disk: one JSON file that is read, never run.

The weights are base64 of little-endian doubles, all else is plain JSON. A file carries its
format, its schema and a digest: what is cut short, changed, forged or newer is refused. It is
written aside and renamed, so that a reader sees the old model or the new one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from apmax._version import __version__
from apmax.app.disk import write_aside
from apmax.app.pipeline.encoder import TableEncoder
from apmax.app.pipeline.model import Model
from apmax.errors import ModelFileError

FORMAT, SCHEMA = "apmax-model", 1
LARGEST = 1 << 31
"""Bytes of a file above which it is not a linear model."""


def save_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write the model; on any error the file that was there is as it was."""
    body = {
        "target": model.target,
        "positive": model.positive,
        "negative": model.negative,
        "encoder": None if model.encoder is None else model.encoder.to_json(),
        "coef": base64.b64encode(model.coef.astype("<f8").tobytes()).decode("ascii"),
        "intercept": float(model.intercept),
        "facts": model.facts,
        "rest": model.rest,
    }
    whole = {
        "format": FORMAT,
        "schema": SCHEMA,
        "version": __version__,
        "digest": _digest(body),
        "model": body,
    }
    write_aside(Path(path), json.dumps(whole, indent=1, ensure_ascii=False).encode())


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model that :func:`save_model` wrote; ModelFileError for anything else."""
    try:
        return _loaded(Path(path))
    except RecursionError:
        raise ModelFileError(
            f"{path} is no model of apmax, it is nested without end: train one with `apmax train`"
        ) from None


def _loaded(path: Path) -> Model:
    whole = _parsed(path)
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not a model of apmax: train one with `apmax train`")
    schema = whole.get("schema")
    if not isinstance(schema, int) or schema < 1 or schema > SCHEMA:
        raise ModelFileError(
            f"{path} was written by apmax {_shown(whole.get('version'))} with schema "
            f"{_shown(schema)}, and this is {__version__} with schema {SCHEMA}: upgrade apmax"
        )
    body = whole.get("model")
    if not isinstance(body, dict) or whole.get("digest") != _digest(body):
        raise ModelFileError(f"{path} is damaged: its digest does not match; take another copy")
    try:
        return _model_of(body)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ModelFileError(
            f"{path} holds no usable model ({_shown(error, 100)}): train it again"
        ) from None


def _shown(value: Any, most: int = 20) -> str:
    """A stranger's words in a message: on one line, and not too many."""
    return " ".join(str(value).encode("ascii", "replace").decode().split())[:most]


def _parsed(path: Path) -> Any:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ModelFileError(
                f"cannot read {path}, it is no regular file (a pipe or a device): save it as a file"
            )
        if path.stat().st_size > LARGEST:
            raise ModelFileError(f"{path} is too large for a model: is it data?")
        return json.loads(path.read_bytes(), object_pairs_hook=_without_doubles)
    except OSError as error:
        raise ModelFileError(f"cannot read {path} ({error.strerror})") from None
    except MemoryError:
        raise ModelFileError(f"{path} is too large for the memory: is it data?") from None
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, or nested without end
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(
            f"{path} is not a model of apmax, or was cut short: train one with `apmax train`"
        ) from None


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that stands twice: another program would read another model."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _model_of(body: dict[str, Any]) -> Model:
    """The model, if everything in it is of the type that it should be."""
    weights = base64.b64decode(_of_type(body, "coef", str), validate=True)
    encoder = body["encoder"]
    target = None if body["target"] is None else _text(_of_type(body, "target", str))
    model = Model(
        coef=np.frombuffer(weights, dtype="<f8").astype(np.float64),
        intercept=float(_of_type(body, "intercept", (int, float))),
        positive=_text(_of_type(body, "positive", str)),
        negative=_text(_of_type(body, "negative", str)),
        target=target,
        encoder=None if encoder is None else TableEncoder.from_json(encoder),
        facts=_of_type(body, "facts", dict),
        rest=_texts(body.get("rest")),  # older files have none
    )
    if not (np.isfinite(model.coef).all() and np.isfinite(model.intercept) and model.coef.size):
        raise ValueError("weights are missing or not finite")
    if len(model.feature_names()) != model.coef.size:
        raise ValueError("there are not as many weights as features")
    _text(json.dumps([model.feature_names(), model.facts], ensure_ascii=False))
    return model


def _of_type(body: dict[str, Any], name: str, kind: Any) -> Any:
    value = body[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name} is of type {type(value).__name__}")
    return value


def _text(value: str) -> str:
    """The same, if it can be written: half a character of UTF-16 cannot."""
    value.encode()
    return value


def _texts(values: Any) -> list[str] | None:
    if values is None:
        return None
    if not (isinstance(values, list) and all(isinstance(value, str) for value in values)):
        raise TypeError("rest is no list of labels")
    return [_text(value) for value in values]


def _digest(body: dict[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
