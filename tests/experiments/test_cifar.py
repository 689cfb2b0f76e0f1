"""CIFAR's binary archives and the imbalanced sets of the paper."""

import io
import lzma
import tarfile

import numpy as np
import pooch
import pytest

from apmax.errors import FileFormatError
from experiments.cifar import (
    ARCHIVES,
    load_imbalanced_cifar,
    read_archive,
    split_off_validation,
)

CIFAR10 = [f"cifar-10-batches-bin/data_batch_{k}.bin" for k in range(1, 6)]
TEST10 = "cifar-10-batches-bin/test_batch.bin"


def write_archive(path, parts, label_bytes=1):
    """Write an archive like the publisher's from {member: (classes, images)}."""
    with tarfile.open(path, "w:gz") as tar:
        for member, (classes, images) in parts.items():
            coarse = np.zeros((classes.size, label_bytes - 1), np.uint8)
            records = np.hstack([coarse, classes[:, None], images.reshape(classes.size, -1)])
            content = records.astype(np.uint8).tobytes()
            info = tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def images_of(classes, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (classes.size, 3, 32, 32), dtype=np.uint8)


@pytest.fixture
def cifar10(tmp_path, monkeypatch):
    """A small archive in the data folder, with the MD5 that is expected."""
    classes = np.tile(np.arange(10, dtype=np.uint8), 20)
    parts = {name: (classes, images_of(classes, k)) for k, name in enumerate(CIFAR10)}
    parts[TEST10] = (classes[:10], images_of(classes[:10], 9))
    (tmp_path / "images").mkdir()
    path = tmp_path / "images" / "cifar-10-binary.tar.gz"
    write_archive(path, parts)
    md5 = pooch.file_hash(str(path), alg="md5")
    monkeypatch.setenv("APMAX_DATA", str(tmp_path))
    monkeypatch.setitem(ARCHIVES, "cifar10", ARCHIVES["cifar10"]._replace(md5=md5))
    return parts


def test_half_of_the_classes_is_positive_and_two_percent_of_them_stay(cifar10):
    data = load_imbalanced_cifar("cifar10", seed=3)
    assert data.y.size == 500 + 10  # of 500 and 500
    assert data.y.sum() == 10
    assert data.y_test.tolist() == [False] * 5 + [True] * 5
    np.testing.assert_array_equal(data.x_test, cifar10[TEST10][1])
    first = cifar10[CIFAR10[0]][1][:5]  # the first five images are negative, so they stay
    np.testing.assert_array_equal(data.x[:5], first)


def test_cifar100_has_its_fine_class_second(tmp_path):
    classes = np.arange(100, dtype=np.uint8)
    members = {
        f"cifar-100-binary/{part}.bin": (classes, images_of(classes)) for part in ("train", "test")
    }
    write_archive(tmp_path / "c.tar.gz", members, label_bytes=2)
    x, found, _, _ = read_archive(tmp_path / "c.tar.gz", ARCHIVES["cifar100"])
    np.testing.assert_array_equal(found, classes)
    np.testing.assert_array_equal(x, images_of(classes))


@pytest.mark.parametrize(("name", "classes"), [("cifar10", 10), ("cifar100", 100)])
def test_ready_made_files_have_their_channels_last(name, classes, tmp_path, monkeypatch):
    (tmp_path / "images").mkdir()
    found = {part: np.arange(classes, dtype=np.uint8) for part in ("train", "test")}
    images = {part: images_of(found[part], k) for k, part in enumerate(found)}
    for part, labels in found.items():
        arrays = {"x": np.moveaxis(images[part], 1, -1), "class": labels}
        for kind, array in arrays.items():
            path = tmp_path / "images" / f"{name}_imbalanced_{kind}_{part}.npy.xz"
            with lzma.open(path, "wb", preset=0) as file:
                np.save(file, array)
    monkeypatch.setenv("APMAX_DATA", str(tmp_path))
    data = load_imbalanced_cifar(name)
    np.testing.assert_array_equal(data.x, images["train"])
    np.testing.assert_array_equal(data.x_test, images["test"])
    for y in (data.y, data.y_test):
        assert y.tolist() == [False] * (classes // 2) + [True] * (classes // 2)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_the_imbalanced_sets_have_the_papers_sizes(name, real_data):
    if not list((real_data / "images").glob(f"{name}_imbalanced_*")):
        pytest.skip(f"needs the images of {name} in $APMAX_DATA/images")
    data = load_imbalanced_cifar(name)
    assert (data.y.size, data.y.sum()) == (25_500, 500)
    assert (data.y_test.size, data.y_test.sum()) == (10_000, 5_000)
    assert data.x.shape == (25_500, 3, 32, 32)
    train, validation = split_off_validation(data.y, seed=0)
    assert (data.y[train].sum(), data.y[validation].sum()) == (400, 100)
    assert (train ^ validation).all()


@pytest.mark.parametrize("kept", [0, 2000], ids=["empty", "cut short"])
def test_a_damaged_archive_is_named(kept, cifar10, tmp_path):
    path = tmp_path / "images" / "cifar-10-binary.tar.gz"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(FileFormatError, match=r"cifar-10-binary.tar.gz is damaged .*delete it"):
        read_archive(path, ARCHIVES["cifar10"])
    with pytest.raises(FileFormatError, match="its MD5 is not"):
        load_imbalanced_cifar("cifar10")
