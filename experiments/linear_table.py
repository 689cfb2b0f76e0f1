"""Table 3: final test AP of linear models, with the rows that its readers miss.

First the grid, on training data alone; then the chosen settings, on both. A cell of a method is the
same five runs wherever it is asked for; other models are run once where the split is given.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold

from apmax.linear.classifier import APClassifier
from apmax.linear.classifier_cv import APClassifierCV
from apmax.methods import METHODS
from apmax.metrics import average_precision
from experiments.protocol import (
    DATA,
    FURTHER_METHODS,
    PAPER_METHODS,
    REPEATS,
    SPLIT_AT_RANDOM,
    Outcome,
    Setting,
    ap_of,
    best_setting,
    load,
    settings_of,
    train,
)
from experiments.store import Advance, Store, Unit
from apmax.registry import Registry

PUBLISHED: dict[str, tuple[float | None, ...]] = {
    "moap-v2": (0.999, 0.978, 0.596, 0.715, 0.584, 0.471),
    "adap-adam": (1.0, 0.981, 0.675, 0.730, 0.659, 0.536),
    "soap-sgd": (0.997, 0.978, 0.612, 0.714, 0.561, 0.476),
    "soap-adam": (1.0, 0.977, 0.592, 0.721, 0.475, 0.547),
    "smoothap": (0.962, 0.967, 0.473, 0.713, 0.459, 0.374),
    "moap-v1": (None, 0.972, 0.608, None, None, None),
}
"""The paper's Table 3 in the order of DATA, and MOAP-V1 from its appendix."""
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
    outcomes: tuple[Outcome, ...]
    """Of every repeat."""
    setting: Setting | None

    @property
    def mean(self) -> float:
        """Test AP, over the repeats."""
        return float(np.mean([one.test_ap for one in self.outcomes]))

    @property
    def std(self) -> float:
        """Of test AP over the repeats; 0 where nothing is random."""
        tests = [one.test_ap for one in self.outcomes]
        return float(np.std(tests, ddof=1)) if len(tests) > 1 else 0.0

    @property
    def train_mean(self) -> float:
        """Training AP, over the repeats."""
        return float(np.mean([one.train_ap for one in self.outcomes]))

    @property
    def published(self) -> float | None:
        """The paper's number, if it has one."""
        row = PUBLISHED.get(self.method)
        return None if row is None else row[DATA.index(self.data)]

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.published is None else self.mean - self.published

    @property
    def command(self) -> str:
        """What to type to make this cell again."""
        told = f"apmax paper cell {self.method} {self.data}"
        return told if self.setting is None else f"{told} --setting {self.setting.spelled}"


Key = tuple[str, str]
"""A method and a data set."""


def _grid(method: str, name: str, repeat: int) -> list[float]:
    """Training AP of every setting, for one repeat; 0 where weights are not finite."""
    data = load(name, repeat)
    weights = (train(data, method, one, repeat) for one in settings_of(METHODS[method]))
    return [0.0 if w is None else ap_of(data.X, data.y, w) for w in weights]


def _outcome(method: str, name: str, repeat: int, *setting: float) -> Outcome:
    """Training and test AP of one setting, for one repeat."""
    data = load(name, repeat)
    w = train(data, method, Setting(*setting), repeat)
    if w is None:
        return Outcome(0.0, 0.0)
    return Outcome(ap_of(data.X, data.y, w), ap_of(data.X_test, data.y_test, w))


def _fitted(model: str, name: str, repeat: int) -> Outcome:
    """Training and test AP of a model without a grid of ours."""
    data = load(name, repeat)
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
    return Outcome(*(average_precision(y, estimator.decision_function(X)) for X, y in parts))


def all_keys(*, further: bool = True) -> list[Key]:
    """The cells of the table, row by row."""
    others = (*FURTHER_METHODS, *NOT_STOCHASTIC) if further else ()
    return [(method, name) for method in (*PAPER_METHODS, *others) for name in DATA]


def check_key(method: str, name: str) -> Key:
    """The cell, if method and data are known."""
    rows = (*PAPER_METHODS, *FURTHER_METHODS, *NOT_STOCHASTIC)
    return (
        Registry("method", {row: row for row in rows}).choose(method),
        Registry("data", {column: column for column in DATA}).choose(name),
    )


def choose_settings(
    store: Store, keys: Sequence[Key], *, jobs: int = 2, advance: Advance | None = None
) -> dict[Key, Setting]:
    """The settings with the highest mean training AP, over the whole grid."""
    # Large sets first, so that no process waits for the last one.
    order = DATA[::-1]
    units = [
        Unit(_grid, (*key, repeat))
        for key in sorted(keys, key=lambda key: order.index(key[1]))
        if key[0] in METHODS
        for repeat in range(REPEATS)
    ]
    train_aps: dict[Key, dict[int, list[float]]] = {}
    for unit, result in store.gather(units, jobs=jobs, advance=advance):
        method, name, repeat = unit.arguments
        train_aps.setdefault((method, name), {})[repeat] = result
    chosen = {}
    for (method, name), repeats in train_aps.items():
        row = METHODS[method]
        best = best_setting(row, np.mean([repeats[k] for k in range(REPEATS)], axis=0))
        chosen[method, name] = settings_of(row)[best]
    return chosen


def run_cells(
    store: Store,
    keys: Sequence[Key],
    settings: Mapping[Key, Setting],
    *,
    jobs: int = 2,
    advance: Advance | None = None,
) -> list[Cell]:
    """Train and test every cell with its setting."""
    units = [unit for key in keys for unit in _units_of(*key, settings.get(key))]
    outcomes: dict[Key, dict[int, Outcome]] = {}
    for unit, result in store.gather(units, jobs=jobs, advance=advance):
        method, name, repeat = unit.arguments[:3]
        outcomes.setdefault((method, name), {})[repeat] = Outcome(*result)
    return [
        Cell(*key, tuple(outcomes[key][k] for k in sorted(outcomes[key])), settings.get(key))
        for key in keys
    ]


def _units_of(method: str, name: str, setting: Setting | None) -> list[Unit]:
    if setting is not None:
        return [Unit(_outcome, (method, name, repeat, *setting)) for repeat in range(REPEATS)]
    # A given split: once, with the folds of the first repeat where there are folds.
    repeats = REPEATS if name in SPLIT_AT_RANDOM else 1
    return [Unit(_fitted, (method, name, repeat)) for repeat in range(repeats)]
