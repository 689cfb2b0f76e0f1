"""Table 3: a grid search on training data, then tests of the chosen settings."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold

from apmax import APClassifier, APClassifierCV
from apmax.methods import METHODS
from apmax.metrics import average_precision
from apmax.registry import Registry
from experiments.linear import grid
from experiments.linear.grid import DATA, REPEATS, Key, LinearSetting
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


Cell = dict[str, Any]
"""One number of the table, its repeats, and how to compute it again."""


def all_keys(*, further: bool = True) -> list[Key]:
    """Return the cells of the table, row by row."""
    others = (*grid.MORE_METHODS, *NOT_STOCHASTIC) if further else ()
    return [(method, name) for method in (*grid.PAPER_METHODS, *others) for name in DATA]


def check_key(method: str, name: str) -> Key:
    """Check the names of a method and a data set."""
    rows, columns = (dict.fromkeys(names) for names in zip(*all_keys(), strict=True))
    Registry("method", rows).choose(method)
    Registry("data", columns).choose(name)
    return method, name


def title_of(method: str) -> str:
    """Return the name of a row for people."""
    return METHODS[method].title if method in METHODS else NOT_STOCHASTIC[method]


def choose_settings(store: Store, keys: Sequence[Key], jobs: int = 2) -> dict[Key, LinearSetting]:
    """Return the settings with the highest mean training AP over the whole grid."""
    # Large sets first, so that all processes end at about the same time.
    ordered = sorted(keys, key=lambda key: -DATA.index(key[1]))
    ordered = [key for key in ordered if key[0] in METHODS]
    units = {key: [Unit(_grid, (*key, repeat)) for repeat in range(REPEATS)] for key in ordered}
    train_aps = store.collect(units, jobs, "grid")
    return {
        key: grid.best_setting(METHODS[key[0]], np.mean(aps, axis=0))
        for key, aps in train_aps.items()
    }


def run_cells(
    store: Store, keys: Sequence[Key], settings: Mapping[Key, LinearSetting], jobs: int = 2
) -> list[Cell]:
    """Train and test every cell with its setting."""
    units = {key: units_of(*key, settings.get(key)) for key in keys}
    found = store.collect(units, jobs, "chosen settings")
    return [make_cell(*key, settings.get(key), found[key]) for key in keys]


def make_cell(method: str, name: str, setting: LinearSetting | None, repeats: list[Any]) -> Cell:
    """Return the record of a cell; `repeats` are pairs of training and test AP."""
    mean, std = mean_and_std([test for _, test in repeats])
    published = PUBLISHED.get(method, (None,) * len(DATA))[DATA.index(name)]
    option = "" if setting is None else f" --setting {setting.spelled}"
    return {
        "method": method,
        "data": name,
        "mean": mean,
        "std": std,
        "train_mean": mean_and_std([train for train, _ in repeats])[0],
        "repeats": [{"train_ap": train, "test_ap": test} for train, test in repeats],
        "setting": None if setting is None else setting._asdict(),
        "published": published,
        "difference": None if published is None else mean - published,
        "command": f"python -m experiments cell {method} {name}{option}",
    }


def units_of(method: str, name: str, setting: LinearSetting | None) -> list[Unit]:
    """Return the repeats of a cell."""
    if setting is not None:
        return [Unit(_outcome, (method, name, repeat, *setting)) for repeat in range(REPEATS)]
    repeats = REPEATS if name in grid.SPLIT_AT_RANDOM else 1
    return [Unit(_fitted, (method, name, repeat)) for repeat in range(repeats)]


def cells_to_markdown(cells: Sequence[Cell]) -> str:
    """Format test AP beside the paper's numbers, and a second table with the chosen settings."""
    names = list(dict.fromkeys(cell["data"] for cell in cells))
    results, settings = [], []
    for method in dict.fromkeys(cell["method"] for cell in cells):
        row = [cell for cell in cells if cell["method"] == method]
        results.append([title_of(method), *map(_test_ap, row)])
        if method in PUBLISHED:
            results.append(["*paper (ours − paper)*", *map(_paper, row)])
        if method in METHODS:
            spelled = [LinearSetting(**cell["setting"]).spelled for cell in row]
            settings.append([f"`{method}`", *spelled])
    tables = [markdown_table(["method", *names], results)]
    if settings:
        tables.append(markdown_table(["η,β,γ", *names], settings))
        tables.append(
            f"To repeat a cell: `{cells[0]['command']}`. Without a setting the grid is searched.\n"
        )
    return "\n".join(tables)


def _test_ap(cell: Cell) -> str:
    std = f" ± {cell['std']:.3f}" if len(cell["repeats"]) > 1 else ""
    return f"{cell['mean']:.3f}{std}"


def _paper(cell: Cell) -> str:
    published = cell["published"]
    return "–" if published is None else f"{published:.3f} ({cell['difference']:+.3f})"


def _grid(method: str, name: str, repeat: int) -> list[float]:
    """Training AP of every setting for one repeat."""
    data = grid.load(name, repeat)
    settings = grid.settings_of(METHODS[method])
    weights = (grid.train(data, method, setting, repeat) for setting in settings)
    return [grid.ap_of(data.X, data.y, w) for w in weights]


def _outcome(method: str, name: str, repeat: int, *setting: float) -> list[float]:
    """Training and test AP of one setting for one repeat."""
    data = grid.load(name, repeat)
    w = grid.train(data, method, LinearSetting(*setting), repeat)
    return [grid.ap_of(data.X, data.y, w), grid.ap_of(data.X_test, data.y_test, w)]


def _fitted(model: str, name: str, repeat: int) -> list[float]:
    """Training and test AP of a model that is not stochastic."""
    data = grid.load(name, repeat)
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
