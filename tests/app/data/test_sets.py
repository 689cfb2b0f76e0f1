"""The paper's data sets: where they come from, what they hold, how they are prepared."""

from __future__ import annotations

import bz2
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks import datasets

from apmax.app.data import fetching, list_paper_sets, load_paper_set, sets
from apmax.app.data.preparation import scale_to_unit
from apmax.errors import (
    DownloadError,
    FileError,
    FileFormatError,
    MissingExtraError,
    ParameterError,
    UnknownNameError,
)

pooch = pytest.importorskip("pooch")
Write = Callable[[str, str | bytes], Path]
NAMES = ["mushrooms", "phishing", "w6a", "a9a", "w8a", "ijcnn1"]


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder and an empty cache; downloads fail."""

    def refuse(*_: Any, **__: Any) -> str:
        raise OSError("no network")

    folder, cache = tmp_path / "data", tmp_path / "cache"
    (folder / "libsvm").mkdir(parents=True)
    cache.mkdir()
    monkeypatch.setenv("APMAX_DATA", str(folder))
    monkeypatch.setattr(pooch, "os_cache", lambda _: cache)
    monkeypatch.setattr(pooch, "retrieve", refuse)
    return folder


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [0, 2])
def test_rows_and_labels_are_those_of_the_benchmarks(name: str, seed: int, real_data: Path) -> None:
    expected = list(datasets.splits(name, seeds=3))[seed if name in NAMES[:2] else 0]
    data = load_paper_set(name, seed=seed)
    np.testing.assert_array_equal(data.y, expected.y)
    np.testing.assert_array_equal(data.y_test, expected.y_test)
    low, high = expected.X.min(axis=0).toarray(), expected.X.max(axis=0).toarray()
    varies = (high > low).ravel()
    for X, raw in ((data.X, expected.X), (data.X_test, expected.X_test)):
        dense = X.toarray() if sp.issparse(X) else X
        scaled = (raw.toarray() - low)[:, varies] / (high - low)[:, varies]
        np.testing.assert_allclose(dense[:, varies], scaled, rtol=0, atol=1e-15)
    assert sp.issparse(data.X) == (name != "ijcnn1")
    assert data.X.min() == 0
    assert data.X.max() == 1


def test_the_list_tells_what_is_loaded(real_data: Path) -> None:
    known = list_paper_sets()
    assert [one.name for one in known] == NAMES
    assert all(one.available for one in known)
    for one in known:
        data = load_paper_set(one.name)
        assert data.X.shape == (one.rows, one.features)
        assert data.X_test.shape == (one.test_rows, one.features)
        assert data.y.mean() == pytest.approx(one.positive_share, abs=1e-3)


def test_shares_of_positives_are_the_papers() -> None:
    shares = {one.name: one.positive_share for one in list_paper_sets()}
    assert shares["mushrooms"] == pytest.approx(0.0527, abs=1e-4)
    assert shares["phishing"] == pytest.approx(0.3565, abs=1e-4)


def test_seeds_choose_the_rows(real_data: Path) -> None:
    first, again, other = (load_paper_set("mushrooms", seed=seed) for seed in (0, 0, 1))
    assert (first.X != again.X).nnz == 0
    assert (first.X != other.X).nnz > 0


def test_scaling_keeps_sparse_what_begins_at_zero() -> None:
    X = sp.csr_matrix([[0.0, 4.0, 3.0], [2.0, 0.0, 3.0]])
    X_test = sp.csr_matrix([[4.0, 0.0, 0.0]])
    scaled, scaled_test = scale_to_unit(X, X_test)
    assert sp.issparse(scaled)
    np.testing.assert_array_equal(scaled.toarray(), [[0, 1, 1], [1, 0, 1]])
    np.testing.assert_array_equal(scaled_test.toarray(), [[2, 0, 0]])
    np.testing.assert_array_equal(X.toarray()[0], [0, 4, 3])


def test_scaling_shifts_what_does_not_begin_at_zero() -> None:
    X = sp.csr_matrix([[-1.0, 2.0, -5.0], [1.0, 4.0, -5.0]])
    scaled, scaled_test = scale_to_unit(X, sp.csr_matrix([[0.0, 0.0, -5.0]]))
    np.testing.assert_array_equal(scaled, [[0, 0, 0], [1, 1, 0]])
    np.testing.assert_array_equal(scaled_test, [[0.5, -1, 0]])


def test_names_and_seeds_are_checked() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'mushrooms'\?"):
        load_paper_set("mushroom")
    with pytest.raises(ParameterError, match="`seed` must be an integer"):
        load_paper_set("w8a", seed=-1)


def test_a_failed_download_says_how_to_go_without(offline: Path) -> None:
    assert not any(one.available for one in list_paper_sets())
    with pytest.raises(DownloadError, match=r"binary/w8a could not .*no network.*APMAX_DATA=") as e:
        load_paper_set("w8a")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("suffix", ["", ".xz", ".bz2"])
def test_the_folder_may_hold_any_compression(suffix: str, offline: Path, real_data: Path) -> None:
    text = lzma.decompress((real_data / "libsvm" / "phishing.xz").read_bytes())
    compress = {"": bytes, ".xz": lzma.compress, ".bz2": bz2.compress}[suffix]
    (offline / "libsvm" / f"phishing{suffix}").write_bytes(compress(text))
    assert load_paper_set("phishing").X.shape == (5074, 68)
    assert {one.name: one.available for one in list_paper_sets()}["phishing"]


def test_a_download_is_kept_and_checked(
    offline: Path, real_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def retrieve(url: str, known_hash: None, fname: str, path: Path) -> str:
        asked.append(url)
        text = lzma.decompress((real_data / "libsvm" / "phishing.xz").read_bytes())
        Path(path, fname).write_bytes(text)
        return str(Path(path, fname))

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    for _ in range(2):
        assert load_paper_set("phishing").X.shape == (5074, 68)
    assert asked == [fetching.PAGE + "phishing"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1 1:1\n0 2:1\n", r"has 2 rows, 1 positives and 2 entries, but phishing has 11055"),
        (b"<html>moved</html>", r"line 1, column 1: found '<html>moved</html>'"),
    ],
)
def test_a_wrong_download_is_refused_and_removed(
    text: bytes, message: str, offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def retrieve(url: str, known_hash: None, fname: str, path: Path) -> str:
        Path(path, fname).write_bytes(text)
        return str(Path(path, fname))

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(FileFormatError, match=message):
        load_paper_set("phishing")
    assert list(fetching.cache_folder().iterdir()) == []


def test_other_values_in_the_same_shape_are_noticed(offline: Path, real_data: Path) -> None:
    text = lzma.decompress((real_data / "libsvm" / "phishing.xz").read_bytes())
    (offline / "libsvm" / "phishing").write_bytes(text.replace(b"1:0.18257", b"1:0.18258", 1))
    with pytest.raises(FileFormatError, match=r"holds other values .*SHA-256"):
        load_paper_set("phishing")


def test_a_data_folder_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("APMAX_DATA", str(tmp_path / "absent"))
    with pytest.raises(FileError, match=r"APMAX_DATA = .* is no folder"):
        load_paper_set("w8a")


def test_without_pooch_local_files_still_load(
    offline: Path, real_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"needs pooch.*pip install 'apmax\[data\]'"):
        load_paper_set("phishing")
    shutil.copy(real_data / "libsvm" / "phishing.xz", offline / "libsvm")
    assert load_paper_set("phishing").y.size == 5074


def test_every_file_is_known_by_its_digest() -> None:
    assert len({file.digest for file in sets._FILES.values()}) == 10
