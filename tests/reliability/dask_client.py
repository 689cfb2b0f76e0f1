"""A fit with a checkpoint: ``python -m tests.reliability.dask_client ADDRESS FOLDER``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from apmax.dask import DaskAPClassifier
from tests.dask_clusters import client_of, data


def main(address: str, folder: Path) -> int:
    X, y = data()
    with client_of(address) as client:
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
