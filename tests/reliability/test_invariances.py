"""Changes of the data that leave the problem as it is leave the fitted model as it is.

Most changes leave every operation as it is, and scores equal to 1e-12 of their standard deviation.
Others change the order of sums. Fits stop at a tolerance, which rounding can reach one iteration
earlier: scores are equal to 1e-4. Models that choose by cross-validation can choose another setting
of nearly equal AP: their AP is equal to 0.02.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from apmax import (
    AdditiveAPClassifier,
    APClassifier,
    APClassifierCV,
    AutoAPClassifier,
    StochasticAPClassifier,
    _compile,
    average_precision,
)
from apmax.validation import Floats
from tests.reliability.soak import record, scaled

FOLDS = 3
LEAST_SPREAD = 0.01
"""Least unit of differences: without a signal, log-odds are nearly constant."""


class Table(NamedTuple):
    """Features, labels, the fold of each row, and perhaps weights."""

    X: Any
    y: Any
    fold: Any
    weight: Any = None

    def __repr__(self) -> str:
        return f"{self.y.size} rows, {self.X.shape[1]} columns"

    def rows(self, which: Any) -> Table:
        return Table(*(None if part is None else part[which] for part in self))

    @property
    def cv(self) -> list[Any]:
        return [(np.flatnonzero(self.fold != k), np.flatnonzero(self.fold == k)) for k in range(3)]


@st.composite
def tables(draw: Callable[..., Any]) -> Table:
    """Return a table with ties, zeros and numbers that float32 represents exactly."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(180, 250)), draw(st.integers(1, 4))
    X = rng.normal(size=(n, d)).round(draw(st.integers(1, 5)))
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.3]))] = 0.0
    X = X.astype(np.float32).astype(np.float64)
    z = X @ rng.normal(size=d) + 0.5 * X[:, 0] ** 2 + rng.normal(size=n)
    y = np.argsort(np.argsort(z)) >= n - 60
    fold = np.empty(n, int)
    for rows in (np.flatnonzero(y), np.flatnonzero(~y)):
        fold[rng.permutation(rows)] = np.arange(rows.size) % FOLDS
    return Table(X, y, fold)


class Estimator(NamedTuple):
    """How to make it, how many tables to try, and whether it chooses by cross-validation."""

    make: Callable[[Any], Any]
    examples: int
    chooses: bool = False


ESTIMATORS: dict[str, Estimator] = {
    "APClassifier": Estimator(lambda cv: APClassifier(), 10),
    "squared hinge": Estimator(lambda cv: APClassifier(surrogate="squared_hinge"), 5),
    "APClassifierCV": Estimator(lambda cv: APClassifierCV(cv=cv), 3, True),
    "AdditiveAPClassifier": Estimator(
        lambda cv: AdditiveAPClassifier(cv=cv, interactions=0), 2, True
    ),
    "AutoAPClassifier": Estimator(
        lambda cv: AutoAPClassifier(["logistic", "additive"], cv=cv, select="logistic"), 2, True
    ),
    "additive member of AutoAPClassifier": Estimator(
        lambda cv: AutoAPClassifier(["logistic", "additive"], cv=cv, select="additive"), 1, True
    ),
    "StochasticAPClassifier": Estimator(
        lambda cv: StochasticAPClassifier(random_state=0, max_iter=60, batch_size=32), 5
    ),
}


def scores(name: str, table: Table, X: Any = None) -> Floats:
    """Fit, and return the scores of the same rows or of others."""
    model = ESTIMATORS[name].make(table.cv)
    with warnings.catch_warnings(action="ignore"):
        model.fit(table.X, table.y, table.weight)
    found: Floats = model.decision_function(table.X if X is None else X)
    return found


Pair = tuple[Floats, Floats]


def permuted_rows(name: str, table: Table, rng: Any) -> Pair:
    order = rng.permutation(table.y.size)
    return scores(name, table), scores(name, table.rows(order), table.X)


def permuted_columns(name: str, table: Table, rng: Any) -> Pair:
    order = rng.permutation(table.X.shape[1])
    return scores(name, table), scores(name, table._replace(X=table.X[:, order]))


def repeated_rows(name: str, table: Table, rng: Any) -> Pair:
    times = rng.integers(1, 4, table.y.size)
    many = table.rows(np.repeat(np.arange(table.y.size), times))
    return scores(name, table._replace(weight=times)), scores(name, many, table.X)


def rows_without_weight(name: str, table: Table, rng: Any) -> Pair:
    weight = np.where(rng.random(table.y.size) < 0.1, 0.0, 1.0)
    kept = table.rows(np.flatnonzero(weight))
    return scores(name, table._replace(weight=weight)), scores(name, kept, table.X)


def tiny_weights(name: str, table: Table, rng: Any) -> Pair:
    scale = rng.choice([1e-300, 5e-324, 1e-100, 1e-9])
    return scores(name, table), scores(name, table._replace(weight=np.full(table.y.size, scale)))


def single_precision(name: str, table: Table, rng: Any) -> Pair:
    return scores(name, table), scores(name, table._replace(X=table.X.astype(np.float32)))


def fortran_order(name: str, table: Table, rng: Any) -> Pair:
    return scores(name, table), scores(name, table._replace(X=np.asfortranarray(table.X)))


def other_units(name: str, table: Table, rng: Any) -> Pair:
    units = 2.0 ** rng.integers(-80, 80, table.X.shape[1])
    return scores(name, table), scores(name, table._replace(X=table.X * units))


def shifted_columns(name: str, table: Table, rng: Any) -> Pair:
    return scores(name, table), scores(name, table._replace(X=table.X + rng.integers(-99, 99)))


def increasing_functions(name: str, table: Table, rng: Any) -> Pair:
    X = np.sinh(table.X) + rng.integers(-3, 3)
    return scores(name, table), scores(name, table._replace(X=X))


def swapped_classes(name: str, table: Table, rng: Any) -> Pair:
    """Log-odds are those of the other class, with the same positive class."""
    model = ESTIMATORS[name].make(table.cv).set_params(pos_label="a")
    with warnings.catch_warnings(action="ignore"):
        model.fit(table.X, np.where(table.y, "a", "b"))
    return scores(name, table), -model.decision_function(table.X)


EXACT = (single_precision, fortran_order, other_units, swapped_classes, rows_without_weight)
"""Changes after which the same numbers are computed in the same order."""
ROUNDED = (permuted_rows, permuted_columns, repeated_rows, tiny_weights, shifted_columns)
BATCHES_OF_ROWS = (permuted_rows, repeated_rows)
"""Changes after which a stochastic method draws other batches."""
CASES = [
    (name, change)
    for name in ESTIMATORS
    for change in (*EXACT, *ROUNDED)
    if name != "StochasticAPClassifier" or change not in BATCHES_OF_ROWS
    if not name.startswith("additive member") or change is permuted_rows
]
OF_RANKS = ("AdditiveAPClassifier", increasing_functions)
"""Its functions of columns depend on ranks only, so the same numbers are computed."""
CASES.append(OF_RANKS)
IDS = [f"{name}, {change.__name__}" for name, change in CASES]


def check(name: str, change: Callable[..., Pair], examples: int) -> list[float]:
    """Try the change on some tables, and return the differences of scores."""
    differences: list[float] = []

    @settings(max_examples=examples, phases=[Phase.generate])  # a smaller table would say no more
    @given(tables(), st.integers(0, 99))
    def compare(table: Table, seed: int) -> None:
        expected, found = change(name, table, np.random.default_rng(seed))
        assert np.isfinite(expected).all()
        difference = float(np.abs(found - expected).max() / max(expected.std(), LEAST_SPREAD))
        differences.append(difference)
        exact = change in EXACT or (name, change) == OF_RANKS
        if not exact and ESTIMATORS[name].chooses:
            ap, other = (average_precision(table.y, one) for one in (expected, found))
            assert ap == pytest.approx(other, abs=0.02)
        else:
            assert difference <= (1e-12 if exact else 1e-4)

    compare()
    return differences


@pytest.mark.parametrize(("name", "change"), CASES, ids=IDS)
def test_a_model_does_not_depend_on(name: str, change: Callable[..., Pair]) -> None:
    check(name, change, ESTIMATORS[name].examples)


@pytest.mark.parametrize("surrogate", ["squared_hinge", "logistic"])
def test_a_fit_has_the_same_bits_with_one_and_two_threads(
    surrogate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    y = X[:, 0] + rng.normal(size=3000) > 1.5
    monkeypatch.setattr(_compile, "THREADS_FROM", 100)
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(_compile, "_threads", lambda threads=threads: threads)
        model = APClassifier(surrogate=surrogate).fit(X, y)
        found.append(np.append(model.coef_, model.intercept_))
    np.testing.assert_array_equal(*found)


def coefficients_of_files(path: Path, frame: Any) -> Floats:
    """Fit a file to the end, so that rounding does not decide when it stops."""
    frame.to_parquet(path, index=False)
    model = APClassifier(alpha=0.3, max_iter=200, tol=1e-9)
    with warnings.catch_warnings(action="ignore"):
        model.fit_files(path, "y", sample_weight="w")
    return np.append(model.coef_, model.intercept_)


def test_fits_of_files_do_not_depend_on_the_order_or_the_repetition_of_rows(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y, times = X[:, 0] + rng.normal(size=2000) > 1.5, rng.integers(1, 4, 2000)
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y, w=times)
    expected = coefficients_of_files(tmp_path / "weights.parquet", frame)
    order = rng.permutation(np.repeat(np.arange(2000), times))
    for name, other in (
        ("order", frame.iloc[rng.permutation(2000)]),
        ("repeated", frame.iloc[order].assign(w=1)),
    ):
        found = coefficients_of_files(tmp_path / f"{name}.parquet", other)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


@pytest.mark.soak
@pytest.mark.parametrize("change", dict.fromkeys(change for _, change in CASES))
def test_many_models_do_not_depend_on(change: Callable[..., Pair]) -> None:
    names = [name for name, one in CASES if one is change]
    found = [difference for name in names for difference in check(name, change, scaled(100))]
    record(
        f"scores of fitted models do not depend on {change.__name__.replace('_', ' ')}",
        f"{len(found):,} tables, {len(names)} kinds of models: in units of the standard deviation, "
        f"the median difference is {np.median(found):.1e}, the largest {max(found):.1e}",
    )
