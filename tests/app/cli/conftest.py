"""A trained model and labelled data in the working folder."""

from __future__ import annotations

import shutil
from contextlib import chdir
from pathlib import Path

import pytest

from tests.app.loans import made_loans, run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with m.apmax, trained by the command line, and valid.csv."""
    place = tmp_path_factory.mktemp("trained")
    with chdir(place):
        made_loans(600, 0).to_csv("loans.csv", index=False)
        options = ("--target", "defaulted", "--model", "logistic", "-o", "m.apmax")
        run("--quiet", "train", "loans.csv", *options)
        made_loans(2000, 2).to_csv("valid.csv", index=False)
    return place


@pytest.fixture
def model(folder: Path, trained: Path) -> str:
    """Copy m.apmax and valid.csv, and return the name of the model."""
    for name in ("m.apmax", "valid.csv"):
        shutil.copy(trained / name, folder)
    return "m.apmax"
