"""Find columns that reveal the target, and identifiers.

The checks read a sample of the table and fit at most a few small models. They cannot know which
columns exist before the outcome, so they report and never remove a column.
"""

from __future__ import annotations

import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from apmax.app.column_values import CATEGORY, NUMBER, to_words
from apmax.app.features import TablePreprocessor
from apmax.app.io import Dataset
from apmax.binary_target import binary_target
from apmax.errors import InputError, ShapeError
from apmax.metrics import ap_of_scores
from apmax.tabular.columns import column_names
from apmax.validation import Floats, Mask, check_same_length

MAX_CELLS, MIN_ROWS, MAX_ROWS = 1_000_000, 5_000, 50_000
"""The sample has as many rows as fit into `MAX_CELLS`, within these limits."""
MAX_COLUMNS = 1_000
"""Wider tables are not checked column by column."""
FEW_LEVELS = 20
MIN_CLASS = 5
"""Rows that each class must have for its labels to be compared with columns."""
NEAR_COPY = 0.25
"""Exceptions of a copy of the target, relative to the number of rows of the rarer class."""
NEAR_ONE = 0.95
FAR_ABOVE, FAR_ABOVE_FROM = 0.3, 0.6
"""A column is suspicious if its AP is at least 0.6 and exceeds that of all others by 0.3."""
MODEL_POSITIVES, MODEL_NEGATIVES = 1_000, 4_000
"""Rows of the models that compare a column with all others; `MAX_CANDIDATES` columns are."""
MAX_CANDIDATES = 3
KIND_ROWS = 2_000
"""Rows that decide whether a column is read as numbers, categories or dates."""
DISTINCT = 0.99
ID_NAMES = ("id", "uid", "uuid", "guid", "key", "no", "nr", "num", "number", "index", "row")
Remedy = Callable[[str, str], str]
"""Says what to do about a column, by the option of the command line and the name of the column."""


@dataclass(frozen=True)
class Finding:
    """A reason to distrust the data, and what to do; :func:`check_table` returns it."""

    column: str | None
    """The column, or None if the finding is about rows."""
    kind: str
    """"copy", "missing", "order", "strong", "identifier" or "test"."""
    message: str
    """What was found, and what to do about it, in one sentence."""


def refuse(findings: Sequence[Finding]) -> None:
    """Raise InputError with all messages if there are any findings."""
    if findings:
        raise InputError("--strict: " + "; ".join(one.message for one in findings))


def check_table(X: Any, y: Any, *, pos_label: Any = None) -> list[Finding]:
    """Find columns of training data that may reveal the target, and identifiers.

    ``apmax train`` and ``apmax compare`` run the same checks before training. No column is removed:
    only you know which columns exist before the outcome.

    Parameters
    ----------
    X : DataFrame or matrix of shape (n, d)
        The training data; more than 1,000 columns are not checked, with a warning.
    y : array-like of shape (n,)
        Labels of two classes.
    pos_label : optional
        The positive class; the default is 1 or True, or the rarer of other labels.

    Returns
    -------
    list of Finding
        With the attributes `column`, `kind` and `message`; empty if nothing is suspicious. Columns
        of a matrix are called x0, x1 and so on.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import apmax
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(1000) < 0.05
    >>> X = pd.DataFrame({"age": rng.normal(50, 9, 1000), "closed": np.where(y, 1.0, np.nan)})
    >>> for finding in apmax.check_table(X, y):
    ...     print(finding.column, finding.kind)
    closed missing
    """
    labels = column_or_1d(y)
    if pos_label is None and labels.dtype.kind in "OUS" and len(labels):
        pos_label = min(Counter(labels.tolist()).items(), key=itemgetter(1))[0]
    positive = binary_target(labels, pos_label=pos_label).positive
    X = X.to_pandas() if hasattr(X, "to_pandas") else X
    X = X.tocsr() if sp.issparse(X) else X if hasattr(X, "iloc") else np.asarray(X)
    if len(X.shape) != 2:
        raise ShapeError(f"`X` must be a table or a matrix, got {len(X.shape)} dimensions")
    column_names(X)
    check_same_length(y=positive, X=X)
    if X.shape[1] > MAX_COLUMNS:
        warnings.warn(
            f"X has {X.shape[1]:,} columns and is not checked: pass at most {MAX_COLUMNS:,}",
            UserWarning,
            stacklevel=2,
        )
    return _findings(X, positive, lambda option, name: "leave it out", "x", 0)


def check_columns(dataset: Dataset) -> list[Finding]:
    """Return the findings of :func:`check_table` for a file; messages name options."""

    def remedy(option: str, name: str) -> str:
        if dataset.is_table:
            return f"use {option} {shlex.quote(name)}"
        return "leave it out of the file"

    return _findings(dataset.X, dataset.labels(), remedy, "feature ", 1)


def _findings(X: Any, y: Mask, remedy: Remedy, prefix: str, first: int) -> list[Finding]:
    """Return what is suspicious, at most once per column.

    Features of a matrix have a prefix and a number as names; `first` is that of the first one.
    """
    if X.shape[1] > MAX_COLUMNS:
        return []
    rows = _sample(y.size, X.shape[1])
    sampled, y = X.iloc[rows] if hasattr(X, "iloc") else X[rows], y[rows]
    frame = as_frame(sampled, prefix, first)
    encoder = TablePreprocessor().fit(frame.iloc[:: max(1, len(frame) // KIND_ROWS)])
    columns = [_Column(name, encoder, frame[name], remedy) for name in encoder.kinds_]
    found: dict[str, Finding] = {}
    if min(y.sum(), (~y).sum()) >= MIN_CLASS:
        order = _label_order(y)
        for column in columns:
            finding = _missingness(column, y) or _copy(column, y) or _order(column, order)
            if finding is not None:
                found[column.name] = finding
        others = [column for column in columns if column.name not in found]
        found.update(_strong(others, y))
    for column in columns:
        if column.name not in found and column.is_identifier:
            found[column.name] = column.finding(
                "identifier",
                f"{column.name!r} looks like an identifier ({column.count:,} different whole "
                "numbers) and is used as a number: if its values do not predict new rows",
                option="--id",
            )
    return [found[column.name] for column in columns if column.name in found]


class _Column:
    """A column as numbers, dates or text, and as ranks of its distinct values."""

    def __init__(self, name: str, encoder: TablePreprocessor, values: Any, remedy: Remedy) -> None:
        import pandas as pd

        self.name, self.kind = name, encoder.kinds_[name]
        self.remedy = remedy
        self.values = encoder.read(name, values) if self.is_ordered else _hashable(values)
        codes, levels = pd.factorize(self.values, sort=self.is_ordered)
        self.codes: NDArray[np.int64] = np.asarray(codes, dtype=np.int64)
        """Ranks of the values from 0; -1 if missing."""
        self.count = len(levels)

    def finding(self, kind: str, message: str, option: str = "--drop") -> Finding:
        """Return a finding whose message ends with what to do."""
        return Finding(self.name, kind, f"{message}, {self.remedy(option, self.name)}")

    @cached_property
    def missing(self) -> Mask:
        return np.asarray(self.codes < 0)

    @property
    def is_ordered(self) -> bool:
        return self.kind != CATEGORY

    @property
    def is_identifier(self) -> bool:
        """Whether these are whole numbers that hardly repeat and look like numbers of things."""
        known = ~self.missing
        if self.kind != NUMBER or self.count < max(FEW_LEVELS, DISTINCT * known.sum()):
            return False
        numbers = self.values.to_numpy()[known]
        if (numbers != np.round(numbers)).any() or numbers.min() < 0:
            return False
        dense = np.ptp(numbers) <= 10 * numbers.size
        same_length = numbers.min() >= 10_000 and len(f"{numbers.min():.0f}") == len(
            f"{numbers.max():.0f}"
        )
        words = "".join(c if c.isalnum() else " " for c in self.name).casefold().split()
        named = any(word in ID_NAMES for word in words) or self.name.endswith(("Id", "ID"))
        return bool(dense or same_length or named)

    def ap(self, y: Mask) -> float:
        """Return the AP of the column alone, as a number or by the share of positives per value."""
        best = 0.0
        if self.is_ordered:
            reverse = np.where(self.missing, -1, self.count - 1 - self.codes)
            best = max(_ap(y, self.codes), _ap(y, reverse))
        if self.count <= FEW_LEVELS or (not self.is_ordered and self.count <= y.size / 10):
            best = max(best, _ap(y, _shares(self.codes + 1, y)))
        return best


def _missingness(column: _Column, y: Mask) -> Finding | None:
    """Report a column whose missing values alone tell the target."""
    missing, n = column.missing, y.size
    share = missing.mean()
    if not MIN_CLASS / n <= share <= 1 - MIN_CLASS / n:
        return None
    in_positives, in_negatives = missing[y].mean(), missing[~y].mean()
    alone = max(_ap(y, missing), _ap(y, ~missing))
    # "Always" or "never" for one class is suspicious only if chance would give some exceptions.
    expected = min(share, 1 - share) * min(y.sum(), (~y).sum())
    one_sided = expected >= FEW_LEVELS and not 0 < in_positives < 1
    if not (_near_one(alone, y) or one_sided):
        return None
    return column.finding(
        "missing",
        f"{column.name!r} is missing in {in_positives:.0%} of the positives and {in_negatives:.0%} "
        "of the negatives: if its values are filled in after the outcome",
    )


def _copy(column: _Column, y: Mask) -> Finding | None:
    """Report a column of few values, each of which occurs with one label, with few exceptions."""
    levels = column.count + bool(column.missing.any())
    if not 2 <= levels <= FEW_LEVELS:
        return None
    of_level = np.bincount(column.codes + 1, minlength=column.count + 1)
    positives = np.bincount(column.codes[y] + 1, minlength=column.count + 1)
    exceptions = int(np.minimum(positives, of_level - positives).sum())
    if exceptions > NEAR_COPY * min(y.sum(), (~y).sum()):
        return None
    what = "is a copy of the target" if levels == 2 else f"determines the target by {levels} values"
    if exceptions:
        what += f", with {exceptions:,} exceptions in {y.size:,} rows"
    return column.finding("copy", f"{column.name!r} {what}: if it is not known before the outcome")


class _LabelOrder(NamedTuple):
    is_sorted: bool
    is_grouped: bool


def _label_order(y: Mask) -> _LabelOrder:
    """Tell whether the labels are sorted in the file, or stand in a few blocks."""
    n, positives = y.size, int(y.sum())
    ranks = np.flatnonzero(y).sum() - positives * (positives - 1) / 2
    auc = ranks / (positives * (n - positives))
    changes = int((y[1:] != y[:-1]).sum())
    expected = 2 * n * y.mean() * (1 - y.mean())
    return _LabelOrder(abs(auc - 0.5) >= 0.48, changes <= max(1, 0.05 * expected))


def _order(column: _Column, order: _LabelOrder) -> Finding | None:
    """Report a column that follows the rows of a file whose labels are sorted."""
    if not (order.is_sorted or order.is_grouped) or not column.is_ordered:
        return None
    known = ~column.missing
    if column.count <= FEW_LEVELS or known.mean() < NEAR_ONE:
        return None
    codes = column.codes[known]
    follows = abs(np.corrcoef(codes, np.arange(codes.size))[0, 1]) >= NEAR_ONE
    if not follows:
        return None
    how = "sorted" if order.is_sorted else "in a few blocks"
    return column.finding(
        "order",
        f"{column.name!r} follows the order of the rows, and the labels are {how} in the file: "
        "if it numbers the rows or dates their collection",
    )


def _strong(columns: list[_Column], y: Mask) -> dict[str, Finding]:
    """Report columns that alone rank almost perfectly, or far better than all others together."""
    ap = {column.name: column.ap(y) for column in columns}
    found = {}
    near = [column for column in columns if _near_one(ap[column.name], y)]
    rest = [column for column in columns if column not in near]
    # In an easy table the other columns rank almost as well, and the column changes little.
    together = _ap_together(rest, y) if near and rest else 0.0
    for column in near:
        if together < NEAR_ONE or 1 - ap[column.name] < 0.2 * (1 - together):
            found[column.name] = column.finding(
                "strong",
                f"check {column.name!r}: it alone ranks with AP {ap[column.name]:.3f}. If it is "
                "not known before the outcome",
            )
    enough = max(FAR_ABOVE_FROM, float(y.mean()) + FAR_ABOVE)
    candidates = sorted((c for c in rest if ap[c.name] >= enough), key=lambda c: -ap[c.name])
    for column in candidates[:MAX_CANDIDATES] if len(rest) > 1 else ():
        others = _ap_together([c for c in rest if c is not column], y)
        if ap[column.name] - others < FAR_ABOVE:
            break
        found[column.name] = column.finding(
            "strong",
            f"check {column.name!r}: it alone ranks with AP {ap[column.name]:.3f}, and all other "
            f"columns together with {others:.3f}. If it is not known before the outcome",
        )
        rest.remove(column)
    return found


def _ap_together(columns: list[_Column], y: Mask) -> float:
    """Return the cross-validated AP of small boosted trees on a sample."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    rng = np.random.default_rng(0)
    positives = rng.permutation(np.flatnonzero(y))[:MODEL_POSITIVES]
    negatives = rng.permutation(np.flatnonzero(~y))[:MODEL_NEGATIVES]
    rows = np.concatenate([positives, negatives])
    weight = np.where(y[rows], y.sum() / positives.size, (~y).sum() / negatives.size)
    X = np.column_stack([column.codes[rows] for column in columns])
    model = HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=8, early_stopping=False, random_state=0
    )
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    scores = cross_val_predict(model, X, y[rows], cv=folds, method="decision_function")
    return ap_of_scores(y[rows], scores, weight)


def _shares(levels: NDArray[np.int64], y: Mask) -> Floats:
    """Return the share of positives per level, estimated on the other half of the rows."""
    half = np.random.default_rng(0).random(y.size) < 0.5
    count, scores = int(levels.max()) + 1, np.empty(y.size)
    for rows in (half, ~half):
        of_level = np.bincount(levels[~rows], minlength=count)
        positives = np.bincount(levels[~rows & y], minlength=count)
        scores[rows] = ((positives + y.mean()) / (of_level + 1))[levels[rows]]
    return scores


def _ap(y: Mask, scores: Any) -> float:
    return ap_of_scores(y, np.asarray(scores, dtype=np.float64), None)


def _near_one(ap: float, y: Mask) -> bool:
    """Tell whether an AP is near 1, also compared with that of random scores."""
    return ap >= NEAR_ONE and 1 - ap <= 0.1 * (1 - float(y.mean()))


def _hashable(values: Any) -> Any:
    """Return a column of categories; lists and records as text."""
    import pandas as pd

    try:
        pd.factorize(values)
    except TypeError:
        return to_words(values)
    return values


def _sample(n: int, columns: int) -> NDArray[np.int64]:
    """Return numbers of rows, in the order of the file."""
    size = int(np.clip(MAX_CELLS // max(columns, 1), MIN_ROWS, MAX_ROWS))
    if n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, size, replace=False))


def as_frame(X: Any, prefix: str = "", first: int = 0) -> Any:
    """Return the columns as a frame with text as names and rows numbered from 0."""
    import pandas as pd

    if hasattr(X, "columns"):
        return X.rename(columns=str).reset_index(drop=True)
    X = X.toarray() if sp.issparse(X) else X
    return pd.DataFrame(X, columns=[f"{prefix}{k + first}" for k in range(X.shape[1])])
