"""The package as an installed thing: its names, its imports, its weight."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import apmax

PUBLIC = {
    "APClassifier",
    "APClassifierCV",
    "ApmaxError",
    "OperatingPoint",
    "PrecisionRecallCurve",
    "Surrogate",
    "SurrogateAP",
    "__version__",
    "average_precision",
    "operating_point",
    "precision_recall_curve",
    "surrogate_ap",
}

OPTIONAL = {"torch", "pandas", "pyarrow", "matplotlib", "typer", "rich", "pooch", "numba"}


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_the_public_names_are_these_and_no_others() -> None:
    assert set(apmax.__all__) == PUBLIC
    assert list(apmax.__all__) == sorted(apmax.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_can_be_imported_and_is_documented(name: str) -> None:
    value = getattr(apmax, name)
    assert name == "__version__" or value.__doc__


def test_dir_shows_the_public_names() -> None:
    assert set(dir(apmax)) == PUBLIC


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'averge_precision'"):
        _ = apmax.averge_precision


def test_import_brings_no_optional_dependency_and_not_even_numba() -> None:
    code = "import sys, json, apmax, apmax.metrics, apmax.objective.exact, apmax.method.loop\n"
    code += "print(json.dumps(sorted(sys.modules)))"
    loaded = {name.split(".")[0] for name in json.loads(run_python(code))}
    assert loaded & OPTIONAL == set()


def test_import_takes_under_0_4_s_beyond_its_core_dependencies() -> None:
    code = (
        "import time, numpy, scipy.optimize, scipy.sparse, sklearn.base\n"
        "start = time.perf_counter()\n"
        "import apmax\n"
        "[getattr(apmax, name) for name in apmax.__all__]\n"
        "print(time.perf_counter() - start)"
    )
    assert min(float(run_python(code)) for _ in range(3)) < 0.4


def test_compiling_is_announced_once_and_not_when_the_cache_serves(tmp_path: object) -> None:
    code = "import apmax\n" + "apmax.average_precision([1, 0], [2.0, 1.0])\n" * 2
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PATH": ""}

    def errors() -> str:
        return subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
        ).stderr

    assert errors().count("compiling") == 1
    assert errors() == ""
