"""The six LIBSVM data sets of the paper's linear experiments.

Files are read from ``$APMAX_DATA/libsvm`` (plain, .gz, .bz2 or .xz) or downloaded once from the
LIBSVM page. In both cases the parsed content is compared with a known SHA-256.
"""

import hashlib
import logging
import lzma
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pooch
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler

from apmax.errors import ApmaxError, FileError, FileFormatError
from apmax.registry import Registry
from apmax.validation import Floats, Mask

PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
VARIABLE = "APMAX_DATA"


class DownloadError(ApmaxError):
    """A data set could not be downloaded; the message says how to provide it by hand."""


class PaperSet(NamedTuple):
    """Training and test set: CSR matrices (arrays for ijcnn1) and masks of the positives."""

    X: Any
    y: Mask
    X_test: Any
    y_test: Mask


class SetRecipe(NamedTuple):
    """How to make a data set from its files."""

    features: int
    files: dict[str, str]
    """Name on the LIBSVM page and SHA-256 of the parsed arrays; training file first."""
    rate: float | None = None
    """Share of positives to reduce to before a random 2:1 split; None where a test set exists."""


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
SETS = Registry("data", {name: SetRecipe(**fields) for name, fields in _TABLES.items()})


def load_paper_set(name: str, seed: int = 0) -> PaperSet:
    """Load a data set, prepared as in the paper.

    Features are scaled to [0, 1] on the training set. Positives of mushrooms and phishing
    (label 1) are reduced to 5.27 % and 35.65 %, and their rows are split 2:1, both by `seed`.
    """
    recipe = SETS.choose(name)
    parts = [_read_checked(file, digest, recipe.features) for file, digest in recipe.files.items()]
    if recipe.rate is None:
        (X, y), (X_test, y_test) = parts
    else:
        X, y = parts[0]
        count = round(recipe.rate / (1 - recipe.rate) * (~y).sum())
        rows = keep_positives(y, count, seed)
        X, X_test, y, y_test = train_test_split(
            X[rows], y[rows], test_size=1 / 3, stratify=y[rows], random_state=seed
        )
    if X.min() < 0:  # a shift is needed, so zeros do not stay zeros
        X, X_test = X.toarray(), X_test.toarray()
        scaler = MinMaxScaler().fit(X)
    else:
        scaler = MaxAbsScaler().fit(X)
    return PaperSet(scaler.transform(X), y, scaler.transform(X_test), y_test)


def keep_positives(y: Mask, count: int, seed: int) -> NDArray[np.intp]:
    """Indices of all negatives and of `count` random positives, in their order."""
    kept = np.random.default_rng(seed).choice(np.flatnonzero(y), count, replace=False)
    return np.sort(np.concatenate([kept, np.flatnonzero(~y)]))


def read_libsvm(path: Path, features: int | None = None) -> tuple[Any, Floats]:
    """Read a LIBSVM file, also .gz, .bz2 or .xz, as a CSR matrix and its labels."""
    if path.suffix == ".xz":
        with lzma.open(path) as file:
            return load_svmlight_file(file, n_features=features)  # type: ignore[no-any-return]
    return load_svmlight_file(str(path), n_features=features)  # type: ignore[no-any-return]


def local_files(name: str) -> list[Path]:
    """Raw files of a data set that are on this machine."""
    return [path for path in map(_find, SETS.choose(name).files) if path is not None]


def data_folder() -> Path | None:
    """Return the folder named by ``$APMAX_DATA``, or None if the variable is not set."""
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise FileError(
            f"{VARIABLE}={given} is not a folder: set it to the folder that holds libsvm/ and "
            "images/, or unset it to download the data"
        )
    return folder


def cache_folder() -> Path:
    """Folder of the downloads, by the conventions of the operating system."""
    return Path(pooch.os_cache("apmax"))


def download(url: str, subfolder: str, known_hash: str | None = None) -> Path:
    """Download a file to the cache, unless it is there; ``$APMAX_DATA/subfolder`` could hold it."""
    pooch.get_logger().setLevel(logging.WARNING)
    name = url.rpartition("/")[2]
    try:
        return Path(pooch.retrieve(url, known_hash, fname=name, path=cache_folder()))
    except (OSError, ValueError) as error:  # errors of requests are OSErrors
        reason = " ".join(str(error).split())
        raise DownloadError(
            f"cannot download {url} ({reason}): try again later, or save the file as "
            f"FOLDER/{subfolder}/{name} and set {VARIABLE}=FOLDER"
        ) from error


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file raises into a FileFormatError."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())
        raise FileFormatError(
            f"{path} is damaged or is another file ({reason}): delete it and run the command again"
        ) from error


def array_digest(X: Any, labels: Floats) -> str:
    """SHA-256 of parsed arrays, independent of how the text was written or compressed."""
    total = hashlib.sha256()
    for array, dtype in ((X.indptr, "<i8"), (X.indices, "<i8"), (X.data, "<f8"), (labels, "<f8")):
        total.update(np.ascontiguousarray(array, dtype).tobytes())
    return total.hexdigest()


def _find(page_name: str) -> Path | None:
    folder, name = data_folder(), page_name.removesuffix(".bz2")
    given = [] if folder is None else [f"{name}{end}" for end in ("", ".gz", ".bz2", ".xz")]
    places = [Path(str(folder), "libsvm", file) for file in given] + [cache_folder() / page_name]
    return next((path for path in places if path.is_file()), None)


def _read_checked(page_name: str, digest: str, features: int) -> tuple[Any, Mask]:
    path = _find(page_name) or download(PAGE + page_name, "libsvm")
    try:
        with named_errors(path):
            X, labels = read_libsvm(path, features)
            if array_digest(X, labels) != digest:
                raise ValueError(f"its values are not those of {page_name} on the LIBSVM page")
    except FileFormatError:
        if path.parent == cache_folder():
            path.unlink()  # download it again next time
        raise
    return X, labels == 1
