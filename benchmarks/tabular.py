"""Test AP, log-loss and CPU time of models of tables, over several splits.

``make bench-tabular`` runs what is missing in ``docs/results/tabular.jsonl`` and prints the
comparison. Each finished fit is one line of that file, so an interrupted run continues where it
stopped. ``--summary`` only prints.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from apmax import average_precision
from benchmarks.real_data import ROOT, Split
from benchmarks.table_models import METHODS, Fitted
from benchmarks.tables import TABLES, number_of_splits, table_split
from benchmarks.tabular_summary import Results, print_summary

RESULTS = ROOT / "docs" / "results" / "tabular.jsonl"
RESAMPLES = 40
DEFAULT_BUDGET, LEAST_BUDGET = 30.0, 10.0
"""Seconds for an automatic search: without a result of `auto`, and at least."""


def record(split: Split, fitted: Fitted) -> dict[str, Any]:
    """Measures of one fit, rounded. Resampled APs of two methods are paired: same resamples."""
    rng = np.random.default_rng(0)
    resampled = []
    for _ in range(RESAMPLES):
        times = np.zeros(split.y_test.size)
        for rows in (np.flatnonzero(split.y_test), np.flatnonzero(~split.y_test)):
            times[rows] = rng.multinomial(rows.size, np.full(rows.size, 1 / rows.size))
        ap = average_precision(split.y_test, fitted.scores, sample_weight=times)
        resampled.append(round(ap, 5))
    constant = np.full(split.y_test.size, split.y.mean())
    return {
        "ap": round(average_precision(split.y_test, fitted.scores), 6),
        "log_loss": round(float(log_loss(split.y_test, fitted.probabilities)), 6),
        "constant_log_loss": round(float(log_loss(split.y_test, constant)), 6),
        "cpu": round(fitted.cpu, 3),
        "notes": fitted.notes,
        "resampled": resampled,
    }


def read(path: Path) -> Results:
    """Stored lines of the current revisions, by method, table and seed."""
    results: Results = {name: {} for name in METHODS}
    if path.exists():
        for text in path.read_text().splitlines():
            line = json.loads(text)
            method = METHODS.get(line["method"])
            if method is not None and method.revision == line["revision"]:
                results[line["method"]].setdefault(line["table"], {})[line["seed"]] = line
    return results


def budget(results: Results, table: str, seed: int) -> float:
    """CPU seconds that `auto` took for this split, for the search that it is compared with."""
    taken = results["auto"].get(table, {}).get(seed)
    return DEFAULT_BUDGET if taken is None else max(float(taken["cpu"]), LEAST_BUDGET)


def stored(results: Results, name: str, table: str, seed: int) -> bool:
    """Whether a result can be used: one of a search that had less time than `auto` cannot."""
    line = results[name].get(table, {}).get(seed)
    if line is None or name != "flaml" or seed not in results["auto"].get(table, {}):
        return line is not None
    return bool(line["notes"]["budget"] >= round(budget(results, table, seed), 1))


def run(options: argparse.Namespace) -> int:
    """Fit and store what is missing; the number of fits that failed."""
    start, failures = time.monotonic(), 0
    results = read(options.results)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    for table in options.tables:
        for seed in range(options.seeds or number_of_splits(table)):
            missing = [name for name in options.methods if not stored(results, name, table, seed)]
            split = table_split(table, seed) if missing else None
            for name in missing:
                if time.monotonic() - start > 60 * options.minutes:
                    return failures
                assert split is not None
                key = {"table": table, "seed": seed, "method": name}
                try:
                    fitted = METHODS[name].fit(split, budget(results, table, seed))
                except Exception as error:
                    print(f"{table} {seed} {name} failed: {error!r}", flush=True)
                    failures += 1
                    continue
                line = {**key, "revision": METHODS[name].revision, **record(split, fitted)}
                with options.results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                results[name].setdefault(table, {})[seed] = line
                print(
                    f"{table:<14} {seed} {name:<16} AP {line['ap']:.4f}  log-loss "
                    f"{line['log_loss']:.4f}  {line['cpu']:.1f} s  {line['notes']}",
                    flush=True,
                )
    return failures


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tabular", description=__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES, metavar="TABLE")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, help="splits per table (5 if it is small, else 3)")
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no fit after this")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of JSON lines")
    parser.add_argument("--summary", action="store_true", help="print stored results only")
    return parser.parse_args()


def main() -> int:
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", message="n_quantiles")
    options = arguments()
    failures = 0 if options.summary else run(options)
    kept = print_summary(read(options.results), options.tables)
    return 0 if kept and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
