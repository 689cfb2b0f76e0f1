"""One set of labels and scores in every type and memory layout that apmax accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import torch

RNG = np.random.default_rng(0)
N = 60
Y = RNG.random(N) < 0.3
S = np.round(RNG.normal(size=N) + Y, 2).astype(np.float32).astype(np.float64)
"""Scores that float32 represents exactly, with ties."""


def read_only(values: Any) -> Any:
    values = np.array(values)
    values.flags.writeable = False
    return values


def unaligned(values: Any) -> Any:
    values = np.asarray(values)
    return np.frombuffer(b"\0" + values.tobytes(), np.uint8)[1:].view(values.dtype)


LAYOUTS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "labels 0 and 1": lambda: (Y.astype(int), S),
    "labels -1 and 1": lambda: (np.where(Y, 1, -1), S),
    "lists": lambda: (Y.tolist(), S.tolist()),
    "float32": lambda: (Y.astype(np.float32), S.astype(np.float32)),
    "longdouble": lambda: (Y, S.astype(np.longdouble)),
    "big-endian": lambda: (Y.astype(">i4"), S.astype(">f8")),
    "read-only": lambda: (read_only(Y), read_only(S)),
    "strided": lambda: (np.repeat(Y, 2)[::2], np.repeat(S, 3)[::3]),
    "unaligned": lambda: (Y, unaligned(S)),
    "pandas": lambda: (pd.Series(Y, index=range(9, N + 9)), pd.Series(S)),
    "nullable pandas": lambda: (pd.Series(Y).astype("boolean"), pd.Series(S).astype("Float64")),
    "polars": lambda: (pl.Series(Y), pl.Series(S)),
    "tensors": lambda: (torch.tensor(Y), torch.tensor(S)),
    "objects": lambda: (Y.astype(object), S.astype(object)),
}


def array_bytes(values: Any) -> bytes | None:
    """Return the content of an array, to see whether a call has changed it."""
    return values.tobytes() if isinstance(values, np.ndarray) else None


def assert_close(found: Any, expected: Any, **options: Any) -> None:
    """Compare numbers, arrays, and tuples or lists of them to 1e-12; None equals only None."""
    if isinstance(expected, (tuple, list)):
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, **options)
    elif expected is None:
        assert found is None
    else:
        np.testing.assert_allclose(found, expected, **{"rtol": 1e-12, "atol": 1e-12, **options})
