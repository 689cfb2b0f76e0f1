"""Every pinned version has its hashes, and a file with another hash is found."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
KNOWN = {"a==1.0": {"0" * 64}}


@pytest.fixture
def hashes() -> Any:
    spec = importlib.util.spec_from_file_location("hashes", ROOT / ".ci" / "hashes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def package(digest: str, url: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "A", "version": "1.0"},
        "download_info": {"url": url, "archive_info": {"hashes": {"sha256": digest}}},
    }


def test_every_pin_has_hashes(hashes: Any) -> None:
    found = hashes.listed()
    assert set(found) == {f"{hashes.plain(name)}=={version}" for name, version in hashes.pins()}
    assert all(len(digest) == 64 for digests in found.values() for digest in digests)
    assert all(found.values())


def test_a_file_of_the_network_with_another_hash_is_wrong(hashes: Any) -> None:
    web, disk = "https://index/a.whl", "file:///wheels/a.whl"
    assert hashes.compare({"install": [package("0" * 64, web)]}, KNOWN) == (1, [], [])
    good, local, wrong = hashes.compare({"install": [package("1" * 64, web)]}, KNOWN)
    assert (good, local, len(wrong)) == (0, [], 1)
    good, local, wrong = hashes.compare({"install": [package("1" * 64, disk)]}, KNOWN)
    assert (good, len(local), wrong) == (0, 1, [])


def test_only_apmax_itself_may_come_from_elsewhere_than_a_file(hashes: Any) -> None:
    folder = {"url": "file:///somewhere", "dir_info": {}}
    git = {"url": "https://host/evil", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}}

    def compare(name: str, source: dict[str, Any]) -> Any:
        metadata = {"name": name, "version": "1.0"}
        return hashes.compare({"install": [{"metadata": metadata, "download_info": source}]}, KNOWN)

    assert compare("apmax", folder) == (0, [], [])
    for name, source in (("a", git), ("a", folder), ("apmax-evil", folder), ("apmax", git)):
        wrong = [f"{name}==1.0 sha256:none from {source['url']}"]
        assert compare(name, source) == (0, [], wrong)


def test_hashes_are_read_from_a_page_of_the_index(hashes: Any) -> None:
    page = "".join(
        f'<a href="https://host/x/{file}#sha256={digest * 64}">{file}</a>'
        for file, digest in (("a_b-1.0.tar.gz", "0"), ("a_b-1.0-py3-none-any.whl", "1"),
                             ("a_b-1.0.1-py3-none-any.whl", "2"), ("a_c-1.0-py3-none-any.whl", "3"))
    )  # fmt: skip
    assert hashes.hashes_of(page, "A.b", "1.0") == ["0" * 64, "1" * 64]
