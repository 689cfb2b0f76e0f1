"""Elapsed time and memory of whole commands, on tables of real and of synthetic data.

``python -m benchmarks.command_line`` runs the commands of `RUNS` one after another, or those that
``--only`` names, and stores each result in docs/results/command_line.json. Memory is the largest
sum of the proportional set sizes of the command and its workers. Run it on a machine without other
work.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import psutil

from benchmarks import tables
from benchmarks.timing import RESULTS

STORED = RESULTS / "command_line.json"
FOREST = """
import sys
import pandas as pd
from apmax.tabular.library import fit_trees
from apmax.tabular.logistic import Shape
X = pd.read_parquet("table.parquet")
y = X.pop("y").to_numpy()
keep = [fit_trees(name, X.to_numpy(), y, None, Shape(30, 0), seed)
    for seed in range(int(sys.argv[1])) for name in ("extra-trees", "random-forest")]
"""
ADDITIVE = """
import pandas as pd
from apmax import AdditiveAPClassifier
X = pd.read_parquet("table.parquet")
AdditiveAPClassifier(n_jobs=2).fit(X, X.pop("y"))
"""


class Run(NamedTuple):
    """A command, and the table that it reads."""

    what: str
    table: str
    command: str
    rows: int
    columns: int
    """With the target, and without date and noise."""
    memory: str = ""
    """APMAX_MEMORY."""
    program: str = ""
    """Python code, with the words of `command` as its arguments."""


TRAIN = "apmax train {table} --target target --positive yes --jobs 2 --json --out m.apmax"
RUNS = {
    "train": Run("`apmax train`, adult with a date and a noise column", "adult",
                 TRAIN.replace(" --jobs 2", ""), 45_000, 15),
    "compare": Run("`apmax compare`, the same table", "adult",
                   "apmax compare {table} --target target --positive yes", 45_000, 15),
    "one minute": Run("`apmax train --minutes 1`, the same table", "adult",
                      TRAIN.replace(" --jobs 2", "") + " --minutes 1", 45_000, 15),
    "additive": Run("`AdditiveAPClassifier(n_jobs=2)`, 10⁶ rows × 30 numbers", "normal", "",
                    1_000_000, 31, "", ADDITIVE),
    "forests": Run("200 trees of both forests, 120,000 rows × 30 numbers, 30 % positives",
                   "normal", "1", 120_000, 31, "", FOREST),
    "forests of five folds": Run("the same five times", "normal", "5", 120_000, 31, "", FOREST),
    "memory: adult": Run("adult, CSV", "adult", TRAIN + " --minutes 3", 32_561, 15),
    "memory: adult × 5": Run("adult, five copies, CSV", "adult", TRAIN + " --model additive",
                             162_805, 15),
    "memory: cover": Run("cover, CSV", "cover", TRAIN + " --model additive", 286_048, 11),
    "memory: cover, limited": Run("cover, CSV", "cover", TRAIN + " --minutes 3", 286_048, 11),
    "memory: celeba": Run("celeba, CSV", "celeba", TRAIN + " --minutes 3", 202_599, 40),
    "memory: normal": Run("synthetic, Parquet", "normal", TRAIN + " --minutes 3", 400_000, 31),
    "memory: sampled": Run("synthetic, Parquet of 5.1 GB", "normal", TRAIN + " --minutes 3",
                           21_000_000, 31, "4GB"),
}  # fmt: skip


@lru_cache(1)
def frame(table: str) -> pd.DataFrame:
    """Return all rows of a table of the benchmarks, with the column `target`."""
    X, y = tables.load(table)
    named = pd.DataFrame(X).rename(columns=str)
    return named.assign(target=np.where(y, "yes", "no"))


def written(run: Run, folder: Path) -> str:
    """Write the table of a run; return the name of its file."""
    rng = np.random.default_rng(0)
    if run.table != "normal":
        table = frame(run.table)
        table = pd.concat([table] * -(-run.rows // len(table)), ignore_index=True)[: run.rows]
        if "noise" in run.what or "same" in run.what:
            day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, run.rows), "D")
            table = table.assign(day=day.strftime("%Y-%m-%d"), noise=rng.normal(size=run.rows))
        table.to_csv(folder / "table.csv", index=False)
        return "table.csv"
    import pyarrow as pa
    import pyarrow.parquet as pq

    share = 0.3 if run.rows == 120_000 else 0.05
    target = "y" if run.program else "target"
    with pq.ParquetWriter(folder / "table.parquet", _schema(target, bool(run.program))) as file:
        for start in range(0, run.rows, 1_000_000):
            n = min(1_000_000, run.rows - start)
            X = rng.standard_normal((n, run.columns - 1))
            score = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n)
            y = score > np.quantile(score, 1 - share)
            columns: list[Any] = [*X.T, y if run.program else np.where(y, "yes", "no")]
            file.write_table(pa.table(columns, schema=file.schema))
    return "table.parquet"


def _schema(target: str, truth: bool) -> Any:
    import pyarrow as pa

    numbers = [(f"x{k}", pa.float64()) for k in range(30)]
    return pa.schema([*numbers, (target, pa.bool_() if truth else pa.string())])


def measured(run: Run) -> dict[str, Any]:
    """Run a command; return its seconds, its memory and the load of the machine."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        table = written(run, Path(name))
        words = shlex.split(run.command.format(table=table))
        start = [sys.executable, "-c", run.program] if run.program else [sys.executable, "-m"]
        memory = {"APMAX_MEMORY": run.memory} if run.memory else {}
        load, begin, peak = os.getloadavg()[0], time.monotonic(), 0
        with (Path(name) / "out").open("w") as out:
            process = subprocess.Popen(
                [*start, *words], cwd=name, env={**os.environ, **memory},
                stdout=out, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        while process.poll() is None:
            peak = max(peak, _memory(process.pid))
            time.sleep(0.2)
        seconds = time.monotonic() - begin
        if process.returncode:
            sys.exit(f"{shlex.join(words)} ended with exit code {process.returncode}")
        size, printed = (Path(name) / table).stat().st_size, (Path(name) / "out").read_text()
    used = {"rows": json.loads(printed)["rows"]} if "--json" in words else {}
    return {
        **used,
        "seconds": round(seconds, 1),
        "peak_gb": round(peak / 1e9, 2),
        "file_gb": round(size / 1e9, 3),
        "load": round(load, 1),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _memory(pid: int) -> int:
    """Return the proportional set size of a process and its descendants, in bytes."""
    total = 0
    try:
        every = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return 0
    for process in every:
        try:
            total += process.memory_full_info().pss
        except psutil.Error:  # it has ended
            continue
    return total


def main(only: list[str], show: Callable[[str], None] = print) -> None:
    """Measure, and store after each run."""
    for name in only or RUNS:
        found = measured(RUNS[name])
        stored = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
        stored[name] = found
        ordered = {key: stored[key] for key in RUNS if key in stored}
        STORED.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", "utf-8")
        show(f"{name}: {found['seconds']:.0f} s, {found['peak_gb']:.1f} GB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=RUNS, default=[])
    main(parser.parse_args().only)
