"""A fit of many CSR rows; prints what it took. ``python large.py ROWS SOLVER``"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

ENTRIES, FEATURES = 8, 1000


def make_data(rows: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Float32 entries of a few features per row, 3 % positives; made in place, in blocks."""
    rng = np.random.default_rng(0)
    indices = np.empty((rows, ENTRIES), dtype=np.int32)
    data = np.empty((rows, ENTRIES), dtype=np.float32)
    score = np.empty(rows, dtype=np.float32)
    hidden = rng.normal(size=FEATURES).astype(np.float32)
    width = FEATURES // ENTRIES
    for start in range(0, rows, 1 << 18):
        block = slice(start, min(start + (1 << 18), rows))
        size = block.stop - block.start
        indices[block] = rng.integers(0, width, (size, ENTRIES)) + width * np.arange(ENTRIES)
        data[block] = rng.random((size, ENTRIES), dtype=np.float32)
        score[block] = (data[block] * hidden[indices[block]]).sum(axis=1)
        score[block] += 2 * rng.normal(size=size)
    y = score > np.quantile(score[:100_000], 0.97)
    indptr = np.arange(0, rows * ENTRIES + 1, ENTRIES, dtype=np.int32)
    X = sp.csr_matrix((data.ravel(), indices.ravel(), indptr), (rows, FEATURES))
    X.has_canonical_format = True
    return X, y


def resident() -> float:
    """Megabytes that the process has now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS in /proc/self/status")


def peak_of_everything() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(rows: int, solver: str) -> None:
    from apmax import APClassifier, average_precision

    small, labels = make_data(2000)
    APClassifier(solver, max_iter=5, random_state=0).fit(small, labels)  # loads the kernels
    X, y = make_data(rows)
    megabytes = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes) / 2**20
    before = resident()
    highest = [before]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            highest[0] = max(highest[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.perf_counter()
    model = APClassifier(solver, max_iter=1000 if solver != "lbfgs" else 20, random_state=0)
    model.fit(X, y)
    seconds = time.perf_counter() - begin
    ended.set()
    watcher.join()
    ap = average_precision(y, model.decision_function(X))
    told = {
        "rows": rows, "solver": solver, "data_mb": round(megabytes), "seconds": round(seconds, 1),
        "fit_mb": round(highest[0] - before), "peak_mb": round(peak_of_everything()),
        "arrays_of_n_doubles": round((highest[0] - before) * 2**20 / (8 * rows), 2),
        "ap": round(ap, 4), "prevalence": round(float(y.mean()), 4),
    }  # fmt: skip
    print(json.dumps(told))


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    main(int(sys.argv[1]), sys.argv[2])
