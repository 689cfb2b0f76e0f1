"""CIFAR's binary archives and the imbalanced sets of the paper."""

import io
import lzma
import tarfile

import numpy as np
import pytest

from apmax.app.data import cifar
from apmax.app.data.cifar import (
    keep_few_positives,
    load_imbalanced_cifar,
    read_cifar,
    split_off_validation,
)
from apmax.errors import FileFormatError, ParameterError


def write_archive(path, parts, label_bytes=1):
    """An archive as the publisher's: {member: (classes, images)}."""
    with tarfile.open(path, "w:gz") as tar:
        for member, (classes, images) in parts.items():
            coarse = np.zeros((classes.size, label_bytes - 1), np.uint8)
            records = np.hstack([coarse, classes[:, None], images.reshape(classes.size, -1)])
            content = records.astype(np.uint8).tobytes()
            info = tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def images_of(classes, rng):
    return rng.integers(0, 256, (classes.size, 3, 32, 32), dtype=np.uint8)


@pytest.fixture
def cifar10(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    parts = {}
    for k in range(1, 6):
        classes = np.tile(np.arange(10, dtype=np.uint8), 20)
        parts[f"cifar-10-batches-bin/data_batch_{k}.bin"] = (classes, images_of(classes, rng))
    classes = np.arange(10, dtype=np.uint8)
    parts["cifar-10-batches-bin/test_batch.bin"] = (classes, images_of(classes, rng))
    (tmp_path / "images").mkdir()
    write_archive(tmp_path / "images" / "cifar-10-binary.tar.gz", parts)
    monkeypatch.setenv("APMAX_DATA", str(tmp_path))
    monkeypatch.setattr(cifar, "_checked", lambda path, archive: path)  # not the publisher's
    return parts


def test_an_archive_that_is_not_the_publishers_is_refused(tmp_path, monkeypatch):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "cifar-10-binary.tar.gz").write_bytes(b"another")
    monkeypatch.setenv("APMAX_DATA", str(tmp_path))
    with pytest.raises(FileFormatError, match="not the publisher's"):
        load_imbalanced_cifar("cifar10")


def test_half_of_the_classes_is_positive_and_two_percent_of_them_stay(cifar10):
    data = load_imbalanced_cifar("cifar10", seed=3)
    assert data.y.size == 500 + 10  # of 500 and 500
    assert data.y.sum() == 10
    assert data.x.shape == (510, 3, 32, 32)
    assert data.y_test.tolist() == [False] * 5 + [True] * 5
    _, test_images = cifar10["cifar-10-batches-bin/test_batch.bin"]
    np.testing.assert_array_equal(data.x_test, test_images)


def test_the_positives_that_stay_are_chosen_by_the_seed(cifar10):
    first, again, other = (load_imbalanced_cifar("cifar10", seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.x[first.y], other.x[other.y])


def test_cifar100_counts_by_its_fine_classes(tmp_path):
    rng = np.random.default_rng(1)
    train, test = np.arange(100, dtype=np.uint8), np.arange(50, 60, dtype=np.uint8)
    members = {
        "cifar-100-binary/train.bin": (train, images_of(train, rng)),
        "cifar-100-binary/test.bin": (test, images_of(test, rng)),
    }
    write_archive(tmp_path / "c.tar.gz", members, label_bytes=2)
    (x, classes), (_, test_classes) = read_cifar(tmp_path / "c.tar.gz", "cifar100")
    np.testing.assert_array_equal(classes, train)
    np.testing.assert_array_equal(test_classes, test)
    np.testing.assert_array_equal(x, members["cifar-100-binary/train.bin"][1])


def test_a_ready_made_set_is_taken_as_it_is(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    classes = np.array([0, 4, 5, 9], np.uint8)
    x = rng.integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    (tmp_path / "images").mkdir()
    for part, array in {
        "x_train": x, "class_train": classes, "x_test": x[:2], "class_test": classes[:2],
    }.items():  # fmt: skip
        with lzma.open(tmp_path / "images" / f"cifar10_imbalanced_{part}.npy.xz", "wb") as file:
            np.save(file, array)
    monkeypatch.setenv("APMAX_DATA", str(tmp_path))
    data = load_imbalanced_cifar("cifar10")
    assert data.y.tolist() == [False, False, True, True]
    np.testing.assert_array_equal(data.x[1], x[1].transpose(2, 0, 1))


def test_the_split_is_four_to_one_in_each_class_and_by_the_seed():
    y = np.arange(1000) < 50
    train, validation = split_off_validation(y, seed=0)
    assert not (train & validation).any()
    assert (train | validation).all()
    assert (y & validation).sum() == 10
    assert validation.sum() == 200
    assert not np.array_equal(validation, split_off_validation(y, seed=1)[1])


def test_all_negatives_stay():
    y = np.arange(1000) % 2 == 0
    kept = keep_few_positives(y, seed=0)
    assert set(np.flatnonzero(~y)) <= set(kept)
    assert y[kept].sum() == 10


def bad_class(path):
    classes = np.array([11], np.uint8)
    images = np.zeros((1, 3, 32, 32), np.uint8)
    names = [f"cifar-10-batches-bin/data_batch_{k}.bin" for k in range(1, 6)]
    parts = dict.fromkeys([*names, "cifar-10-batches-bin/test_batch.bin"], (classes, images))
    write_archive(path, parts)


def flipped_bytes(path):
    names = [f"cifar-10-batches-bin/data_batch_{k}.bin" for k in range(1, 6)]
    rng = np.random.default_rng(3)
    classes = np.zeros(20, np.uint8)
    names.append("cifar-10-batches-bin/test_batch.bin")
    write_archive(path, {name: (classes, images_of(classes, rng)) for name in names})
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 400] = b"\xff" * 400
    path.write_bytes(content)


def cut_short(path):
    write_archive(path, {"cifar-10-batches-bin/data_batch_1.bin": (np.zeros(1), np.zeros((1, 9)))})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b"no archive"), "cannot be read as cifar-10"),
        (lambda path: write_archive(path, {}), "cannot be read as cifar-10"),
        (flipped_bytes, "cannot be read as cifar-10|class|records"),
        (cut_short, "records of 3073"),
        (bad_class, "class 11"),
    ],
    ids=["no archive", "empty", "flipped bytes", "cut short", "unknown class"],
)
def test_a_bad_archive_is_named(tmp_path, make, says):
    path = tmp_path / "cifar.tar.gz"
    make(path)
    with pytest.raises(FileFormatError, match=says):
        read_cifar(path)


def test_an_unknown_set_is_refused():
    with pytest.raises(ParameterError, match="cifar10"):
        load_imbalanced_cifar("cifar11")
