"""A full disk and two writers of one path leave complete files."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from apmax.app.cli.app import app
from apmax.errors import FileError
from experiments.store import Store, Unit
from tests.hang import SECONDS

MAX_BYTES = 20_000
"""Largest file on the full disk; every file below is larger."""


@contextmanager
def full_disk() -> Iterator[None]:
    """Let writes beyond MAX_BYTES fail with an OSError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a LIBSVM file with 4,000 features, so that its model has 32 kB."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    rows = (f"{int(v > 1)} 1:{v:.4f} {2 + k % 3999}:1" for k, v in enumerate(x))
    path = tmp_path_factory.mktemp("data") / "data.svm"
    path.write_text("\n".join(rows) + "\n")
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, " ".join(result.output.split())


def train(data: Path, out: Path) -> list[object]:
    return ["train", data, "--model", "logistic", "--test", data, "--out", out]


@pytest.fixture(scope="module")
def model(data: Path) -> Path:
    path = data.with_name("model.apmax")
    assert run(*train(data, path))[0] == 0
    return path


@pytest.mark.parametrize("name", ["model", "out.csv", "out.parquet", "out.html"])
def test_commands_report_a_full_disk_and_keep_the_previous_file(
    name: str, data: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / name
    command = "report" if name == "out.html" else "predict"
    arguments = train(data, out) if name == "model" else [command, model, data, "--out", out]
    with full_disk():
        code, message = run(*arguments)
    assert code == 1
    assert f"cannot write {out} (File too large)" in message
    assert list(tmp_path.iterdir()) == []
    out.write_bytes(b"previous")
    with full_disk():
        assert run(*arguments)[0] == 1
    assert out.read_bytes() == b"previous"
    assert list(tmp_path.iterdir()) == [out]
    assert run(*arguments)[0] == 0
    assert out.stat().st_size > MAX_BYTES


def zeros(size: int) -> list[float]:
    return [0.0] * size


def test_experiments_on_a_full_disk_keep_the_finished_results(tmp_path: Path) -> None:
    units = [Unit(zeros, (size,)) for size in (10, 9_000, 11)]
    with full_disk(), pytest.raises(FileError, match="File too large"):
        list(Store(tmp_path).results(units, jobs=1))
    kept = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert kept == ["zeros-10.json"]
    assert len(list(Store(tmp_path).results(units, jobs=1))) == 3


COMPILE_WITHOUT_CACHE = """
import resource
import numpy as np
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
from apmax.linear._rounds import draw_distinct
out = np.empty((2, 2), dtype=np.int64)
draw_distinct(np.full((2, 2), 0.5), 10, out)
assert (out[0] == out[1]).all()
"""


@pytest.mark.soak
def test_kernels_that_cannot_be_cached_still_run(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-c", COMPILE_WITHOUT_CACHE], env=environment, check=True, timeout=SECONDS
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


WRITE_OFTEN = """
import signal, sys
from pathlib import Path
from apmax.atomic_files import write_file
signal.alarm(int(sys.argv[3]))
for _ in range(200):
    write_file(Path(sys.argv[1]), sys.argv[2].encode() * 100_000)
"""


def test_two_writers_of_one_path_leave_complete_files_at_every_moment(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 100_000)
    command = [sys.executable, "-c", WRITE_OFTEN, str(path)]
    both = [subprocess.Popen([*command, letter, str(SECONDS)]) for letter in "ab"]
    seen = set()
    while any(process.poll() is None for process in both):
        seen.add(path.read_bytes())
    assert seen <= {b"a" * 100_000, b"b" * 100_000}
    assert [process.returncode for process in both] == [0, 0]
    assert list(tmp_path.iterdir()) == [path]
