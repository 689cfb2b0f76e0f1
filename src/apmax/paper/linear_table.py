"""Table 3: final test AP of linear models, with the rows that its readers miss."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold

from apmax.data import load_paper_set
from apmax.linear.classifier import APClassifier
from apmax.linear.path import APClassifierCV
from apmax.method.table import METHODS
from apmax.metrics import average_precision
from apmax.paper.protocol import (
    DATA,
    FURTHER_METHODS,
    PAPER_METHODS,
    REPEATS,
    Setting,
    run,
    settings_of,
)
from apmax.paper.store import Store, Unit

SPLIT_AT_RANDOM = ("mushrooms", "phishing")
PUBLISHED = {
    "moap-v2": (0.999, 0.978, 0.596, 0.715, 0.584, 0.471),
    "adap-adam": (1.0, 0.981, 0.675, 0.730, 0.659, 0.536),
    "soap-sgd": (0.997, 0.978, 0.612, 0.714, 0.561, 0.476),
    "soap-adam": (1.0, 0.977, 0.592, 0.721, 0.475, 0.547),
    "smoothap": (0.962, 0.967, 0.473, 0.713, 0.459, 0.374),
}
"""The paper's Table 3, in the order of DATA."""
NOT_STOCHASTIC = {
    "logistic": "LogisticRegression()",
    "logistic-cv": "LogisticRegressionCV, scored by AP",
    "full-batch": "APClassifier, α = 0.01",
    "apmax-cv": "APClassifierCV",
}


class Cell(NamedTuple):
    """One number of the table, and how it came about."""

    method: str
    data: str
    mean: float
    std: float
    train_mean: float
    setting: Setting | None
    published: float | None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.published is None else self.mean - self.published


def _grid(method: str, name: str, repeat: int) -> list[list[float]]:
    """Training and test AP of every setting, for one repeat."""
    data = load_paper_set(name, seed=repeat)
    return [list(run(data, method, setting, repeat)) for setting in settings_of(METHODS[method])]


def _fitted(model: str, name: str, repeat: int) -> list[list[float]]:
    """Training and test AP of a model without a grid of ours."""
    data = load_paper_set(name, seed=repeat)
    folds = StratifiedKFold(5, shuffle=True, random_state=repeat)
    estimators: dict[str, Any] = {
        "logistic": LogisticRegression(max_iter=3000),
        "logistic-cv": LogisticRegressionCV(
            cv=folds, scoring="average_precision", max_iter=3000, l1_ratios=(0.0,),
            use_legacy_attributes=False,
        ),
        "full-batch": APClassifier(alpha=0.01, max_iter=500),
        "apmax-cv": APClassifierCV(cv=folds),
    }  # fmt: skip
    estimator = estimators[model]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(data.X, data.y)
    parts = ((data.X, data.y), (data.X_test, data.y_test))
    return [[average_precision(y, estimator.decision_function(X)) for X, y in parts]]


def units(*, further: bool = True) -> list[Unit]:
    """All pieces of the table; sets with a given split need no repeat of what is not random."""
    methods = PAPER_METHODS + (FURTHER_METHODS if further else ())
    grids = [
        Unit(_grid, (method, name, repeat))
        for name in DATA
        for method in methods
        for repeat in range(REPEATS)
    ]
    others = [
        Unit(_fitted, (model, name, repeat))
        for name in DATA
        for model in (NOT_STOCHASTIC if further else ())
        for repeat in range(REPEATS if name in SPLIT_AT_RANDOM else 1)
    ]
    return grids + others


Advance = Callable[[int, int], None]


def linear_table(
    store: Store, *, further: bool = True, jobs: int = 2, advance: Advance | None = None
) -> list[Cell]:
    """Run what is missing and return all cells."""
    every = units(further=further)
    outcomes: dict[tuple[str, str], dict[int, Any]] = {}
    for done, (unit, result) in enumerate(store.results(every, jobs=jobs), start=1):
        method, name, repeat = unit.arguments
        outcomes.setdefault((method, name), {})[repeat] = result
        if advance is not None:
            advance(done, len(every))
    order = [*PAPER_METHODS, *FURTHER_METHODS, *NOT_STOCHASTIC]
    keys = sorted(outcomes, key=lambda key: (order.index(key[0]), DATA.index(key[1])))
    return [
        _cell(*key, [outcomes[key][repeat] for repeat in sorted(outcomes[key])]) for key in keys
    ]


def _cell(method: str, name: str, repeats: list[Any]) -> Cell:
    """The setting with the highest mean training AP, and its test AP."""
    table = np.array(repeats)  # repeats × settings × (train, test)
    best = int(np.argmax(table[:, :, 0].mean(axis=0)))
    train, test = table[:, best, 0], table[:, best, 1]
    setting = settings_of(METHODS[method])[best] if method in METHODS else None
    published = PUBLISHED[method][DATA.index(name)] if method in PUBLISHED else None
    std = float(test.std(ddof=1)) if test.size > 1 else 0.0
    return Cell(method, name, float(test.mean()), std, float(train.mean()), setting, published)
