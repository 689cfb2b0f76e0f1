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
from apmax.disk import write_aside
from apmax.errors import ModelFileError
from apmax.pipeline.encoder import TableEncoder
from apmax.pipeline.model import Model

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
    whole = _parsed(Path(path))
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not a model of apmax: train one with `apmax train`")
    schema = whole.get("schema")
    if not isinstance(schema, int) or schema < 1 or schema > SCHEMA:
        raise ModelFileError(
            f"{path} was written by apmax {str(whole.get('version'))[:20]} with schema "
            f"{str(schema)[:20]}, and this is {__version__} with schema {SCHEMA}: upgrade apmax"
        )
    body = whole.get("model")
    if not isinstance(body, dict) or whole.get("digest") != _digest(body):
        raise ModelFileError(f"{path} is damaged: its digest does not match; take another copy")
    try:
        return _model_of(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{path} holds no usable model ({error}): train it again") from None


def _parsed(path: Path) -> Any:
    try:
        if path.stat().st_size > LARGEST:
            raise ModelFileError(f"{path} is too large for a model: is it data?")
        return json.loads(path.read_bytes())
    except OSError as error:
        raise ModelFileError(f"cannot read {path} ({error.strerror})") from None
    except (ValueError, RecursionError):  # no JSON, no UTF-8, or nested without end
        raise ModelFileError(
            f"{path} is not a model of apmax, or was cut short: train one with `apmax train`"
        ) from None


def _model_of(body: dict[str, Any]) -> Model:
    weights = base64.b64decode(body["coef"], validate=True)
    coef = np.frombuffer(weights, dtype="<f8").astype(np.float64)
    intercept = body["intercept"]
    encoder = body["encoder"]
    model = Model(
        coef=coef,
        intercept=float(intercept),
        positive=body["positive"],
        negative=body["negative"],
        target=body["target"],
        encoder=None if encoder is None else TableEncoder.from_json(encoder),
        facts=dict(body["facts"]),
    )
    if not (np.isfinite(coef).all() and np.isfinite(model.intercept) and coef.size):
        raise ValueError("weights are missing or not finite")
    if not (isinstance(model.positive, str) and isinstance(model.negative, str)):
        raise TypeError("labels are not text")
    if len(model.feature_names()) != coef.size:
        raise ValueError("there are not as many weights as features")
    return model


def _digest(body: dict[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
