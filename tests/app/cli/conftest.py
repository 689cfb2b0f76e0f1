"""A trained model and labelled data in the working folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.loans import made_loans, run


@pytest.fixture
def model(folder: Path) -> str:
    """Write m.apmax and valid.csv, and return the name of the model."""
    options = ("--target", "defaulted", "--model", "logistic", "-o", "m.apmax")
    run("--quiet", "train", "loans.csv", *options)
    made_loans(2000, 2).to_csv("valid.csv", index=False)
    return "m.apmax"
