"""Shared by the tests of the experiments."""

from pathlib import Path

import pytest

from experiments.datasets import data_folder


@pytest.fixture
def real_data() -> Path:
    """The folder with the data sets of the paper."""
    folder = data_folder()
    if folder is None or not (folder / "libsvm").is_dir():
        pytest.skip("needs the LIBSVM data sets: set APMAX_DATA")
    return folder
