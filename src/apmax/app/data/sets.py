"""The six data sets of the paper's linear experiments, fetched, checked and prepared."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from apmax.app.data.fetching import cache_folder, download, find_offline
from apmax.app.data.libsvm import read_libsvm
from apmax.app.data.preparation import (
    TEST_SHARE,
    drop_positives,
    kept_positives,
    scale_to_unit,
    split,
)
from apmax.errors import FileFormatError
from apmax.registry import Registry
from apmax.validation import Floats, Mask, check_count


class PaperSet(NamedTuple):
    """A training and a test set: CSR matrices (arrays for ijcnn1) and masks of positives."""

    X: Any
    y: Mask
    X_test: Any
    y_test: Mask


class PaperSetInfo(NamedTuple):
    """A data set as :func:`load_paper_set` gives it, and whether that needs a download."""

    name: str
    rows: int
    test_rows: int
    features: int
    positive_share: float
    available: bool


class _File(NamedTuple):
    """What one file holds; label 1 is positive in all. `digest` is that of the parsed arrays."""

    page_name: str
    rows: int
    positives: int
    entries: int
    digest: str


class _Recipe(NamedTuple):
    """Files and preparation; with `rate`, positives are dropped and the rows split at random."""

    features: int
    files: tuple[str, ...]
    rate: float | None = None


_FILES = {
    "mushrooms": _File("mushrooms", 8124, 3916, 170604,
        "cb7ac660f849a9a3338330dec0a88e16f01e479ce526befd49a8c7ac83b3b6ea"),
    "phishing": _File("phishing", 11055, 6157, 331650,
        "4b7fe58cf997430f7455fd5e5cb778766164ca22c4525a88860f038e15199884"),
    "w6a": _File("w6a", 17188, 525, 200470,
        "9df867914f517d5721b69aacd067e2e5918ea4ddf6cae11def846d1133211157"),
    "w6a.t": _File("w6a.t", 32561, 954, 379116,
        "667b7ad7bb77164d61217975cfc8596d8689ce61ca35059e7e1b22bcd4227c26"),
    "a9a": _File("a9a", 32561, 7841, 451592,
        "da67dd42e94520ff7ffef42ee314af73b99deb38c2238be626de7ed3ce0ac868"),
    "a9a.t": _File("a9a.t", 16281, 3846, 225732,
        "8d353274cb9d24a2c404732398558027f9d19281760b4fa99420f5bba24bd258"),
    "w8a": _File("w8a", 49749, 1479, 579586,
        "7486da074747debf97ff733ff1990ad406d74018e7057e52d0d878f0e54c3e15"),
    "w8a.t": _File("w8a.t", 14951, 454, 174276,
        "dfcd4f236d72e33e97e3409e6078f91812c1ade41614e3a91bb7ff6ae8c918d7"),
    "ijcnn1": _File("ijcnn1.bz2", 49990, 4853, 649870,
        "cbf3fe3743512d815da44042a1a67e15e3ba062468f73baf16b72b322ac7e030"),
    "ijcnn1.t": _File("ijcnn1.t.bz2", 91701, 8712, 1192113,
        "7a4c12cea257723f2fd185320171090c92ac663acd51012f861e604c56881f28"),
}  # fmt: skip

_RECIPES = Registry(
    "name",
    {
        "mushrooms": _Recipe(112, ("mushrooms",), rate=0.0527),
        "phishing": _Recipe(68, ("phishing",), rate=0.3565),
        "w6a": _Recipe(300, ("w6a", "w6a.t")),
        "a9a": _Recipe(123, ("a9a", "a9a.t")),
        "w8a": _Recipe(300, ("w8a", "w8a.t")),
        "ijcnn1": _Recipe(22, ("ijcnn1", "ijcnn1.t")),
    },
)


def load_paper_set(name: str, seed: int = 0) -> PaperSet:
    """A data set of the paper's linear experiments, prepared as there.

    Features are scaled to [0, 1] by the training set. Of mushrooms and phishing, positives
    (label 1) are dropped until 5.27 % and 35.65 % are left, and rows are split 2:1, both by
    `seed`; the others have a test set of their own.

    Files are taken from ``$APMAX_DATA/libsvm`` (also as .gz, .bz2 or .xz) if they are there,
    else downloaded once from the LIBSVM data page. Their content is checked in either case.

    Parameters
    ----------
    name : "mushrooms", "phishing", "w6a", "a9a", "w8a" or "ijcnn1".
    seed : of what is random in the preparation.
    """
    recipe = _RECIPES.choose(name)
    seed = check_count(seed, "seed", at_least=0, why="it seeds the split")
    parts = [_checked_file(file, recipe.features) for file in recipe.files]
    if recipe.rate is not None:
        X, y, X_test, y_test = split(*drop_positives(*parts[0], recipe.rate, seed), seed)
    else:
        (X, y), (X_test, y_test) = parts
    X, X_test = scale_to_unit(X, X_test)
    return PaperSet(X, y, X_test, y_test)


def list_paper_sets() -> list[PaperSetInfo]:
    """The data sets that :func:`load_paper_set` knows, in the paper's order."""
    return [_info(name, recipe) for name, recipe in _RECIPES.items()]


def paper_set_files(name: str) -> list[Path]:
    """The files of a set on this machine, raw as the LIBSVM page has them; empty before that."""
    files = _RECIPES.choose(name).files
    found = [find_offline(file, _FILES[file].page_name) for file in files]
    return [path for path in found if path is not None]


def _info(name: str, recipe: _Recipe) -> PaperSetInfo:
    files = [_FILES[file] for file in recipe.files]
    rows, positives = files[0].rows, files[0].positives
    if recipe.rate is not None:
        negatives = rows - positives
        positives = kept_positives(recipe.rate, negatives)
        rows = negatives + positives
        test_rows = math.ceil(rows * TEST_SHARE)
        share = positives / rows
        rows -= test_rows
    else:
        test_rows, share = files[1].rows, positives / rows
    here = len(paper_set_files(name)) == len(files)
    return PaperSetInfo(name, rows, test_rows, recipe.features, share, here)


def _checked_file(name: str, features: int) -> tuple[sp.csr_matrix, Mask]:
    expected = _FILES[name]
    path = find_offline(name, expected.page_name) or download(expected.page_name)
    try:
        X, labels = read_libsvm(path, features=features)
        _check_content(path, X, labels, expected)
    except FileFormatError:
        # A broken download would be found again and again.
        if path.parent == cache_folder():
            path.unlink(missing_ok=True)
        raise
    return X, labels == 1


def _check_content(path: Path, X: sp.csr_matrix, labels: Floats, expected: _File) -> None:
    found = (X.shape[0], int((labels == 1).sum()), X.nnz)
    if found != (expected.rows, expected.positives, expected.entries):
        raise FileFormatError(
            f"{path} has {found[0]} rows, {found[1]} positives and {found[2]} entries, but "
            f"{expected.page_name} has {expected.rows}, {expected.positives} and "
            f"{expected.entries}: it is another file or cut short; remove it and load again"
        )
    if digest(X, labels) != expected.digest:
        raise FileFormatError(
            f"{path} holds other values than the {expected.page_name} known here (SHA-256 "
            f"{digest(X, labels)[:12]}…, expected {expected.digest[:12]}…): remove it and load "
            "again"
        )


def digest(X: sp.csr_matrix, labels: Floats) -> str:
    """SHA-256 of the parsed arrays, however the text was written or compressed."""
    total = hashlib.sha256()
    for array, dtype in ((X.indptr, "<i8"), (X.indices, "<i8"), (X.data, "<f8"), (labels, "<f8")):
        total.update(np.ascontiguousarray(array, dtype).tobytes())
    return total.hexdigest()
