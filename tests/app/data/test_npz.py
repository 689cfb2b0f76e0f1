"""NumPy archives: dense and sparse ones, and those that lie about what they hold."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from apmax.app.data import load
from apmax.errors import FileFormatError, LabelError

Write = Callable[[str, str | bytes], Path]
X = np.array([[0.0, 1.5], [2.0, 0.0], [0.0, 0.0]])
Y = np.array([0, 1, 0])
PARTS: dict[str, Any] = {
    "data": np.array([1.5, 2.0]), "indices": np.array([1, 0]), "indptr": np.array([0, 1, 2, 2]),
    "shape": np.array([3, 2]), "y": Y,
}  # fmt: skip


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_dense(save: Callable[..., None], tmp_path: Path) -> None:
    save(tmp_path / "d.npz", X=X, y=Y)
    data = load(tmp_path / "d.npz")
    np.testing.assert_array_equal(data.X, X)
    assert data.y is not None
    assert data.y.tolist() == [False, True, False]
    assert (data.positive_label, data.negative_label) == (1, 0)


@pytest.mark.parametrize("without_data", [False, True])
def test_sparse(without_data: bool, tmp_path: Path) -> None:
    parts = {key: value for key, value in PARTS.items() if key != "data" or not without_data}
    np.savez(tmp_path / "s.npz", **parts)
    data = load(tmp_path / "s.npz")
    assert data.X.format == "csr"
    np.testing.assert_array_equal(data.X.toarray(), X > 0 if without_data else X)


def test_what_scipy_saves_has_no_labels(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "s.npz", sp.csr_matrix(X))
    data = load(tmp_path / "s.npz")
    np.testing.assert_array_equal(data.X.toarray(), X)
    assert data.y is None
    sp.save_npz(tmp_path / "c.npz", sp.csc_matrix(X))
    with pytest.raises(FileFormatError, match=r"save matrix.tocsr\(\)"):
        load(tmp_path / "c.npz")


def test_labels_may_be_words_or_a_column(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", X=X, y=np.array(["ok", "bad", "ok"]))
    assert load(tmp_path / "w.npz").positive_label == "bad"
    np.savez(tmp_path / "c.npz", X=X, y=Y[:, None])
    assert load(tmp_path / "c.npz").positive_label == 1
    np.savez(tmp_path / "n.npz", X=X, y=np.array([0, 1, np.nan]))
    with pytest.raises(LabelError, match="missing in 1 of 3 rows"):
        load(tmp_path / "n.npz")


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("no X", {"y": Y}, r"'X' is missing; expected X and y.*found 'y'"),
    ("nothing", {}, r"found nothing"),
    ("X of words", {"X": np.array([["a"]]), "y": Y}, r"'X' holds <U1: save it as numbers"),
    ("X of objects", {"X": np.array([[None]], object)}, r"'X' holds object"),
    ("X of one dimension", {"X": Y}, r"'X' must have 2 dimension"),
    ("X of no rows", {"X": np.empty((0, 3))}, r"'X' is empty"),
    ("y too short", {"X": X, "y": Y[:2]}, r"'y' has shape \(2,\), but X has 3 rows"),
    ("y of two columns", {"X": X, "y": np.ones((3, 2))}, r"'y' has shape \(3, 2\)"),
    ("an index too large", PARTS | {"indices": np.array([1, 2])}, r"'indices' must be from 0 to 1"),
    ("a negative index", PARTS | {"indices": np.array([-1, 0])}, r"'indices' must be from 0"),
    ("falling indptr", PARTS | {"indptr": np.array([0, 2, 1, 2])}, r"'indptr' must rise"),
    ("indptr past the end", PARTS | {"indptr": np.array([0, 1, 2, 3])}, r"'indptr' must rise"),
    ("another shape", PARTS | {"shape": np.array([5, 2])}, r"'shape' is \(5, 2\)"),
    ("a short data", PARTS | {"data": np.array([1.0])}, r"'data' has 1 elements and 'indices' 2"),
    ("no indices", {k: v for k, v in PARTS.items() if k != "indices"}, r"'indices' is missing"),
]


@pytest.mark.parametrize(
    ("parts", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_wrong_archives(parts: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "wrong.npz", **parts)
    with pytest.raises(FileFormatError, match=message):
        load(tmp_path / "wrong.npz")


def npy_claiming(shape: tuple[int, ...], content: bytes) -> bytes:
    stream = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + content


@pytest.mark.parametrize("shape", [(10**12, 10), (10**30, 2), (3, 1), (0, 7)])
def test_a_shape_is_believed_only_if_the_content_is_there(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
        archive.writestr("X.npy", npy_claiming(shape, b"\0" * 48))
    with pytest.raises(FileFormatError, match=r"'X' claims the shape .* but holds 48 bytes"):
        load(tmp_path / "lie.npz")


def test_a_size_in_the_directory_is_believed_only_if_it_can_be(tmp_path: Path) -> None:
    content = npy_claiming((10**9, 1), b"\0" * 48)
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", content)
    size, forged = len(content).to_bytes(4, "little"), (8 * 10**8 + 128).to_bytes(4, "little")
    raw = path.read_bytes()
    at = raw.index(b"PK\1\2") + 24
    assert raw[at : at + 4] == size
    path.write_bytes(raw[:at] + forged + raw[at + 4 :])
    with pytest.raises(FileFormatError, match="claims"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"no archive", b"\x93NUMPY\1\0"])
def test_files_that_are_no_archives(content: bytes, write: Write) -> None:
    with pytest.raises(FileFormatError, match=r"is no \.npz archive"):
        load(write("x.npz", content))


@pytest.mark.parametrize(
    "content",
    [b"", b"\x93NUMPY", b"\x93NUMPY\1\0\xff\xff{", b"\x93NUMPY\1\0\2\0[]", b"garbage!" * 9],
)
def test_members_that_are_no_arrays(content: bytes, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("X.npy", content)
    with pytest.raises(FileFormatError, match="'X' is no array"):
        load(tmp_path / "x.npz")


def test_real_archives(real_data: Path) -> None:
    cover = load(real_data / "tabular" / "cover.npz")
    assert cover.X.shape == (286048, 10)
    assert cover.y is not None
    assert cover.y.sum() == 2747
    hiv = load(real_data / "molecules" / "hiv_ecfp4_1024.npz")
    assert hiv.X.shape == (41127, 1024)
    assert hiv.y is not None
    assert hiv.y.sum() == 1443


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_an_archive_within_a_compressed_file_is_refused_before_it_is_read(suffix, tmp_path):
    path = tmp_path / f"data.npz{suffix}"
    path.write_bytes(b"whatever it holds")
    with pytest.raises(FileFormatError, match=r"decompress it to data\.npz"):
        load(path)
