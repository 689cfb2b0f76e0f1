"""Test AP of `apmax train` beside gradient boosting, and what its advice is worth.

``make bench-app`` trains on one split of each table, as a file that the command line would read,
and continues with the tables that ``docs/results/application.jsonl`` does not have. Gradient
boosting is scikit-learn's with its defaults, on the same preprocessed columns. The advice names the
simplest model whose loss of AP in cross-validation is surely small, or else the best one; it is
right if the advised model is within one standard error of the best one on the test rows, with an
error from resampled test rows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from apmax import AutoAPClassifier, average_precision
from apmax.app import TablePreprocessor, training
from apmax.app.advice import advised
from apmax.app.io import Dataset, load
from apmax.tabular.auto import _mean_log_odds
from apmax.tabular.library import encoded
from benchmarks.real_data import ROOT
from benchmarks.tables import TABLES, table_split

RESULTS = ROOT / "docs" / "results" / "application.jsonl"
SEED = 200
"""Of the split; other seeds than those that the defaults were chosen on."""
RESAMPLES = 200
BOOSTING = "default boosting"


class AllCandidates(AutoAPClassifier):
    """Keeps all candidates, so that every line of the leaderboard can be tested."""

    def _choose(self, evaluations: Any, candidates: Any, search: Any) -> None:
        super()._choose(evaluations, candidates, search)
        self.compared_ = evaluations, candidates

    def log_odds_by_model(self, X: Any) -> dict[str, np.ndarray]:
        evaluations, candidates = self.compared_
        matrix = encoded(self.columns_.transform(X))
        of = {name: _mean_log_odds(one.models, X, matrix) for name, one in candidates.items()}
        return {name: one.blend(of) for name, one in evaluations.items()}


def files(table: str, folder: Path) -> tuple[Dataset, Dataset]:
    """Write both parts of a split and read them as `apmax train` and `--test` do."""
    split = table_split(table, SEED)
    parts: list[Dataset] = []
    for name, X, y in (("train", split.X, split.y), ("test", split.X_test, split.y_test)):
        frame = pd.DataFrame(X).rename(columns=str).assign(target=np.where(y, "yes", "no"))
        frame.to_csv(folder / f"{name}.csv", index=False)
        text = [] if not parts else TablePreprocessor().fit(parts[0].X).text_columns()
        parts.append(load(folder / f"{name}.csv", target="target", positive="yes", text=text))
    return parts[0], parts[1]


def boosting_scores(train: Dataset, test: Dataset) -> np.ndarray:
    """Return the scores of default gradient boosting on the same columns."""
    preprocessor = TablePreprocessor().fit(train.X)
    X, X_test = (preprocessor.transform(part.X) for part in (train, test))
    for name, (levels, _) in preprocessor.levels_.items():
        kept = levels[:250]
        X[name], X_test[name] = (
            pd.Categorical(part[name].where(part[name].isin(kept)), categories=kept)
            for part in (X, X_test)
        )
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    return np.asarray(model.fit(X, train.labels()).decision_function(X_test))


def differences(y: np.ndarray, scores: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the AP of each model on resampled test rows, the same rows for all."""
    rng = np.random.default_rng(0)
    found: dict[str, list[float]] = {name: [] for name in scores}
    for _ in range(RESAMPLES):
        times = np.zeros(y.size)
        for rows in (np.flatnonzero(y), np.flatnonzero(~y)):
            times[rows] = rng.multinomial(rows.size, np.full(rows.size, 1 / rows.size))
        for name, values in scores.items():
            found[name].append(average_precision(y, values, sample_weight=times))
    return {name: np.array(values) for name, values in found.items()}


def measure(table: str, jobs: int) -> dict[str, Any]:
    """Train on one table and test all models."""
    with tempfile.TemporaryDirectory() as folder:
        train, test = files(table, Path(folder))
    start = time.perf_counter()
    trained = training.train_model(train, jobs=jobs)
    seconds = time.perf_counter() - start
    model, y = trained.model, test.labels()
    scores = model.classifier.log_odds_by_model(model.features(test.X))
    scores[BOOSTING] = boosting_scores(train, test)
    ap = {name: average_precision(y, values) for name, values in scores.items()}
    resampled = differences(y, scores)
    best, use = trained.leaderboard[0].model, advised(trained.leaderboard).model
    return {
        "table": table,
        "rows": int(train.labels().size),
        "seconds": round(seconds, 1),
        "chosen": model.name,
        "advice": trained.advice,
        "ap": {name: round(value, 5) for name, value in ap.items()},
        "gain": round(ap[model.name] - ap[BOOSTING], 5),
        "gain_se": round(float(np.std(resampled[model.name] - resampled[BOOSTING], ddof=1)), 5),
        "advised": use,
        "behind_best": round(ap[best] - ap[use], 5),
        "behind_best_se": round(float(np.std(resampled[best] - resampled[use], ddof=1)), 5),
        "cv": {
            one.model: [round(one.difference, 5), round(one.difference_se, 5)]
            for one in trained.leaderboard
        },
    }


def stored() -> dict[str, dict[str, Any]]:
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {line["table"]: line for line in map(json.loads, lines)}


def print_summary(results: dict[str, dict[str, Any]]) -> None:
    print("table             rows  seconds  chosen            AP     boosting  gain ± SE"
          "           advised           behind the best ± SE")  # fmt: skip
    for one in results.values():
        print(
            f"{one['table']:<16}{one['rows']:6}{one['seconds']:9.1f}  {one['chosen']:<16}"
            f"{one['ap'][one['chosen']]:.4f}  {one['ap'][BOOSTING]:.4f}  "
            f"{one['gain']:+.4f} ± {one['gain_se']:.4f}   {one['advised']:<16}"
            f"{one['behind_best']:+.4f} ± {one['behind_best_se']:.4f}"
        )
    gains = np.array([one["gain"] for one in results.values()])
    below = [one["table"] for one in results.values() if one["gain"] < -one["gain_se"]]
    wrong = [o["table"] for o in results.values() if o["behind_best"] > o["behind_best_se"]]
    error = gains.std(ddof=1) / np.sqrt(gains.size)
    print(f"mean gain over boosting {gains.mean():+.4f} ± {error:.4f} on {gains.size} tables")
    print(f"below boosting: {int((gains < 0).sum())}, by more than one standard error: {below}")
    print(f"advised model more than one standard error behind on the test: {wrong}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--summary", action="store_true", help="only print stored results")
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("tables", nargs="*", default=TABLES)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    training.AutoAPClassifier = AllCandidates  # type: ignore[attr-defined]
    results = stored()
    for table in [] if given.summary else given.tables:
        if table not in results:
            results[table] = measure(table, given.jobs)
            with RESULTS.open("a") as file:
                file.write(json.dumps(results[table]) + "\n")
            print(f"{table}: {results[table]['seconds']} s", flush=True)
    print_summary(results)


if __name__ == "__main__":
    main()
