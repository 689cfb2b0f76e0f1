"""A fit on the cluster at ADDRESS with a checkpoint: ``dask_client.py ADDRESS FOLDER``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from distributed import Client

from apmax.dask import DaskAPClassifier

ROWS, PARTS = 4_000, 8


def rows_of(part: int) -> np.ndarray:
    return np.random.default_rng(part).normal(size=(ROWS // PARTS, 4))


def main(address: str, folder: Path) -> int:
    rows = dask.delayed(rows_of)
    X = da.concatenate([da.from_delayed(rows(i), (ROWS // PARTS, 4), float) for i in range(PARTS)])
    y = X[:, 0] + X[:, 1] ** 2 > 3
    with Client(address, timeout=60) as client:
        model = DaskAPClassifier(alpha=0.01, client=client, checkpoint=folder / "fit.json")
        model.fit(X, y)
    if model.result_.interrupted:
        return 130
    part = folder / "fit.npy.part"
    with part.open("wb") as file:
        np.save(file, np.append(model.coef_, model.intercept_))
    os.replace(part, folder / "fit.npy")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
