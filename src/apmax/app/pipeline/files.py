"""Predictions on disk, or on their way through a pipe."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from apmax.app.disk import write_aside
from apmax.app.pipeline.model import Model
from apmax.errors import ParameterError
from apmax.validation import Floats

FORMATS = (".csv", ".tsv", ".parquet")


def predictions(log_odds: Floats, model: Model) -> dict[str, Any]:
    """Arrays of the probability, log-odds and label of every row."""
    label = np.where(log_odds >= 0, model.positive, model.negative)
    return {"probability": expit(log_odds), "log_odds": log_odds, "label": label}


def write_predictions(log_odds: Floats, model: Model, path: Path | None) -> None:
    """The predictions as a table; to stdout without a path."""
    import pandas as pd

    frame = pd.DataFrame(predictions(log_odds, model))
    if path is None:
        frame.to_csv(sys.stdout, index=False)
        return
    write_aside(path, _bytes_of(frame, path))


def check_output(path: Path | None) -> None:
    """Before the work: that the format is known."""
    if path is not None and path.suffix.lower() not in FORMATS:
        raise ParameterError(f"`--out` = {path} must end with {', '.join(FORMATS)}: choose one")


def _bytes_of(frame: Any, path: Path) -> bytes:
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        text: str = frame.to_csv(index=False, sep="\t" if suffix == ".tsv" else ",")
        return text.encode()
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
