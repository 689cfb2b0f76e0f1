"""The data sets of the linear experiments: where they come from and how they are prepared."""

import http.server
import lzma
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pooch
import pytest
import scipy.sparse as sp

from apmax.errors import FileFormatError
from experiments import cifar, datasets
from experiments.datasets import SETS, load_paper_set, local_files


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
    handler: Any = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(datasets, "PAGE", f"http://127.0.0.1:{server.server_port}/")
        yield folder
        server.shutdown()


def phishing(data_sets: Path) -> bytes:
    return lzma.decompress((data_sets / "libsvm" / "phishing.xz").read_bytes())


@pytest.mark.parametrize("name", SETS)
def test_features_are_scaled_to_the_unit_interval_and_zeros_stay_sparse(
    name: str, data_sets: Path
) -> None:
    data = load_paper_set(name, seed=2)
    assert data.X.shape[1] == data.X_test.shape[1] == SETS[name].features
    assert data.X.min() == 0
    assert data.X.max() == 1
    assert sp.issparse(data.X) == (name != "ijcnn1")
    random = (load_paper_set(name, seed=3).y != data.y).any()
    assert random == (name in ("mushrooms", "phishing"))


def test_data_sets_are_downloaded_over_https() -> None:
    assert datasets.PAGE.startswith("https://")
    assert cifar.PAGE.startswith("https://")


def test_a_download_is_kept_and_checked(data_sets: Path, empty: Path, page: Path) -> None:
    assert local_files("phishing") == []
    (page / "phishing").write_bytes(phishing(data_sets))
    shape = load_paper_set("phishing").X.shape
    assert shape[1] == SETS["phishing"].features
    (page / "phishing").unlink()
    assert load_paper_set("phishing").X.shape == shape
    assert local_files("phishing") == [datasets.cache_folder() / "phishing"]


@pytest.mark.parametrize("text", [b"1 1:1\n0 2:1\n", b"<html>moved</html>"])
def test_a_wrong_download_is_refused_and_removed(text: bytes, empty: Path, page: Path) -> None:
    (page / "phishing").write_bytes(text)
    with pytest.raises(FileFormatError, match="phishing is damaged or is another file"):
        load_paper_set("phishing")
    assert local_files("phishing") == []


def test_a_failed_download_says_how_to_provide_the_file(empty: Path, page: Path) -> None:
    with pytest.raises(
        datasets.DownloadError, match=r"404.*FOLDER/libsvm/w8a and set APMAX_DATA=FOLDER"
    ):
        load_paper_set("w8a")
