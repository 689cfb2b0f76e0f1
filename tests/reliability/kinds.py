"""Scores and labels of every kind that mean the same, for tables of functions × inputs."""

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
"""Scores that float32 holds exactly, with ties."""


def frozen(values: Any) -> Any:
    values = np.array(values)
    values.flags.writeable = False
    return values


def unaligned(values: Any) -> Any:
    values = np.asarray(values)
    raw = np.frombuffer(b"\0" + values.tobytes(), np.uint8)[1:]
    return raw.view(values.dtype)


SAME: dict[str, Callable[[], tuple[Any, Any]]] = {
    # all of these mean the plain Y and S
    "labels 0 and 1": lambda: (Y.astype(int), S),
    "labels -1 and 1": lambda: (np.where(Y, 1, -1), S),
    "labels as floats": lambda: (Y.astype(np.float32), S),
    "labels as uint8": lambda: (Y.astype(np.uint8), S),
    "lists": lambda: (Y.tolist(), S.tolist()),
    "a column": lambda: (Y[:, None], S[:, None]),
    "float32": lambda: (Y, S.astype(np.float32)),
    "longdouble": lambda: (Y, S.astype(np.longdouble)),
    "big-endian": lambda: (Y.astype(">i4"), S.astype(">f8")),
    "read-only": lambda: (frozen(Y), frozen(S)),
    "not contiguous": lambda: (np.repeat(Y, 2)[::2], np.repeat(S, 3)[::3]),
    "backwards in memory": lambda: (Y[::-1].copy()[::-1], S[::-1].copy()[::-1]),
    "not aligned": lambda: (Y, unaligned(S)),
    "pandas": lambda: (pd.Series(Y, index=range(9, N + 9)), pd.Series(S)),
    "nullable pandas": lambda: (pd.Series(Y).astype("boolean"), pd.Series(S).astype("Float64")),
    "nullable integers": lambda: (pd.Series(Y).astype("Int8"), pd.Series(S)),
    "polars": lambda: (pl.Series(Y), pl.Series(S)),
    "tensors": lambda: (torch.tensor(Y), torch.tensor(S)),
    "objects": lambda: (Y.astype(object), S.astype(object)),
}


def contents(values: Any) -> bytes | None:
    """What must not change."""
    return values.tobytes() if isinstance(values, np.ndarray) else None


def equal(found: Any, expected: Any, **how: Any) -> None:
    if isinstance(expected, (tuple, list)):
        for one, other in zip(found, expected, strict=True):
            equal(one, other, **how)
    elif expected is not None:
        np.testing.assert_allclose(found, expected, **{"rtol": 1e-12, "atol": 1e-12, **how})
