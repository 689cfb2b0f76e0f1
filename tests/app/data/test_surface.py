"""apmax.app.data as a package: its names, and what importing it brings."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import apmax.app.data

HEAVY = {"pandas", "pyarrow", "pooch", "numba"}


def loaded_by(code: str) -> set[str]:
    code += "\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(json.loads(run.stdout))


def test_the_public_names_are_these() -> None:
    assert apmax.app.data.__all__ == sorted(apmax.app.data.__all__) == dir(apmax.app.data)
    assert {"load", "Dataset", "read_libsvm", "read_table", "load_paper_set"} <= set(
        dir(apmax.app.data)
    )
    for name in apmax.app.data.__all__:
        assert getattr(apmax.app.data, name).__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'read_svm'"):
        _ = apmax.app.data.read_svm


def test_importing_apmax_does_not_import_its_data() -> None:
    assert "apmax.app.data" not in loaded_by("import apmax")


def test_importing_the_names_brings_nothing_heavy() -> None:
    code = "from apmax.app.data import Dataset, load, load_paper_set, read_libsvm, read_table"
    assert {name.split(".")[0] for name in loaded_by(code)} & HEAVY == set()
