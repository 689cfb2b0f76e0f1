"""The six LIBSVM data sets of the paper's linear experiments.

Files are read from ``$APMAX_DATA/libsvm`` (plain, .gz, .bz2 or .xz) or downloaded once from the
LIBSVM page. In both cases the parsed content is compared with a known SHA-256.
"""

from __future__ import annotations

import hashlib
import logging
import lzma
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pooch
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler

from apmax.errors import DownloadError, FileError, FileFormatError
from apmax.registry import Registry
from apmax.validation import Floats, Mask

PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
VARIABLE = "APMAX_DATA"
TEST_SHARE = 1 / 3


class PaperSet(NamedTuple):
    """Training and test set: CSR matrices (arrays for ijcnn1) and masks of the positives."""

    X: Any
    y: Mask
    X_test: Any
    y_test: Mask


class SetRecipe(NamedTuple):
    """Size of a prepared data set, and how to make it from its files."""

    rows: int
    test_rows: int
    features: int
    positive_share: float
    files: dict[str, str]
    """Name on the LIBSVM page and SHA-256 of the parsed arrays; training file first."""
    rate: float | None = None
    """Share of positives to reduce to before a random 2:1 split; None where a test set exists."""


SETS = Registry(
    "data",
    {
        "mushrooms": SetRecipe(2961, 1481, 112, 0.0527, {
            "mushrooms": "cb7ac660f849a9a3338330dec0a88e16f01e479ce526befd49a8c7ac83b3b6ea",
        }, rate=0.0527),
        "phishing": SetRecipe(5074, 2537, 68, 0.3565, {
            "phishing": "4b7fe58cf997430f7455fd5e5cb778766164ca22c4525a88860f038e15199884",
        }, rate=0.3565),
        "w6a": SetRecipe(17188, 32561, 300, 0.0305, {
            "w6a": "9df867914f517d5721b69aacd067e2e5918ea4ddf6cae11def846d1133211157",
            "w6a.t": "667b7ad7bb77164d61217975cfc8596d8689ce61ca35059e7e1b22bcd4227c26",
        }),
        "a9a": SetRecipe(32561, 16281, 123, 0.2408, {
            "a9a": "da67dd42e94520ff7ffef42ee314af73b99deb38c2238be626de7ed3ce0ac868",
            "a9a.t": "8d353274cb9d24a2c404732398558027f9d19281760b4fa99420f5bba24bd258",
        }),
        "w8a": SetRecipe(49749, 14951, 300, 0.0297, {
            "w8a": "7486da074747debf97ff733ff1990ad406d74018e7057e52d0d878f0e54c3e15",
            "w8a.t": "dfcd4f236d72e33e97e3409e6078f91812c1ade41614e3a91bb7ff6ae8c918d7",
        }),
        "ijcnn1": SetRecipe(49990, 91701, 22, 0.0971, {
            "ijcnn1.bz2": "cbf3fe3743512d815da44042a1a67e15e3ba062468f73baf16b72b322ac7e030",
            "ijcnn1.t.bz2": "7a4c12cea257723f2fd185320171090c92ac663acd51012f861e604c56881f28",
        }),
    },
)  # fmt: skip


def load_paper_set(name: str, seed: int = 0) -> PaperSet:
    """Load a data set, prepared as in the paper.

    Features are scaled to [0, 1] on the training set. Positives of mushrooms and phishing
    (label 1) are reduced to 5.27 % and 35.65 %, and their rows are split 2:1.

    Parameters
    ----------
    name : {"mushrooms", "phishing", "w6a", "a9a", "w8a", "ijcnn1"}
        The data set.
    seed : int
        Seed of the reduction and the split; without effect where a test set exists.
    """
    recipe = SETS.choose(name)
    parts = [_read_checked(file, digest, recipe.features) for file, digest in recipe.files.items()]
    if recipe.rate is None:
        (X, y), (X_test, y_test) = parts
    else:
        X, y = drop_positives(*parts[0], recipe.rate, seed)
        X, X_test, y, y_test = train_test_split(
            X, y, test_size=TEST_SHARE, stratify=y, random_state=seed
        )
    if X.min() < 0:  # a shift is needed, so zeros do not stay zeros
        X, X_test = X.toarray(), X_test.toarray()
        scaler = MinMaxScaler().fit(X)
    else:
        scaler = MaxAbsScaler().fit(X)
    return PaperSet(scaler.transform(X), y, scaler.transform(X_test), y_test)


def drop_positives(X: Any, y: Mask, rate: float, seed: int) -> tuple[Any, Mask]:
    """Drop random positives until a share of `rate` is positive."""
    positives, negatives = np.flatnonzero(y), np.flatnonzero(~y)
    count = round(rate / (1 - rate) * negatives.size)
    kept = np.random.default_rng(seed).choice(positives, count, replace=False)
    rows = np.sort(np.concatenate([kept, negatives]))
    return X[rows], y[rows]


def read_libsvm(path: Path, features: int | None = None) -> tuple[Any, Floats]:
    """Read a LIBSVM file, also .gz, .bz2 or .xz, as a CSR matrix and its labels."""
    if path.suffix == ".xz":
        with lzma.open(path) as file:
            return load_svmlight_file(file, n_features=features)  # type: ignore[no-any-return]
    return load_svmlight_file(str(path), n_features=features)  # type: ignore[no-any-return]


def local_files(name: str) -> list[Path]:
    """Raw files of a data set that are on this machine."""
    found = map(_find, SETS.choose(name).files)
    return [path for path in found if path is not None]


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
    """Download a file to the cache, unless it is there.

    Parameters
    ----------
    url : str
        Address of the file.
    subfolder : {"libsvm", "images"}
        Where `$APMAX_DATA` would hold the file, for the error message.
    known_hash : str or None
        Hash to verify, as "md5:…".
    """
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
        X, labels = read_libsvm(path, features)
        reason = "its values differ" if array_digest(X, labels) != digest else None
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        reason = " ".join(str(error).split())
    if reason is not None:
        if path.parent == cache_folder():
            path.unlink()  # download it again next time
        raise FileFormatError(
            f"{path} is damaged or is not {page_name} of the LIBSVM page ({reason}): delete it and "
            "run the command again"
        )
    return X, labels == 1
