"""CIFAR-10 and CIFAR-100 from their binary files, and the imbalanced sets of the paper."""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.app.data.fetching import VARIABLE, cache_folder, data_folder, download
from apmax.app.data.streams import open_bytes
from apmax.errors import FileFormatError
from apmax.registry import Registry
from apmax.validation import Mask, check_count

PAGE = "https://www.cs.toronto.edu/~kriz/"
PIXELS = 3 * 32 * 32
KEPT = 0.02
"""Of the positives of the training set."""
Bytes = NDArray[np.uint8]


class ImageSet(NamedTuple):
    """Images of shape (n, 3, 32, 32) and masks of positives."""

    x: Bytes
    y: Mask
    x_test: Bytes
    y_test: Mask


class _Archive(NamedTuple):
    """The publisher's archive of the binary version; a record is labels, then pixels."""

    file: str
    md5: str
    train: tuple[str, ...]
    test: str
    label_bytes: int
    classes: int


_ARCHIVES = Registry(
    "name",
    {
        "cifar10": _Archive(
            "cifar-10-binary.tar.gz",
            "c32a1d4ab5d03f1284b67883e8d87530",
            tuple(f"cifar-10-batches-bin/data_batch_{k}.bin" for k in range(1, 6)),
            "cifar-10-batches-bin/test_batch.bin",
            label_bytes=1,
            classes=10,
        ),
        "cifar100": _Archive(
            "cifar-100-binary.tar.gz",
            "03b5dce01913d631647c71ecec9e9cb8",
            ("cifar-100-binary/train.bin",),
            "cifar-100-binary/test.bin",
            label_bytes=2,  # the coarse one first
            classes=100,
        ),
    },
)


def load_imbalanced_cifar(name: str = "cifar10", seed: int = 0) -> ImageSet:
    """The paper's imbalanced set: half of the classes positive, 98 % of the positives removed.

    The upper half of the class numbers is positive; the positives that stay are drawn by
    `seed`, the test set keeps all. Taken from ``$APMAX_DATA/images`` if it is there, ready made
    (``cifar10_imbalanced_*.npy.xz``, whatever the seed) or as the publisher's archive, else
    downloaded once and checked by the publisher's digest.

    Parameters
    ----------
    name : "cifar10" or "cifar100".
    seed : of the positives that stay.
    """
    archive = _ARCHIVES.choose(name)
    seed = check_count(seed, "seed", at_least=0, why="it chooses the positives that stay")
    half = archive.classes // 2
    ready = _ready_made(name)
    if ready is not None:
        x, classes, x_test, test_classes = ready
        return ImageSet(x, classes >= half, x_test, test_classes >= half)
    path = _find_archive(archive)
    (x, classes), (x_test, test_classes) = read_cifar(path, name)
    kept = keep_few_positives(classes >= half, seed)
    return ImageSet(x[kept], classes[kept] >= half, x_test, test_classes >= half)


def keep_few_positives(y: Mask, seed: int) -> NDArray[np.intp]:
    """Places of all negatives and of 2 % of the positives, in their old order."""
    positives = np.flatnonzero(y)
    count = max(1, round(KEPT * positives.size))
    chosen = np.random.default_rng(seed).choice(positives, count, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(~y), chosen]))


def split_off_validation(y: Mask, seed: int, share: float = 0.2) -> tuple[Mask, Mask]:
    """Masks of the training and validation part, 4 : 1 within each class."""
    rng = np.random.default_rng([seed, 41])
    held = np.zeros(y.size, dtype=bool)
    for which in (y, ~y):
        places = np.flatnonzero(which)
        held[rng.choice(places, round(share * places.size), replace=False)] = True
    return ~held, held


def read_cifar(
    path: Path, name: str = "cifar10"
) -> tuple[tuple[Bytes, Bytes], tuple[Bytes, Bytes]]:
    """Images and (fine) class numbers of both parts of the publisher's archive.

    The binary version: reading it executes nothing, and nothing is unpacked to disk.
    """
    archive = _ARCHIVES.choose(name)
    try:
        with tarfile.open(path, "r:gz") as tar:
            parts = [_records(tar, file, archive, path) for file in (*archive.train, archive.test)]
    except (tarfile.TarError, EOFError, OSError, KeyError, zlib.error) as error:
        raise FileFormatError(
            f"{path} cannot be read as {archive.file} ({error}): remove it and load again"
        ) from error
    images = np.concatenate([part[0] for part in parts[:-1]])
    classes = np.concatenate([part[1] for part in parts[:-1]])
    return (images, classes), parts[-1]


def _records(
    tar: tarfile.TarFile, member: str, archive: _Archive, path: Path
) -> tuple[Bytes, Bytes]:
    length = archive.label_bytes + PIXELS
    largest = 50_000 * length
    file = tar.extractfile(member)
    raw = b"" if file is None else file.read(largest + 1)
    if not raw or len(raw) % length or len(raw) > largest:
        raise FileFormatError(
            f"{path}: {member} holds {len(raw)} bytes, not records of {length} of at most 50,000 "
            "images: it is another file or cut short; remove it and load again"
        )
    records = np.frombuffer(raw, np.uint8).reshape(-1, length)
    classes = records[:, archive.label_bytes - 1].copy()
    if classes.max() >= archive.classes:
        raise FileFormatError(
            f"{path}: {member} holds class {classes.max()}, of {archive.classes}: it is another "
            "file; remove it and load again"
        )
    return records[:, archive.label_bytes :].reshape(-1, 3, 32, 32).copy(), classes


def _find_archive(archive: _Archive) -> Path:
    folder = data_folder()
    places = [] if folder is None else [folder / "images" / archive.file]
    for path in (*places, cache_folder() / archive.file):
        if path.is_file():
            return _checked(path, archive)
    return download(
        archive.file,
        page=PAGE,
        known_hash=f"md5:{archive.md5}",
        remedy=f"into a folder FOLDER/images/ and set {VARIABLE}=FOLDER",
    )


def _checked(path: Path, archive: _Archive) -> Path:
    """The path, if the file is the publisher's."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "md5").hexdigest()
    if digest != archive.md5:
        raise FileFormatError(
            f"{path} is not the publisher's {archive.file} (MD5 {digest}, not {archive.md5}): it "
            "is damaged or another file; remove it and load again"
        )
    return path


def _ready_made(name: str) -> tuple[Bytes, Bytes, Bytes, Bytes] | None:
    """The imbalanced set as arrays, channels last, if the data folder has it."""
    folder = data_folder()
    if folder is None:
        return None
    paths = [
        folder / "images" / f"{name}_imbalanced_{part}.npy.xz"
        for part in ("x_train", "class_train", "x_test", "class_test")
    ]
    if not all(path.is_file() for path in paths):
        return None
    x, classes, x_test, test_classes = map(_read_array, paths)
    for images, labels in ((x, classes), (x_test, test_classes)):
        if images.shape != (labels.size, 32, 32, 3):
            raise FileFormatError(
                f"{paths[0].parent} holds {images.shape} images and {labels.size} classes, not as "
                "many of 32 × 32 × 3: the files do not belong together"
            )
    return _channels_first(x), classes, _channels_first(x_test), test_classes


def _read_array(path: Path) -> Bytes:
    try:
        with open_bytes(path) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, MemoryError) as error:
        raise FileFormatError(f"{path} is no array of NumPy's in .xz ({error})") from error
    if array.dtype != np.uint8:
        raise FileFormatError(f"{path} holds {array.dtype} numbers: expected bytes (uint8)")
    return np.asarray(array)


def _channels_first(images: Bytes) -> Bytes:
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
