"""The package as an installed thing: its names, its imports, its weight."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apmax

PUBLIC = {
    "APClassifier",
    "APClassifierCV",
    "AdditiveAPClassifier",
    "ApmaxError",
    "AutoAPClassifier",
    "FitResult",
    "OperatingPoint",
    "StochasticAPClassifier",
    "Surrogate",
    "SurrogateAP",
    "__version__",
    "average_precision",
    "check_table",
    "load",
    "save",
    "operating_point",
    "surrogate_ap",
}

OPTIONAL = {
    "torch", "pandas", "pyarrow", "matplotlib", "typer", "rich", "pooch", "numba", "skops",
    "jinja2", "dask", "distributed", "sklearn",
}  # fmt: skip


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
    code = "import sys, json, apmax, apmax.metrics, apmax.objective.exact, apmax.methods\n"
    code += "print(json.dumps(sorted(sys.modules)))"
    loaded = {name.split(".")[0] for name in json.loads(run_python(code))}
    assert loaded & OPTIONAL == set()


def test_import_loads_two_small_modules_and_no_dependency() -> None:
    """Names are imported on first use, so that a command or a worker starts at once."""
    code = "import sys, json\nbefore = {*sys.modules}\nimport apmax\n"
    code += "print(json.dumps(sorted({*sys.modules} - before)))"
    loaded = json.loads(run_python(code))
    assert [name for name in loaded if name.startswith("apmax")] == ["apmax", "apmax._version"]
    assert {name.partition(".")[0] for name in loaded} <= {"apmax", *sys.stdlib_module_names}


def test_compiling_is_logged_once_and_the_cache_serves_the_next_process(tmp_path: Path) -> None:
    code = "import logging, apmax, numpy\nlogging.basicConfig(level=logging.INFO)\n"
    code += "n = numpy.arange(10_000)\n" + "apmax.average_precision(n % 9 == 0, n % 7)\n" * 2
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PATH": ""}

    def errors(program: str) -> str:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        return done.stderr

    assert errors(code).count("compiling") == 1
    assert "compiling" not in errors(code)
    for suffix, damage in ((".nbi", b""), (".nbc", b"\x80damage")):  # index and machine code
        for file in tmp_path.rglob(f"*{suffix}"):
            file.write_bytes(damage)
        assert "damaged" in errors(code)
    assert errors(code) == ""


def test_without_logging_nothing_is_printed(tmp_path: Path) -> None:
    code = "import apmax, numpy\nn = numpy.arange(10_000)\n"
    code += "apmax.average_precision(n % 9 == 0, n % 7)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={"NUMBA_CACHE_DIR": str(tmp_path), "PATH": ""},
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_other_layouts_of_the_input_do_not_compile_again() -> None:
    """Strided, read-only, float32 and integer scores, and read-only labels."""
    from apmax import _ranks

    kernel: Any = _ranks._count_range

    scores = np.random.default_rng(0).random(10_000)
    y = np.arange(10_000) % 9 == 0
    frozen, labels = scores.copy(), y.copy()
    for array in (frozen, labels):
        array.setflags(write=False)
    expected = apmax.average_precision(y, scores)
    kinds = len(kernel.signatures)
    for other in (frozen, np.repeat(scores, 2)[::2], scores.tolist()):
        assert apmax.average_precision(labels, other) == expected
    apmax.average_precision(labels, scores.astype(np.float32))
    assert len(kernel.signatures) == kinds
    np.testing.assert_array_equal(frozen, scores)
