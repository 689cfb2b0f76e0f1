"""The data sets of the linear experiments: where they come from and how they are prepared."""

from __future__ import annotations

import bz2
import gzip
import http.server
import lzma
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pooch
import pytest
import scipy.sparse as sp

from apmax.errors import DownloadError, FileError, FileFormatError, UnknownNameError
from experiments import datasets
from experiments.datasets import SETS, keep_positives, load_paper_set, local_files


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder and an empty cache."""
    folder, cache = tmp_path / "data", tmp_path / "cache"
    (folder / "libsvm").mkdir(parents=True)
    monkeypatch.setenv("APMAX_DATA", str(folder))
    monkeypatch.setattr(pooch, "os_cache", lambda _: cache)
    return folder


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The LIBSVM page, served from a folder of this machine."""
    folder = tmp_path / "page"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(datasets, "PAGE", f"http://127.0.0.1:{server.server_port}/")
        yield folder
        server.shutdown()


def phishing(real_data: Path) -> bytes:
    return lzma.decompress((real_data / "libsvm" / "phishing.xz").read_bytes())


@pytest.mark.parametrize("name", SETS)
def test_features_are_scaled_to_the_unit_interval_and_zeros_stay_sparse(
    name: str, real_data: Path
) -> None:
    data = load_paper_set(name, seed=2)
    assert data.X.shape[1] == data.X_test.shape[1] == SETS[name].features
    assert data.X.min() == 0
    assert data.X.max() == 1
    assert sp.issparse(data.X) == (name != "ijcnn1")
    assert set(np.unique(data.y)) == {False, True}


def test_rows_of_random_splits_come_from_the_seed(real_data: Path) -> None:
    first, again, other = (load_paper_set("mushrooms", seed) for seed in (0, 0, 1))
    assert (first.X != again.X).nnz == 0
    assert (first.X != other.X).nnz > 0


def test_positives_are_dropped_and_the_order_is_kept() -> None:
    y = np.arange(100) % 2 == 0
    rows = keep_positives(y, 7, seed=0)
    assert (y[rows].sum(), (~y[rows]).sum()) == (7, 50)
    assert (np.diff(rows) > 0).all()


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("", bytes), (".xz", lzma.compress), (".bz2", bz2.compress), (".gz", gzip.compress)],
    ids=["plain", "xz", "bz2", "gz"],
)
def test_the_folder_may_hold_any_compression(
    suffix: str, compress: Any, real_data: Path, empty: Path
) -> None:
    (empty / "libsvm" / f"phishing{suffix}").write_bytes(compress(phishing(real_data)))
    assert load_paper_set("phishing").X.shape == (5074, 68)
    assert local_files("phishing") == [empty / "libsvm" / f"phishing{suffix}"]


def test_a_download_is_kept_and_checked(real_data: Path, empty: Path, page: Path) -> None:
    (page / "phishing").write_bytes(phishing(real_data))
    assert local_files("phishing") == []
    assert load_paper_set("phishing").X.shape == (5074, 68)
    (page / "phishing").unlink()
    assert load_paper_set("phishing").X.shape == (5074, 68)
    assert local_files("phishing") == [datasets.cache_folder() / "phishing"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [(b"1 1:1\n0 2:1\n", "its values are not those"), (b"<html>moved</html>", "could not convert")],
    ids=["another file", "no LIBSVM file"],
)
def test_a_wrong_download_is_refused_and_removed(
    text: bytes, reason: str, empty: Path, page: Path
) -> None:
    (page / "phishing").write_bytes(text)
    with pytest.raises(FileFormatError, match=reason):
        load_paper_set("phishing")
    assert local_files("phishing") == []


def test_a_changed_value_in_the_data_folder_is_noticed(real_data: Path, empty: Path) -> None:
    text = phishing(real_data).replace(b"1:0.18257", b"1:0.18258", 1)
    (empty / "libsvm" / "phishing").write_bytes(text)
    with pytest.raises(FileFormatError, match="phishing on the LIBSVM page.*delete it"):
        load_paper_set("phishing")
    assert (empty / "libsvm" / "phishing").exists()


def test_a_failed_download_says_how_to_provide_the_file(empty: Path, page: Path) -> None:
    with pytest.raises(DownloadError, match=r"404.*FOLDER/libsvm/w8a and set APMAX_DATA=FOLDER"):
        load_paper_set("w8a")


def test_a_data_folder_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("APMAX_DATA", str(tmp_path / "absent"))
    with pytest.raises(FileError, match=r"absent is not a folder"):
        load_paper_set("w8a")


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'mushrooms'\?"):
        load_paper_set("mushroom")
