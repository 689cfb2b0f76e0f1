"""Held-out AP by settings of the linear models: where their defaults come from.

``make bench-defaults`` runs it. A third of each training set is held out; test sets are not read.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split

from apmax import APClassifierCV, StochasticAPClassifier, average_precision
from apmax.linear.stochastic_classifier import LEARNING_RATES
from apmax.methods import METHODS
from benchmarks.linear_quality import logistic_regression
from benchmarks.real_data import Split, splits
from benchmarks.timing import RESULTS

OBJECTIVES: dict[str, dict[str, Any]] = {
    "logistic, γ = 5": {"gamma": 5.0},
    "logistic, γ = 10": {"gamma": 10.0},
    "logistic, γ = 20 (default)": {},
    "logistic, γ = 40": {"gamma": 40.0},
    "squared hinge, γ = 0.1": {"surrogate": "squared_hinge", "gamma": 0.1},
    "one α (0.1) instead of a path": {"alphas": (0.1,)},
}
OBJECTIVE_SETS = ("mushrooms", "phishing", "w6a", "a9a", "ijcnn1", "mammography", "letter")
METHOD_SETS = ("w8a", "ijcnn1", "a9a")
FACTORS = (1 / 3, 1.0, 3.0)
"""Learning rates, in units of the default."""
PAPER_RATES = {"none": 1.0, "moving": 0.01, "running": 0.1}
SEEDS = 3


def held_out(name: str, seed: int) -> Split:
    """Split the training set 2:1."""
    split = next(splits(name))
    parts = train_test_split(split.X, split.y, test_size=1 / 3, stratify=split.y, random_state=seed)
    return Split(parts[0], parts[2], parts[1], parts[3])


def objectives() -> Iterator[dict[str, Any]]:
    """AP of APClassifierCV by its objective, and of tuned logistic regression."""
    for name in OBJECTIVE_SETS:
        split = held_out(name, 0)
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        logistic = logistic_regression(split, folds).scores
        found = {"logistic regression": average_precision(split.y_test, logistic)}
        for setting, parameters in OBJECTIVES.items():
            model = APClassifierCV(cv=folds, **parameters).fit(split.X, split.y)
            found[setting] = model.score(split.X_test, split.y_test)
        print(name, {key: round(value, 4) for key, value in found.items()}, flush=True)
        yield {"data": name, "ap": found}


def paper_settings(name: str) -> dict[str, Any]:
    """Surrogate, schedule and learning rate of the paper."""
    method = METHODS[name]
    adaptive = method.direction.second_moment
    rate = 0.1 if name.startswith("adap") else PAPER_RATES[adaptive]
    of_surrogate = ("logistic", 20.0) if name == "smoothap" else ("squared_hinge", 0.1)
    surrogate, gamma = of_surrogate
    settings = {"surrogate": surrogate, "gamma": gamma, "schedule": method.schedule}
    return settings | {"learning_rate": rate}


def methods() -> Iterator[dict[str, Any]]:
    """AP of each stochastic method with three learning rates, and with the paper's settings."""
    parts = {name: [held_out(name, seed) for seed in range(SEEDS)] for name in METHOD_SETS}

    def mean_ap(name: str, data: str, parameters: dict[str, Any]) -> float:
        found = []
        for seed, split in enumerate(parts[data]):
            model = StochasticAPClassifier(name, random_state=seed, **parameters)
            found.append(model.fit(split.X, split.y).score(split.X_test, split.y_test))
        return float(np.mean(found))

    logistic = {
        data: float(
            np.mean(
                [
                    average_precision(s.y_test, model.decision_function(s.X_test))
                    for s in of_data
                    for model in [LogisticRegression(C=10, max_iter=2000).fit(s.X, s.y)]
                ]
            )
        )
        for data, of_data in parts.items()
    }
    yield {"method": "LogisticRegression(C=10)", "rate": None, "ap": logistic}
    for name, method in METHODS.items():
        if method.tracker.name == "msvr":
            continue
        decays = int(method.schedule.power > 0)
        rate = LEARNING_RATES[method.direction.second_moment][decays]
        ap = {
            data: [mean_ap(name, data, {"learning_rate": factor * rate}) for factor in FACTORS]
            for data in METHOD_SETS
        }
        paper = {data: mean_ap(name, data, paper_settings(name)) for data in METHOD_SETS}
        print(name, rate, ap, paper, flush=True)
        yield {"method": name, "rate": rate, "ap": ap, "paper": paper}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return round(value, 5) if isinstance(value, float) else value


def main() -> None:
    """Compare, and store what the documentation shows."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, rows in (("linear_methods", methods), ("linear_objectives", objectives)):
        stored = [_rounded(row) for row in rows()]
        text = json.dumps(stored, indent=1, ensure_ascii=False) + "\n"
        (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
