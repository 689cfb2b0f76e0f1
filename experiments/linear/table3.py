"""Table 3: test AP of linear models, with more methods than the paper has.

The grid is searched on training data only; the chosen settings are then tested. A cell of a
stochastic method has five repeats. Other models run once where the split is given.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold

from apmax import APClassifier, APClassifierCV
from apmax.methods import METHODS
from apmax.metrics import average_precision
from apmax.registry import Registry
from experiments.datasets import load_paper_set
from experiments.linear.grid import (
    DATA,
    FURTHER_METHODS,
    PAPER_METHODS,
    REPEATS,
    SPLIT_AT_RANDOM,
    Key,
    LinearSetting,
    ap_of,
    best_setting,
    load,
    settings_of,
    train,
)
from experiments.output import markdown_table, mean_and_std
from experiments.store import Store, Unit

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


class TableCell(NamedTuple):
    """One number of the table and its repeats."""

    method: str
    data: str
    train_aps: tuple[float, ...]
    test_aps: tuple[float, ...]
    setting: LinearSetting | None

    @property
    def mean(self) -> float:
        """Mean test AP."""
        return float(np.mean(self.test_aps))

    @property
    def std(self) -> float:
        """Standard deviation of test AP; 0 for a single run."""
        return float(np.std(self.test_aps, ddof=1)) if len(self.test_aps) > 1 else 0.0

    @property
    def train_mean(self) -> float:
        """Mean training AP."""
        return float(np.mean(self.train_aps))

    @property
    def published(self) -> float | None:
        """The paper's number, if it has one."""
        row = PUBLISHED.get(self.method)
        return None if row is None else row[DATA.index(self.data)]

    @property
    def difference(self) -> float | None:
        """Mean test AP minus the paper's number."""
        return None if self.published is None else self.mean - self.published

    @property
    def command(self) -> str:
        """Command that computes this cell again."""
        words = f"python -m experiments cell {self.method} {self.data}"
        return words if self.setting is None else f"{words} --setting {self.setting.spelled}"

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        repeats = zip(self.train_aps, self.test_aps, strict=True)
        derived = ("mean", "std", "train_mean", "published", "difference", "command")
        return {
            "method": self.method,
            "data": self.data,
            **{name: getattr(self, name) for name in derived},
            "repeats": [{"train_ap": train, "test_ap": test} for train, test in repeats],
            "setting": None if self.setting is None else self.setting._asdict(),
        }


def data_statistics() -> list[dict[str, Any]]:
    """Table 2: sizes of the prepared data sets, computed from the data."""
    rows = []
    for name in DATA:
        data = load_paper_set(name)
        rows.append(
            {
                "data": name,
                "training examples": int(data.y.size),
                "test examples": int(data.y_test.size),
                "features": int(data.X.shape[1]),
                "positives": float(data.y.mean()),
            }
        )
    return rows


def all_keys(*, further: bool = True) -> list[Key]:
    """Return the cells of the table, row by row."""
    others = (*FURTHER_METHODS, *NOT_STOCHASTIC) if further else ()
    return [(method, name) for method in (*PAPER_METHODS, *others) for name in DATA]


def check_key(method: str, name: str) -> Key:
    """Check the names of a method and a data set."""
    rows = {key[0]: key[0] for key in all_keys()}
    columns = {column: column for column in DATA}
    return Registry("method", rows).choose(method), Registry("data", columns).choose(name)


def title_of(method: str) -> str:
    """Return the name of a row for people."""
    return METHODS[method].title if method in METHODS else NOT_STOCHASTIC[method]


def choose_settings(store: Store, keys: Sequence[Key], jobs: int = 2) -> dict[Key, LinearSetting]:
    """Return the settings with the highest mean training AP over the whole grid."""
    stochastic = [key for key in keys if key[0] in METHODS]
    # Large sets first, so that all processes end at about the same time.
    ordered = sorted(stochastic, key=lambda key: -DATA.index(key[1]))
    units = [Unit(_grid, (*key, repeat)) for key in ordered for repeat in range(REPEATS)]
    aps = store.collect(units, jobs=jobs, title="grid")
    return {
        key: best_setting(
            METHODS[key[0]], np.mean([aps[(*key, repeat)] for repeat in range(REPEATS)], axis=0)
        )
        for key in stochastic
    }


def run_cells(
    store: Store, keys: Sequence[Key], settings: Mapping[Key, LinearSetting], jobs: int = 2
) -> list[TableCell]:
    """Train and test every cell with its setting."""
    units = {key: units_of(*key, settings.get(key)) for key in keys}
    flat = [unit for one in units.values() for unit in one]
    found = store.collect(flat, jobs=jobs, title="chosen settings")
    cells = []
    for key in keys:
        train_aps, test_aps = zip(*(found[unit.arguments] for unit in units[key]), strict=True)
        cells.append(TableCell(*key, train_aps, test_aps, settings.get(key)))
    return cells


def units_of(method: str, name: str, setting: LinearSetting | None) -> list[Unit]:
    """Return the repeats of a cell."""
    if setting is not None:
        return [Unit(_outcome, (method, name, repeat, *setting)) for repeat in range(REPEATS)]
    repeats = REPEATS if name in SPLIT_AT_RANDOM else 1
    return [Unit(_fitted, (method, name, repeat)) for repeat in range(repeats)]


def cells_to_markdown(cells: Sequence[TableCell]) -> str:
    """Format test AP beside the paper's numbers, and a second table with the chosen settings."""
    names = list(dict.fromkeys(cell.data for cell in cells))
    results, settings = [], []
    for method in dict.fromkeys(cell.method for cell in cells):
        row = [cell for cell in cells if cell.method == method]
        results.append(
            [title_of(method)]
            + [
                f"{cell.mean:.3f}"
                if len(cell.test_aps) == 1
                else mean_and_std(cell.mean, cell.std, digits=3)
                for cell in row
            ]
        )
        if method in PUBLISHED:
            results.append(["*paper (ours − paper)*", *map(_beside, row)])
        if method in METHODS:
            spelled = [cell.setting.spelled for cell in row if cell.setting is not None]
            settings.append([f"`{method}`", *spelled])
    return (
        markdown_table(["method", *names], results)
        + "\n"
        + markdown_table(["η,β,γ", *names], settings)
        + "\nTo repeat a cell: `python -m experiments cell METHOD DATA --setting η,β,γ`. "
        "Without `--setting` the grid is searched.\n"
    )


def _beside(cell: TableCell) -> str:
    return "–" if cell.published is None else f"{cell.published:.3f} ({cell.difference:+.3f})"


def _grid(method: str, name: str, repeat: int) -> list[float]:
    """Training AP of every setting for one repeat; 0 where weights are not finite."""
    data = load(name, repeat)
    weights = (train(data, method, one, repeat) for one in settings_of(METHODS[method]))
    return [0.0 if w is None else ap_of(data.X, data.y, w) for w in weights]


def _outcome(method: str, name: str, repeat: int, *setting: float) -> tuple[float, float]:
    """Training and test AP of one setting for one repeat."""
    data = load(name, repeat)
    w = train(data, method, LinearSetting(*setting), repeat)
    if w is None:
        return 0.0, 0.0
    return ap_of(data.X, data.y, w), ap_of(data.X_test, data.y_test, w)


def _fitted(model: str, name: str, repeat: int) -> list[float]:
    """Training and test AP of a model that is not stochastic."""
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
    return [average_precision(y, estimator.decision_function(X)) for X, y in parts]
