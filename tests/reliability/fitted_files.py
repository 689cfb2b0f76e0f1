"""Files for `fit_files`: valid Parquet, Feather and CSV files, and the fits that read them."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 200


def _frames() -> list[Any]:
    """Return numbers with labels as text, and fewer types with labels as categories."""
    import pandas as pd

    rng = np.random.default_rng(3)
    X = rng.normal(size=(ROWS, 3))
    text = pd.DataFrame(X, columns=list("abc")).assign(
        y=np.where(X[:, 0] + rng.normal(size=ROWS) > 1, "yes", "no")
    )
    whole = (10 * text["b"]).astype("int32")
    return [text, text.assign(a=text["a"].clip(-1, 1), b=whole, y=pd.Categorical(text["y"]))]


@cache
def parquet_seeds() -> list[bytes]:
    """Return one file for each of several encodings of each frame."""
    return [
        frame.to_parquet(None, **options)
        for frame in _frames()
        for options in (
            {}, {"compression": None}, {"compression": "gzip", "use_dictionary": False},
            {"row_group_size": 50}, {"data_page_version": "2.0"},
        )
    ]  # fmt: skip


@cache
def feather_seeds() -> list[bytes]:
    """Return compressed and uncompressed files of each frame, one with several batches."""
    files = []
    for frame in _frames():
        for options in ({}, {"compression": "zstd"}, {"compression": "uncompressed"}):
            for chunksize in (50, ROWS):
                stream = io.BytesIO()
                frame.to_feather(stream, chunksize=chunksize, **options)
                files.append(stream.getvalue())
    return files


@cache
def csv_seeds() -> list[bytes]:
    """Return the frames as text."""
    return [frame.head(40).to_csv(index=False).encode() for frame in _frames()]


def fit(path: Path) -> Any:
    """Fit a linear model to all rows, from a copy and without, and other models to a sample."""
    from apmax import APClassifier, AutoAPClassifier
    from apmax.errors import ApmaxError

    refused = None
    for model, options in (
        (APClassifier(alpha=0.1, max_iter=5), {}),
        (APClassifier(alpha=0.1, max_iter=5), {"cache": False}),
        (AutoAPClassifier(["logistic"], cv=2), {}),
    ):
        try:
            model.fit_files(path, "y", **options)
        except ApmaxError as error:
            refused = error
    if refused is not None:
        raise refused
    return model.classes_.tolist()
