"""CIFAR-10 and CIFAR-100 from the publisher's binary archives, made imbalanced as in the paper."""

import lzma
import tarfile
import tomllib
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import pooch
from numpy.typing import NDArray

from apmax.registry import Registry
from apmax.validation import Mask
from experiments.datasets import data_folder, download, keep_positives, named_errors

PAGE = "https://www.cs.toronto.edu/~kriz/"
KEPT = 0.02
"""Share of the training positives that is kept."""
Bytes = NDArray[np.uint8]


class ImageSet(NamedTuple):
    """Images of shape (n, 3, 32, 32) and masks of the positives."""

    x: Bytes
    y: Mask
    x_test: Bytes
    y_test: Mask


class CifarArchive(NamedTuple):
    """An archive of the binary version: each record is its labels, then its pixels."""

    file: str
    md5: str
    classes: int
    label_bytes: int
    """The class is the last of these bytes; CIFAR-100 has the coarse class first."""


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
ARCHIVES = Registry("data", {name: CifarArchive(**fields) for name, fields in _TABLES.items()})


def load_imbalanced_cifar(name: str = "cifar10", seed: int = 0) -> ImageSet:
    """Load the imbalanced set: half of the classes positive, 98 % of the positives removed.

    The upper half of the class numbers is positive; the test set is complete. Images come from
    ``$APMAX_DATA/images`` (the archive, or ready-made ``cifar10_imbalanced_*.npy.xz``) or are
    downloaded once. `seed` chooses the positives that stay; ready-made files ignore it.
    """
    archive = ARCHIVES.choose(name)
    ready = _read_ready_made(name)
    x, classes, x_test, test_classes = ready or read_archive(_find(archive), archive)
    y, y_test = classes >= archive.classes // 2, test_classes >= archive.classes // 2
    if ready is None:
        kept = keep_positives(y, max(1, round(KEPT * y.sum())), seed)
        x, y = x[kept], y[kept]
    return ImageSet(x, y, x_test, y_test)


def split_off_validation(y: Mask, seed: int, share: float = 0.2) -> tuple[Mask, Mask]:
    """Masks of a training and a validation part, stratified by class."""
    rng = np.random.default_rng([seed, 41])
    held = np.zeros(y.size, dtype=bool)
    for which in (y, ~y):
        places = np.flatnonzero(which)
        held[rng.choice(places, round(share * places.size), replace=False)] = True
    return ~held, held


def read_archive(path: Path, archive: CifarArchive) -> tuple[Bytes, Bytes, Bytes, Bytes]:
    """Images and classes of the training and the test part; nothing is unpacked to disk."""
    parts: dict[bool, list[Bytes]] = {False: [], True: []}
    with named_errors(path), tarfile.open(path, "r:gz") as tar:
        for name in sorted(name for name in tar.getnames() if name.endswith(".bin")):
            raw = np.frombuffer(cast(IO[bytes], tar.extractfile(name)).read(), np.uint8)
            parts["test" in name].append(raw.reshape(-1, archive.label_bytes + 3 * 32 * 32))
        train, test = (np.concatenate(parts[which]) for which in (False, True))

    def images(records: Bytes) -> Bytes:
        return records[:, archive.label_bytes :].reshape(-1, 3, 32, 32)

    label = archive.label_bytes - 1
    return images(train), train[:, label], images(test), test[:, label]


def _find(archive: CifarArchive) -> Path:
    folder = data_folder()
    path = None if folder is None else folder / "images" / archive.file
    if path is None or not path.is_file():
        return download(PAGE + archive.file, "images", f"md5:{archive.md5}")
    with named_errors(path):
        if pooch.file_hash(str(path), alg="md5") != archive.md5:
            raise ValueError(f"its MD5 is not {archive.md5}")
    return path


def _read_ready_made(name: str) -> Any:
    """Arrays of an imbalanced set that was prepared before, or None."""
    folder = data_folder()
    parts = ("x_train", "class_train", "x_test", "class_test")
    paths = [Path(str(folder), "images", f"{name}_imbalanced_{part}.npy.xz") for part in parts]
    if folder is None or not all(path.is_file() for path in paths):
        return None
    arrays = []
    for path in paths:
        with named_errors(path), lzma.open(path) as file:
            array = np.load(file, allow_pickle=False)
        # The files have the channels last.
        arrays.append(np.ascontiguousarray(np.moveaxis(array, -1, 1)) if array.ndim > 1 else array)
    return arrays
