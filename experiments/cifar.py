"""CIFAR-10 and CIFAR-100 from the publisher's binary archives, made imbalanced as in the paper."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pooch
from numpy.typing import NDArray

from apmax.errors import FileFormatError
from apmax.registry import Registry
from apmax.validation import Mask
from experiments.datasets import data_folder, download

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
    train: tuple[str, ...]
    test: str
    label_bytes: int
    classes: int


ARCHIVES = Registry(
    "data",
    {
        "cifar10": CifarArchive(
            "cifar-10-binary.tar.gz",
            "c32a1d4ab5d03f1284b67883e8d87530",
            tuple(f"cifar-10-batches-bin/data_batch_{k}.bin" for k in range(1, 6)),
            "cifar-10-batches-bin/test_batch.bin",
            label_bytes=1,
            classes=10,
        ),
        "cifar100": CifarArchive(
            "cifar-100-binary.tar.gz",
            "03b5dce01913d631647c71ecec9e9cb8",
            ("cifar-100-binary/train.bin",),
            "cifar-100-binary/test.bin",
            label_bytes=2,  # the coarse class comes first
            classes=100,
        ),
    },
)


def load_imbalanced_cifar(name: str = "cifar10", seed: int = 0) -> ImageSet:
    """Load the imbalanced set: half of the classes positive, 98 % of the positives removed.

    The upper half of the class numbers is positive; the test set is complete. Images come from
    ``$APMAX_DATA/images`` (the archive, or ready-made ``cifar10_imbalanced_*.npy.xz``) or are
    downloaded once.

    Parameters
    ----------
    name : {"cifar10", "cifar100"}
        The data set.
    seed : int
        Seed of the choice of positives; without effect on ready-made files.
    """
    archive = ARCHIVES.choose(name)
    ready = _read_ready_made(name)
    x, classes, x_test, test_classes = ready or read_archive(_find_archive(archive), archive)
    y, y_test = classes >= archive.classes // 2, test_classes >= archive.classes // 2
    if ready is None:
        kept = keep_few_positives(y, seed)
        x, y = x[kept], y[kept]
    return ImageSet(x, y, x_test, y_test)


def keep_few_positives(y: Mask, seed: int) -> NDArray[np.intp]:
    """Indices of all negatives and of 2 % of the positives, in their order."""
    positives = np.flatnonzero(y)
    count = max(1, round(KEPT * positives.size))
    chosen = np.random.default_rng(seed).choice(positives, count, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(~y), chosen]))


def split_off_validation(y: Mask, seed: int, share: float = 0.2) -> tuple[Mask, Mask]:
    """Masks of a training and a validation part, stratified by class."""
    rng = np.random.default_rng([seed, 41])
    held = np.zeros(y.size, dtype=bool)
    for which in (y, ~y):
        places = np.flatnonzero(which)
        held[rng.choice(places, round(share * places.size), replace=False)] = True
    return ~held, held


def read_archive(path: Path, archive: CifarArchive) -> tuple[Bytes, Bytes, Bytes, Bytes]:
    """Images and (fine) classes of the training and the test part; nothing is unpacked to disk."""

    def records(file: IO[bytes] | None) -> tuple[Bytes, Bytes]:
        raw = np.frombuffer(b"" if file is None else file.read(), np.uint8)
        table = raw.reshape(-1, archive.label_bytes + 3 * 32 * 32)
        images = table[:, archive.label_bytes :].reshape(-1, 3, 32, 32)
        return images.copy(), table[:, archive.label_bytes - 1].copy()

    try:
        with tarfile.open(path, "r:gz") as tar:
            parts = [records(tar.extractfile(name)) for name in (*archive.train, archive.test)]
    except (tarfile.TarError, EOFError, OSError, KeyError, ValueError, zlib.error) as error:
        raise FileFormatError(
            f"{path} cannot be read as {archive.file} ({error}): delete it and run again"
        ) from error
    images, classes = (np.concatenate(both) for both in zip(*parts[:-1], strict=True))
    return images, classes, *parts[-1]


def _find_archive(archive: CifarArchive) -> Path:
    folder = data_folder()
    path = None if folder is None else folder / "images" / archive.file
    if path is None or not path.is_file():
        return download(PAGE + archive.file, "images", f"md5:{archive.md5}")
    if pooch.file_hash(str(path), alg="md5") != archive.md5:
        raise FileFormatError(
            f"{path} is not the publisher's {archive.file} (its MD5 is not {archive.md5}): delete "
            "it and run again"
        )
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
        try:
            with lzma.open(path) as file:
                array = np.load(file, allow_pickle=False)
        except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
            raise FileFormatError(f"{path} is not a NumPy array in .xz ({error})") from error
        # The files have the channels last.
        arrays.append(np.ascontiguousarray(np.moveaxis(array, -1, 1)) if array.ndim > 1 else array)
    return arrays
