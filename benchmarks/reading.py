"""Reading files beside scikit-learn (LIBSVM) and pandas (CSV), on the same files."""

from __future__ import annotations

import lzma
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_svmlight_file

from apmax.app.data import read_libsvm, read_table
from benchmarks.datasets import data_folder
from benchmarks.timing import Line, medians

ROWS = 200_000
REAL_TABLES: dict[str, dict[str, Any]] = {
    "adult-train": {"skipinitialspace": True, "na_values": "?"},
    "letter": {},
    "mammography": {"quotechar": "'"},
}
"""And what pandas has to be told to make the same table of it, besides the names."""


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _libsvm_lines(Path(folder))
        yield from _table_lines(Path(folder))


def _libsvm_lines(folder: Path) -> Iterator[Line]:
    data = data_folder()
    if data is None:
        return
    for name in ("w8a", "a9a", "ijcnn1"):
        path = folder / name
        path.write_bytes(lzma.decompress((data / "libsvm" / f"{name}.xz").read_bytes()))
        ours, theirs = medians(5, partial(read_libsvm, path), partial(load_svmlight_file, path))
        yield Line(f"scikit-learn's LIBSVM reader / ours, {name}", theirs / ours, 1, at_least=True)


def _table_lines(folder: Path) -> Iterator[Line]:
    frame = mixed_table()
    without_last = folder / "mixed.csv"
    frame.to_csv(without_last, index=False)
    with_gaps = folder / "gaps.csv"
    frame.assign(last=frame["score"]).to_csv(with_gaps, index=False)
    cases = (("", without_last), (", gaps in the last column", with_gaps))
    for what, path in cases:
        ours, theirs = medians(61, partial(read_table, path), partial(pd.read_csv, path))
        yield Line(f"our table reader / pandas.read_csv, {ROWS:,} rows{what}", ours / theirs, 1.3)
    data = data_folder()
    if data is None:
        return
    for name, options in REAL_TABLES.items():
        path = folder / f"{name}.csv"
        path.write_bytes(lzma.decompress((data / "tabular" / f"{name}.csv.xz").read_bytes()))
        names = list(read_table(path))
        as_ours = partial(pd.read_csv, path, header=None, names=names, **options)
        pd.testing.assert_frame_equal(read_table(path), as_ours())
        ours, theirs = medians(61, partial(read_table, path), as_ours)
        yield Line(f"our table reader / pandas.read_csv, {name}", ours / theirs, 1.3)


def mixed_table() -> pd.DataFrame:
    """Numbers and words, one cell in seventeen missing in one column."""
    rng = np.random.default_rng(0)
    score = rng.random(ROWS)
    score[::17] = np.nan
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, ROWS),
            "amount": rng.normal(size=ROWS).round(4) * 100,
            "country": rng.choice(["Germany", "United States", "France", "Japan"], ROWS),
            "job": rng.choice(["clerk", "engineer", "manager"], ROWS),
            "note": rng.choice(["a b", "c", "d e f"], ROWS),
            "score": score,
            "flag": rng.choice(["yes", "no"], ROWS),
        }
    )


if __name__ == "__main__":
    results = []
    for line in lines():
        print(line, flush=True)
        results.append(line.kept)
    sys.exit(0 if all(results) else 1)
