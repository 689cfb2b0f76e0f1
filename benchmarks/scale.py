"""Data larger than memory: cost of an evaluation, of fits from files, and of fits with Dask.

``python -m benchmarks.scale`` runs all parts; ``--part NAME`` one of them, ``--rows`` sizes of the
files. Files are synthetic and are deleted afterwards. Bars are printed beside each line.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import RESULTS, Line, medians, report

FEATURES = 30
ROWS_PER_FILE = 1_000_000


def rare(n: int, seed: int, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Normal features, 1 % positives whose log-odds are linear in five features plus a square."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, FEATURES), dtype=np.float32).astype(dtype, copy=False)
    log_odds = X[:, :5] @ np.array([1, 0.8, 0.6, 0.4, 0.2], dtype) + 0.3 * X[:, 0] ** 2 - 6
    return X, rng.random(n) < 1 / (1 + np.exp(-log_odds))


def write_parquet(folder: Path, rows: int) -> str:
    """Write files of `ROWS_PER_FILE` rows in the folder; return their pattern."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = min(rows, ROWS_PER_FILE)
    for number in range(rows // size):
        X, y = rare(size, number)
        table = pa.table({**{f"x{k}": X[:, k] for k in range(FEATURES)}, "y": y})
        pq.write_table(table, folder / f"{number:04d}.parquet", compression=None)
    return str(folder / "*.parquet")


def evaluation_lines() -> Iterator[Line]:
    """An evaluation of the AP objective relative to one of log-loss, in memory and from a file."""
    from apmax.blas_threads import one_blas_thread
    from apmax.scale.blocks import MemoryBlocks, Progress
    from apmax.scale.cache import CachedBlocks, FlatFiles
    from apmax.scale.files import TableFiles
    from apmax.scale.fit import ap_objective, logistic_objective, scaling_of
    from apmax.scale.sums import merge_statistics, statistics

    def ratio(engine: Any, repeats: int) -> float:
        found = engine.fold(statistics, merge_statistics)
        scaling = scaling_of(found, sparse=False)
        w = np.full(FEATURES + 1, 0.1)
        w[-1] = -4
        logistic = logistic_objective(engine, scaling, found.weight.sum(), 1e-6)
        ap = ap_objective(engine, scaling, 20.0, 1.0, w)
        with one_blas_thread(0):
            ours, theirs = medians(
                repeats, partial(ap, w), partial(logistic, w), clock=time.process_time
            )
        return ours / theirs

    for dtype in (np.float64, np.float32):
        X, y = rare(2_000_000, 0, dtype)
        name = np.dtype(dtype).name
        yield Line(
            f"AP / log-loss evaluation, in memory, {name}", ratio(MemoryBlocks(X, y), 7), 1.8
        )
    with tempfile.TemporaryDirectory() as folder:
        table = TableFiles(write_parquet(Path(folder), 2_000_000), "y")
        flat = FlatFiles(table, folder, Progress())
        engine = CachedBlocks(flat, flat.labels.values.index(True))
        yield Line("AP / log-loss evaluation, flat file, float32", ratio(engine, 7), 1.5)
        flat.close()


PEAK = """
def peak():  # not ru_maxrss, which a child inherits
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
"""
FIT_FILES = (
    PEAK
    + """
import json, resource, sys, time
from apmax import APClassifier
from apmax.scale.cache import CachedBlocks
passes, merged = 0, CachedBlocks.merged
def counted(*arguments):
    global passes
    passes += 1
    return merged(*arguments)
CachedBlocks.merged = counted
start = time.time()
model = APClassifier().fit_files(sys.argv[1], "y", cache=json.loads(sys.argv[2]))
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"cpu": usage.ru_utime + usage.ru_stime, "seconds": time.time() - start,
    "rss": peak(), "iterations": model.n_iter_, "passes": passes,
    "coef": model.coef_[0].tolist()}))
"""
)
FIT_MEMORY = (
    PEAK
    + """
import json, resource, sys, time
import numpy as np
import pyarrow.dataset as ds
from apmax import APClassifier
start = time.time()
data = ds.dataset(sorted(__import__("glob").glob(sys.argv[1])))
table = data.to_table()
y = table.column("y").to_numpy()
names = [name for name in table.column_names if name != "y"]
X = np.empty((table.num_rows, len(names)), np.float32)
for k, name in enumerate(names):
    X[:, k] = table.column(name).to_numpy()
del table
model = APClassifier().fit(X, y)
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"cpu": usage.ru_utime + usage.ru_stime, "seconds": time.time() - start,
    "rss": peak(), "iterations": model.n_iter_, "coef": model.coef_[0].tolist()}))
"""
)


def run(program: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def file_lines(sizes: list[int], folder: str | None) -> Iterator[Line]:
    """Peak memory and CPU time of fits from files.

    CPU time and passes of each size are stored in docs/results/scale_files_cpu.json.
    """
    peaks, times = [], []
    for rows in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            pattern = write_parquet(Path(place), rows)
            found = run(FIT_FILES, pattern, json.dumps(place))
            print(
                f"({rows:.0e} rows: {found['seconds']:.0f} s, CPU {found['cpu']:.0f} s, "
                f"{found['iterations']} iterations)"
            )
            peaks.append(found["rss"])
            cpu, passes = round(found["cpu"], 1), found["passes"]
            times.append({"rows": rows, "cpu_seconds": cpu, "passes": passes})
            yield Line(f"peak RSS in MB, {rows:.0e} rows × {FEATURES}", found["rss"], 1000)
            if rows <= 10**7:
                memory = run(FIT_MEMORY, pattern)
                print(
                    f"(in memory: {memory['seconds']:.0f} s, CPU {memory['cpu']:.0f} s, "
                    f"{memory['rss']:.0f} MB)"
                )
                # Only fits in memory calibrate by a curve, which changes the length of coef_.
                ours, theirs = (np.array(fit["coef"]) for fit in (found, memory))
                apart = ours / np.linalg.norm(ours) - theirs / np.linalg.norm(theirs)
                most = float(np.max(np.abs(apart)))
                yield Line(f"difference of unit coef_ × 1e6, {rows:.0e} rows", most * 1e6, 10)
                cpu = found["cpu"] / memory["cpu"]
                yield Line(f"CPU, files / (load + fit in memory), {rows:.0e} rows", cpu, 1.3)
    if len(peaks) > 1:
        yield Line("peak RSS, most / fewest rows", peaks[-1] / peaks[0], 1.05)
    (RESULTS / "scale_files_cpu.json").write_text(json.dumps(times, indent=1) + "\n")


def traffic_lines() -> Iterator[Line]:
    """Size of a summary, and the time to merge those of 100 workers.

    Both are stored in docs/results/scale_summaries.json.
    """
    from apmax.scale.blocks import Block
    from apmax.scale.cluster import FAN_IN, _combine
    from apmax.scale.sums import Scaling, add, vector_moments

    stored = []
    for features in (30, 300, 1000):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((2000, features))
        scaling = Scaling(np.zeros(features), np.ones(features))
        w = np.append(rng.normal(size=features) / features**0.5, -2.0)
        summary = vector_moments(Block(X, X[:, 0] > 2, np.empty(0)), scaling, w, 20.0)
        size = len(pickle.dumps(summary, protocol=5))
        level = [summary] * 100
        start = time.process_time()
        while len(level) > 1:
            level = [_combine(add, level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
        merging = time.process_time() - start
        print(
            f"({features} features: {size / 1e3:.0f} KB per summary; 100 workers send "
            f"{100 * size / 1e6:.0f} MB per evaluation, and merging takes "
            f"{merging * 1e3:.0f} ms of CPU time)"
        )
        stored.append({"features": features, "bytes": size, "merging_ms": round(merging * 1e3, 1)})
        yield Line(f"KB of a summary, {features} features", size / 1e3, 12 * (features + 1))
    (RESULTS / "scale_summaries.json").write_text(json.dumps(stored, indent=1) + "\n")


def main() -> None:
    from benchmarks.scale_dask import dask_lines

    parser = argparse.ArgumentParser()
    parts = ("evaluation", "files", "traffic", "dask")
    parser.add_argument("--part", choices=parts, action="append")
    parser.add_argument("--rows", type=float, nargs="+", default=[1e7, 5e7])
    parser.add_argument("--folder", default=os.environ.get("TMPDIR"))
    options = parser.parse_args()
    rows = [int(one) for one in options.rows]
    every: dict[str, Callable[[], Iterator[Line]]] = {
        "evaluation": evaluation_lines,
        "files": partial(file_lines, rows, options.folder),
        "traffic": traffic_lines,
        "dask": dask_lines,
    }
    missed = sum(report(f"scale_{part}", every[part]()) for part in options.part or parts)
    sys.exit(0 if missed == 0 else 1)


if __name__ == "__main__":
    main()
