"""Trees as plain arrays: the scores of the models they come from, and refusal of bad arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from apmax.app.tree_ensemble import TreeEnsemble, as_trees
from apmax.errors import ModelFileError
from apmax.tabular import library
from apmax.tabular.library import BOOSTING, EXTRA_TREES, RANDOM_FOREST, fit_trees, log_odds
from apmax.tabular.logistic import Shape

NUMBERS, CATEGORIES = 3, 2
WIDTH = NUMBERS + CATEGORIES
TREES = [*BOOSTING, EXTRA_TREES, RANDOM_FOREST]


def made_rows(n: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return numbers with missing values, two columns of codes, and labels."""
    rng = np.random.default_rng(seed)
    columns = [rng.normal(size=n), rng.lognormal(size=n), rng.normal(size=n) - 5]
    X = np.column_stack([*columns, rng.integers(0, 40, n), rng.integers(0, 3, n)])
    X[rng.random(n) < 0.1, 0] = np.nan
    X[rng.random(n) < 0.1, 3] = np.nan
    odds = np.nan_to_num(X[:, 0]) + X[:, 1] + 2 * np.isin(X[:, 3], [3, 5, 8, 33])
    return X, odds + rng.logistic(size=n) > 4


def new_rows() -> NDArray[np.float64]:
    """Return rows with missing values and categories where training had none, and large numbers."""
    X, _ = made_rows(1500, 1)
    for column in range(WIDTH):
        X[column :: 3 + column, column] = np.nan
    X[:100, 3] = np.arange(100)
    X[:4, 1] = [1e30, -1e30, 1e-30, 0.0]
    return X


def fitted(name: str, *, categories: int = CATEGORIES) -> Any:
    return fit_trees(name, *made_rows(1200, 0), None, Shape(WIDTH - categories, categories), 0)


@pytest.mark.parametrize("name", TREES)
def test_scores_are_those_of_the_model_bit_for_bit(name: str) -> None:
    model = fitted(name)
    trees = as_trees(model, WIDTH)
    for X in (made_rows(1200, 0)[0], new_rows()):
        np.testing.assert_array_equal(trees.decision_function(X), log_odds(model, X))


@pytest.mark.parametrize("categories", [0, CATEGORIES])
def test_scores_are_those_of_histogram_boosting(
    categories: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "has_lightgbm", lambda: False)
    model = fitted("boosting-20x100", categories=categories)
    trees = as_trees(model, WIDTH)
    np.testing.assert_array_equal(trees.decision_function(new_rows()), log_odds(model, new_rows()))


def test_a_constant_model_has_one_leaf() -> None:
    X = np.zeros((100, WIDTH))
    y = np.arange(100) < 10
    model = fit_trees("boosting-5x100", X, y, None, Shape(WIDTH, 0), 0)
    np.testing.assert_array_equal(
        as_trees(model, WIDTH).decision_function(X[:3]), log_odds(model, X[:3])
    )


@pytest.fixture(scope="module")
def trees() -> TreeEnsemble:
    return as_trees(fitted("boosting-5x100"), WIDTH)


def changed(values: NDArray[Any], at: int, value: float) -> NDArray[Any]:
    values = values.copy()
    values[at] = value
    return values


def bad_arrays(trees: TreeEnsemble) -> dict[str, dict[str, Any]]:
    """Return changes that would lead compiled code out of bounds, or round in a circle."""
    nodes = np.flatnonzero(trees.code >= 0)
    node, last = int(nodes[0]), int(trees.roots[1]) - 1
    of_set = int(nodes[(trees.code[nodes] & 2) > 0][0])
    return {
        "a column beyond the last": {"code": changed(trees.code, node, 4 * WIDTH)},
        "a negative column": {"code": changed(trees.code, node, -5)},
        "a circle": {"right": changed(trees.right, node, node)},
        "a node as its own left child": {"right": changed(trees.right, node, node + 1)},
        "a child in another tree": {"right": changed(trees.right, node, last + 1)},
        "a child beyond the end": {"right": changed(trees.right, node, 2**31 - 1)},
        "a negative child": {"right": changed(trees.right, node, -1)},
        "a tree without a leaf": {"code": changed(trees.code, last, 0)},
        "a set that does not exist": {"value": changed(trees.value, of_set, 1e9)},
        "a negative set": {"value": changed(trees.value, of_set, -1)},
        "a leaf that is no number": {"value": changed(trees.value, last, np.nan)},
        "bits beyond the end": {"bit_offsets": changed(trees.bit_offsets, -1, 10**6)},
        "falling offsets": {"bit_offsets": changed(trees.bit_offsets, 1, 10**6)},
        "no root": {"roots": trees.roots[:0]},
        "a root beyond the end": {"roots": changed(trees.roots, -1, 10**6)},
        "falling roots": {"roots": changed(trees.roots, 1, 0)},
        "too few values": {"value": trees.value[:-1]},
        "too few children": {"right": trees.right[:-1]},
        "shares that are not": {"averaged": True},
    }


def test_arrays_that_lead_out_of_bounds_are_refused(trees: TreeEnsemble) -> None:
    assert replace(trees).decision_function(new_rows()).size == 1500
    for change in bad_arrays(trees).values():
        with pytest.raises(ModelFileError, match="damaged"):
            replace(trees, **change)
    with pytest.raises(ModelFileError, match="columns"):
        trees.decision_function(new_rows()[:, :-1])


def test_positions_that_wrap_around_are_refused() -> None:
    big = 2**62
    leaf = {"code": np.array([-1, -1], np.int32), "right": np.zeros(2, np.int32)}
    sound = {
        "roots": np.array([0, 1]),
        "bit_offsets": np.array([0]),
        "bits": np.zeros(0, np.uint32),
    }
    TreeEnsemble(1, False, False, value=np.zeros(2), **leaf, **sound)
    wrapped = np.array([0, big, 2 * (big - 1) + 1, -2 * big, -1, 1])
    for name in ("roots", "bit_offsets"):
        arrays = {**sound, name: wrapped, "bits": np.zeros(1, np.uint32)}
        with pytest.raises(ModelFileError, match="damaged"):
            TreeEnsemble(1, False, False, value=np.zeros(2), **leaf, **arrays)
