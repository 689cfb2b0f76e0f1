"""Decision trees as plain arrays: the form in which model files contain boosted trees and forests.

A stored ensemble needs neither LightGBM nor the version of scikit-learn that fitted it, and gives
the same scores bit for bit. All arrays are checked before compiled code follows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from apmax.errors import ModelFileError
from apmax.validation import Floats

LEAF = -1
CATEGORICAL, MISSING_LEFT = 2, 1
MAX_CODES = 256
"""Codes of categories are below this; `Levels` has fewer."""


@dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """Trees in preorder, one after another: the left child of node k is node k + 1.

    Rows whose category is in a set of bits, or whose number is at most the threshold, go left.
    """

    n_features: int
    averaged: bool
    """Whether leaves are shares of positives, whose mean is turned into log-odds; else they are
    summed."""
    single: bool
    """Whether numbers are rounded to single precision before they are compared."""
    roots: NDArray[np.int64]
    code: NDArray[np.int32]
    """4 · column, + 2 if it is a category, + 1 if missing values go left; -1 for a leaf."""
    value: Floats
    """Threshold, number of the set of categories, or value of the leaf."""
    right: NDArray[np.int32]
    """The right child; 0 for a leaf."""
    bit_offsets: NDArray[np.int64]
    """Where each set of categories begins in `bits`, and the end."""
    bits: NDArray[np.uint32]

    def __post_init__(self) -> None:
        if not self._is_sound():
            raise ModelFileError("the trees are damaged")

    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds of the positive class for rows of numbers and codes."""
        from apmax._compile import over_threads
        from apmax.app._tree_walk import NODE, add_leaves

        X = np.ascontiguousarray(X, dtype=np.float64)
        if X.shape[1] != self.n_features:
            raise ModelFileError(f"the trees have {self.n_features} columns, not {X.shape[1]}")
        if self.single:
            X = X.astype(np.float32).astype(np.float64)
        out = np.zeros(X.shape[0])
        nodes = np.empty(self.code.size, NODE)
        nodes["value"], nodes["code"], nodes["right"] = self.value, self.code, self.right
        arrays = (X, self.roots, nodes, self.bit_offsets, self.bits, out)
        over_threads(add_leaves, X.shape[0], *arrays, work=X.shape[0] * self.roots.size)
        if not self.averaged:
            return out
        # One more tree with a constant share of positives keeps the log-odds finite.
        count = self.roots.size
        return np.asarray(logit((count * (out / count) + 0.5) / (count + 1)))

    def _is_sound(self) -> bool:
        """Tell whether every path ends in a leaf and no index is out of bounds."""
        size, roots, offsets = self.code.size, self.roots, self.bit_offsets
        if not (size == self.value.size == self.right.size and roots.size and offsets.size):
            return False
        # Compared, not subtracted: differences of large numbers would wrap.
        if roots[0] != 0 or (roots[1:] <= roots[:-1]).any() or roots[-1] >= size:
            return False
        if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any() or offsets[-1] != self.bits.size:
            return False
        leaf = self.code == LEAF
        node = np.flatnonzero(~leaf)
        code, right, value = self.code[node], self.right[node], self.value[node]
        end = np.append(roots[1:], size)[np.searchsorted(roots, node, side="right") - 1]
        categorical = value[code & CATEGORICAL > 0]
        leaves = self.value[leaf]
        return bool(
            np.isfinite(self.value).all()
            and (code >= 0).all()
            and ((code >> 2) < self.n_features).all()
            and (right > node + 1).all()
            and (right < end).all()
            and ((categorical >= 0) & (categorical < offsets.size - 1)).all()
            and (not self.averaged or ((leaves >= 0) & (leaves <= 1)).all())
        )


def as_trees(model: Any, n_features: int) -> TreeEnsemble:
    """Return the trees of a fitted LGBMClassifier, HistGradientBoostingClassifier or forest."""
    kind = type(model).__name__
    if kind == "LGBMClassifier":
        return _joined(_lightgbm_trees(model.booster_.model_to_string()), n_features)
    if kind == "HistGradientBoostingClassifier":
        base = _leaf(np.ravel(model._baseline_prediction)[:1])
        return _joined([base, *_histogram_trees(model, n_features)], n_features)
    trees = [_forest_tree(one.tree_) for one in model.estimators_]
    return _joined(trees, n_features, averaged=True, single=True)


class _Tree(NamedTuple):
    """Arrays of one tree; `right` counts from its root, and sets of categories from 0."""

    code: NDArray[np.int32]
    value: Floats
    right: NDArray[np.int32]
    sets: list[NDArray[np.uint32]]


def _joined(
    trees: Iterable[_Tree], n_features: int, *, averaged: bool = False, single: bool = False
) -> TreeEnsemble:
    every = list(trees)
    roots = np.cumsum([0, *(tree.code.size for tree in every)])
    values, rights, sets = [], [], list[NDArray[np.uint32]]()
    for root, tree in zip(roots, every, strict=False):
        values.append(tree.value + np.where(_is_set(tree.code), len(sets), 0.0))
        rights.append(np.where(tree.code == LEAF, 0, tree.right + root).astype(np.int32))
        sets += tree.sets
    return TreeEnsemble(
        n_features,
        averaged,
        single,
        roots[:-1],
        np.concatenate([tree.code for tree in every]),
        np.concatenate(values),
        np.concatenate(rights),
        np.cumsum([0, *(one.size for one in sets)]),
        np.concatenate([np.zeros(0, np.uint32), *sets]),
    )


def _is_set(code: NDArray[np.int32]) -> NDArray[np.bool_]:
    return np.asarray((code != LEAF) & (code & CATEGORICAL > 0))


def _leaf(value: Floats) -> _Tree:
    """Return a tree that is a constant."""
    return _Tree(np.array([LEAF], np.int32), value, np.zeros(1, np.int32), [])


def _finite(threshold: Floats) -> Floats:
    """Return thresholds without infinity, which parts missing values from all others."""
    return np.asarray(np.nan_to_num(threshold))


def _in_preorder(
    left: NDArray[np.int64], right: NDArray[np.int64], internal: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the nodes in preorder, and the new number of each right child (0 for a leaf)."""
    nodes = np.flatnonzero(internal)
    if (left[nodes] == nodes + 1).all():  # as scikit-learn numbers them
        return np.arange(left.size), np.where(internal, right, 0).astype(np.int32)
    order, new_right, waiting = list[int](), np.zeros(left.size, np.int32), [(0, -1)]
    while waiting:
        node, parent = waiting.pop()
        if parent >= 0:
            new_right[parent] = len(order)
        place = len(order)
        order.append(node)
        if internal[node]:
            waiting += [(int(right[node]), place), (int(left[node]), -1)]
    return np.array(order), new_right


def _forest_tree(tree: Any) -> _Tree:
    internal = tree.children_left >= 0
    order, right = _in_preorder(tree.children_left, tree.children_right, internal)
    missing_left = np.asarray(tree.missing_go_to_left, dtype=np.int32)
    code = np.where(internal, 4 * tree.feature + missing_left, LEAF).astype(np.int32)
    of_classes = tree.value[:, 0, :]
    share = of_classes[:, 1] / of_classes.sum(axis=1)
    value = np.where(internal, _finite(tree.threshold), share)
    return _Tree(code[order], value[order], right, [])


def _lightgbm_trees(text: str) -> Iterable[_Tree]:
    """Read the trees of LightGBM's own model text, which has all digits of the numbers."""
    for block in text.split("\nTree=")[1:]:
        lines = (line.partition("=") for line in block.split("\n\n")[0].splitlines()[1:])
        yield _lightgbm_tree({name: values.split() for name, _, values in lines})


def _lightgbm_tree(fields: dict[str, list[str]]) -> _Tree:
    leaves = np.array(fields["leaf_value"], dtype=np.float64)
    if leaves.size == 1:
        return _leaf(leaves)
    feature, decision = (np.array(fields[n], np.int64) for n in ("split_feature", "decision_type"))
    threshold = _finite(np.array(fields["threshold"], dtype=np.float64))
    splits = feature.size
    categorical, missing_type = decision & 1 == 1, (decision >> 2) & 3
    if (missing_type == 1).any():
        raise ValueError("zeros as missing values are not supported")
    # A missing number that training did not see in this split counts as 0; in a set, it is not.
    missing_left = np.where(missing_type == 2, decision & 2 > 0, threshold >= 0) & ~categorical
    code = 4 * feature + CATEGORICAL * categorical + MISSING_LEFT * missing_left
    sets: list[NDArray[np.uint32]] = []
    if categorical.any():
        bits = np.array(fields["cat_threshold"], np.uint32)
        sets = np.split(bits, np.array(fields["cat_boundaries"], np.int64)[1:-1])
    # A negative child is the complement of the number of a leaf; leaves follow the splits here.
    left, right = (
        np.where(child >= 0, child, splits + ~child)
        for child in (np.array(fields[n], np.int64) for n in ("left_child", "right_child"))
    )
    none = np.zeros(leaves.size, np.int64)
    internal = np.arange(splits + leaves.size) < splits
    order, new_right = _in_preorder(np.append(left, none), np.append(right, none), internal)
    codes = np.append(code, none + LEAF).astype(np.int32)
    return _Tree(codes[order], np.append(threshold, leaves)[order], new_right, sets)


def _histogram_trees(model: Any, n_features: int) -> Iterable[_Tree]:
    """Return the trees of scikit-learn, whose categories come first and have codes of their own."""
    is_category = model.is_categorical_
    codes: dict[int, Sequence[float]] = {}
    places = np.arange(n_features)
    if is_category is not None:
        places = np.append(np.flatnonzero(is_category), np.flatnonzero(~is_category))
        known = model._preprocessor.named_transformers_["encoder"].categories_
        codes = dict(enumerate(list(one) for one in known))
    for (predictor,) in model._predictors:
        yield _histogram_tree(predictor, places, codes)


def _histogram_tree(
    predictor: Any, places: NDArray[np.intp], codes: dict[int, Sequence[float]]
) -> _Tree:
    nodes = predictor.nodes
    internal = nodes["is_leaf"] == 0
    categorical = internal & (nodes["is_categorical"] > 0)
    feature, missing_left = nodes["feature_idx"].astype(np.int64), nodes["missing_go_to_left"]
    code = 4 * places[np.where(internal, feature, 0)] + CATEGORICAL * categorical + missing_left
    value = np.where(internal, _finite(nodes["num_threshold"]), nodes["value"])
    sets = list[NDArray[np.uint32]]()
    for node in np.flatnonzero(categorical):
        words = predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]]
        known = {code: k for k, code in enumerate(codes[feature[node]])}
        # Categories that training did not see go where missing values go.
        goes_left = [
            (int(words[known[c] >> 5]) >> (known[c] & 31)) & 1 if c in known else missing_left[node]
            for c in range(MAX_CODES)
        ]
        bits = np.packbits(np.array(goes_left, np.uint8), bitorder="little")
        value[node] = len(sets)
        sets.append(bits.view(np.uint32))
    order, right = _in_preorder(
        nodes["left"].astype(np.int64), nodes["right"].astype(np.int64), internal
    )
    return _Tree(np.where(internal, code, LEAF).astype(np.int32)[order], value[order], right, sets)
