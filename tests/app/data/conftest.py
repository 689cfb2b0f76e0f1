"""Where the tests find files: a folder of real data, or small files that they write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from apmax.app.data.fetching import data_folder

Write = Callable[[str, str | bytes], Path]


@pytest.fixture(scope="session")
def real_data() -> Path:
    folder = data_folder()
    if folder is None or not all((folder / room).is_dir() for room in ("libsvm", "tabular")):
        pytest.skip("no real data: set APMAX_DATA to the folder that holds libsvm/ and tabular/")
    return folder


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file and return its path."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file
