"""Reasons for the scores of rows: the columns that contribute most to their log-odds."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from apmax.app.features import TableEncoder, TablePreprocessor
from apmax.tabular import AutoAPClassifier
from apmax.tabular.columns import INTERCEPT
from apmax.tabular.effects import PAIR
from apmax.tabular.explanation import changes_from_typical, has_trees

if TYPE_CHECKING:
    from apmax.app.model import Model

BLOCK_CELLS, BLOCK_ROWS = 1 << 24, 1000
"""Contributions and rows that are computed at a time, which bounds the memory for wide data."""
MAX_SHOWN = 40
"""Characters of a value that a reason shows."""


def contributions(model: Model, X: Any) -> Any:
    """Return a frame with the contribution of each column to the log-odds of each row.

    Linear and additive models are sums of effects, which have mean 0 over the training data. For
    trees, a contribution is the change of the log-odds if the column had its typical value.
    """
    import pandas as pd

    if model.coef is not None:
        return _of_weights(model, X)
    if model.preprocessor is not None and compared_with_typical(model):
        # Columns of the table, because a date is three columns for the classifier.
        typical = model.preprocessor.typical_
        return pd.DataFrame(changes_from_typical(model.log_odds, X.rename(columns=str), typical))
    return _of_effects(model, X)


def compared_with_typical(model: Model) -> bool:
    """Tell whether contributions are changes from the typical value of a column."""
    classifier = model.classifier
    return isinstance(classifier, AutoAPClassifier) and has_trees(classifier.blend_)


def _of_weights(model: Model, X: Any) -> Any:
    """Return weight · (value - mean), summed over the features of a column."""
    import pandas as pd

    features, classifier = model.features(X), model.classifier
    sources = model.feature_names()
    if isinstance(model.preprocessor, TableEncoder):
        sources = model.preprocessor.source_columns()
    sign = 1.0 if str(classifier.classes_[1]) == model.positive else -1.0
    weights = sign * np.asarray(model.coef)
    means = getattr(classifier, "feature_means_", np.zeros(weights.size))
    places = {name: k for k, name in enumerate(dict.fromkeys(sources))}
    at = [places[name] for name in sources]
    shape = (weights.size, len(places))
    coefficients = sp.csr_array((weights, (np.arange(weights.size), at)), shape)
    parts = (sp.csr_array(features) @ coefficients).toarray() - means @ coefficients
    return pd.DataFrame(parts, columns=list(places))


def _of_effects(model: Model, X: Any) -> Any:
    """Return what the classifier itself says about its columns, without the intercept."""
    import pandas as pd

    features, classifier = model.features(X), model.classifier
    if not hasattr(features, "columns"):
        features = pd.DataFrame(features, columns=classifier.columns_.names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the columns of a matrix have no names
        parts = classifier.explain(features)
    parts = parts.drop(columns=INTERCEPT, errors="ignore").reset_index(drop=True)
    if model.preprocessor is None:
        number = re.compile(r"\bx(\d+)\b")
        parts.columns = [
            number.sub(lambda found: f"feature {int(found[1]) + 1}", name) for name in parts
        ]
    return parts


def reasons_of(
    model: Model, X: Any, count: int, on_progress: Callable[[int], None] = lambda rows: None
) -> dict[str, list[str]]:
    """Return the strongest reasons for the scores of rows, as columns of text."""
    rows = X.shape[0]
    found: dict[str, list[str]] = {f"reason_{k + 1}": [] for k in range(count if rows == 0 else 0)}
    block = max(1, min(BLOCK_ROWS, BLOCK_CELLS // max(len(model.feature_names()), 1)))
    for start in range(0, rows, block):
        part = X.iloc[start : start + block] if hasattr(X, "iloc") else X[start : start + block]
        reasons = strongest_reasons(contributions(model, part), count, _cell_texts(model, part))
        for name, texts in reasons.items():
            found.setdefault(name, []).extend(texts)
        on_progress(min(start + block, rows))
    return found


def strongest_reasons(
    parts: Any, count: int, text_of: Callable[[str, int], str]
) -> dict[str, list[str]]:
    """Return columns reason_1, reason_2, … with texts such as "income = 22026 (+0.83)".

    `parts` is a frame of contributions with a row per row and a column per column of the table.
    `text_of` returns the value of a column in a row as text. Reasons are ordered by size;
    contributions of 0 are left out.
    """
    names, sizes = list(parts.columns), parts.to_numpy()
    order = np.argsort(-np.abs(sizes), axis=1, kind="stable")[:, :count]

    def reason(row: int, place: int) -> str:
        name, size = names[place], sizes[row, place]
        return f"{name} = {text_of(name, row)} ({size:+.2f})" if size else ""

    return {
        f"reason_{k + 1}": [reason(row, place) for row, place in enumerate(order[:, k].tolist())]
        for k in range(order.shape[1])
    }


def _cell_texts(model: Model, X: Any) -> Callable[[str, int], str]:
    """Return a function that shows the value of a column, or of a pair of columns, in a row."""
    columns: dict[str, Any]
    if model.preprocessor is None:
        matrix = model.features(X)
        columns = {name: k for k, name in enumerate(model.feature_names())}
    else:
        frame = X.rename(columns=str)
        read = TablePreprocessor.transform(model.preprocessor, X)  # dates as numbers and words
        columns = {name: frame[name].tolist() for name in model.preprocessor.kinds_}
        columns |= {name: read[name].tolist() for name in read}

    def shown(name: str, row: int) -> str:
        if name not in columns:
            return "?"
        column = columns[name]
        return _shown(matrix[row, column] if model.preprocessor is None else column[row])

    def text(name: str, row: int) -> str:
        parts = [name] if name in columns else name.split(PAIR)
        return PAIR.join(shown(part, row) for part in parts)

    return text


def _shown(value: Any) -> str:
    """Return a value in a few characters; whole numbers are floats beside missing ones."""
    import pandas as pd

    if value is None or pd.isna(value):
        return "missing"
    if isinstance(value, (float, np.floating)):
        whole = float(value).is_integer() and abs(float(value)) < 1e9
        return f"{value:.0f}" if whole else f"{value:.5g}"
    return str(value)[:MAX_SHOWN]
