"""Shared by the tests of the experiments."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import dump_svmlight_file, load_digits

from experiments.datasets import SETS, SetRecipe, array_digest, data_folder, read_libsvm


@pytest.fixture
def real_data() -> Path:
    """The folder with the data sets of the paper."""
    folder = data_folder()
    if folder is None or not (folder / "libsvm").is_dir():
        pytest.skip("needs the LIBSVM data sets: set APMAX_DATA")
    return folder


@pytest.fixture(params=["digits", "paper"])
def data_sets(request: pytest.FixtureRequest) -> Path:
    """The folder with the data sets of the paper, or with scikit-learn's digits in their place."""
    return request.getfixturevalue("digits" if request.param == "digits" else "real_data")


@pytest.fixture(scope="session")
def digits_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, SetRecipe]]:
    """Digits under the names of the six data sets: 8, or all below 5, are the positives."""
    folder, recipes = tmp_path_factory.mktemp("data"), {}
    (folder / "libsvm").mkdir()
    X, digit = load_digits(return_X_y=True)
    for name, recipe in SETS.items():
        positive = digit < 5 if name == "phishing" else digit == 8
        values = csr_matrix(X - 8 if name == "ijcnn1" else X)
        labels = np.where(positive, 1, -1)
        halves = np.array_split(np.random.default_rng(0).permutation(digit.size), len(recipe.files))
        files = {}
        for file, rows in zip(recipe.files, halves, strict=True):
            path = folder / "libsvm" / f"{file.removesuffix('.bz2')}.xz"
            with lzma.open(path, "wb") as text:
                dump_svmlight_file(values[rows], labels[rows], text, zero_based=False)
            files[file] = array_digest(*read_libsvm(path, X.shape[1]))
        recipes[name] = recipe._replace(features=X.shape[1], files=files)
    return folder, recipes


@pytest.fixture
def digits(
    digits_files: tuple[Path, dict[str, SetRecipe]], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder with the digits, in the place of the data sets of the paper."""
    folder, recipes = digits_files
    for name, recipe in recipes.items():
        monkeypatch.setitem(SETS, name, recipe)
    monkeypatch.setenv("APMAX_DATA", str(folder))
    return folder
