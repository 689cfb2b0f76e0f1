"""A full disk, and two runs in one place: a clear error or two right results, and no litter."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from apmax import APClassifier
from apmax.app.cli import app
from apmax.app.pipeline.storage import load_model
from apmax.errors import CheckpointError, FileError
from apmax.linear import checkpoint as checkpoints
from experiments.store import Store, Unit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 4))
Y = X[:, 0] + RNG.normal(size=3000) > 1
ROOM = 20_000
"""Bytes of a file on the full disk; every file below is larger."""


@contextmanager
def full_disk() -> Iterator[None]:
    """No file grows above ROOM; Python ignores the signal and sees an error, as with ENOSPC."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LIBSVM file of 4,000 features: its model has 40 kB."""
    path = tmp_path_factory.mktemp("data") / "data.svm"
    rows = []
    for k, positive in enumerate(Y):
        feature = 2 + k % 3999
        rows.append(f"{int(positive)} 1:{X[k, 0]:.4f} {feature}:{X[k, 1]:.4f}")
    path.write_text("\n".join(rows) + "\n")
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture(scope="module")
def model(data: Path) -> Path:
    path = data.with_name("model.apmax")
    assert run("train", data, "--solver", "lbfgs", "--test", data, "--out", path)[0] == 0
    return path


COMMANDS = {
    "a model": ("model", ["train", "DATA", "--solver", "lbfgs", "--test", "DATA", "--out", "OUT"]),
    "predictions": ("out.csv", ["predict", "MODEL", "DATA", "--out", "OUT"]),
    "predictions as Parquet": ("out.parquet", ["predict", "MODEL", "DATA", "--out", "OUT"]),
    "a report": ("out.html", ["report", "MODEL", "DATA", "--out", "OUT"]),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_told_and_what_was_there_stays(
    name: str, data: Path, model: Path, tmp_path: Path
) -> None:
    file, command = COMMANDS[name]
    out = tmp_path / file
    places = {"DATA": data, "MODEL": model, "OUT": out}
    arguments = [places.get(word, word) for word in command]
    for before in (None, b"what was there"):
        if before is not None:
            out.write_bytes(before)
        with full_disk():
            code, told = run(*arguments)
        assert (code, out.read_bytes() if out.exists() else None) == (1, before), told
        assert f"cannot write {out} (File too large): what was there is as it was" in told
        assert list(tmp_path.iterdir()) == ([] if before is None else [out])
    assert run(*arguments)[0] == 0
    assert out.stat().st_size > ROOM


def test_a_checkpoint_on_a_full_disk_keeps_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", np.inf)
    options = {"max_iter": 4000, "batch_size": 8, "random_state": 0}
    model = APClassifier("adap-adam", checkpoint=tmp_path, **options)
    # The state grows by 8 kB with every 500 rounds: the disk is full after some of them.
    monkeypatch.setattr(sys.modules[__name__], "ROOM", 45_000)
    with full_disk(), pytest.raises(FileError, match=r"cannot write .* \(File too large\)"):
        model.fit(X, Y)
    path = tmp_path / checkpoints.FILE
    assert 0 < path.stat().st_size <= 45_000
    assert list(tmp_path.iterdir()) == [path]
    seen: list[int] = []
    model.on_progress = lambda stage, done, of, ap: seen.append(done)
    model.fit(X, Y)
    assert 500 < seen[0] <= 3500
    np.testing.assert_array_equal(model.coef_, APClassifier("adap-adam", **options).fit(X, Y).coef_)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_a_pipe_is_told_too(data: Path, model: Path) -> None:
    command = [sys.executable, "-m", "apmax", "predict", str(model), str(data)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120
        )
    assert done.returncode == 1
    assert done.stderr.strip() == "error: [Errno 28] No space left on device"


def test_results_of_the_paper_on_a_full_disk_keep_what_was_done(tmp_path: Path) -> None:
    units = [Unit(zeros, (size,)) for size in (10, 9_000, 11)]
    with full_disk(), pytest.raises(FileError, match="File too large"):
        list(Store(tmp_path).results(units, jobs=1))
    kept = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert kept == ["zeros-10.json"]
    assert len(list(Store(tmp_path).results(units, jobs=1))) == 3


def zeros(size: int) -> list[float]:
    return [0.0] * size


COMPILES = """
import resource, sys
import numpy as np
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
from apmax.linear._rounds import draw_distinct
out = np.empty((2, 2), dtype=np.int64)
draw_distinct(np.full((2, 2), 0.5), 10, out)
assert (out[0] == out[1]).all()
"""


def test_kernels_that_cannot_be_stored_are_compiled_all_the_same(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", COMPILES],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "compiling" in done.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_two_trainings_to_one_file_leave_one_whole_model(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    command = [sys.executable, "-m", "apmax", "--quiet", "train", str(data), "--test", str(data)]
    both = [
        subprocess.Popen([*command, "--solver", solver, "--out", str(out)])
        for solver in ("lbfgs", "soap-adam")
    ]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert load_model(out).facts["solver"] in ("lbfgs", "soap-adam")
    assert list(tmp_path.iterdir()) == [out]


def squares(number: int) -> int:
    return number * number


def test_two_runs_of_the_paper_in_one_folder_are_both_right(tmp_path: Path) -> None:
    units = [Unit(squares, (number,)) for number in range(60)]

    def results() -> dict[str, int]:
        return {unit.name: found for unit, found in Store(tmp_path).results(units, jobs=1)}

    with ThreadPoolExecutor(2) as pool:
        left, right = (future.result() for future in [pool.submit(results) for _ in range(2)])
    assert left == right == {f"squares-{number}": number * number for number in range(60)}
    assert list(tmp_path.rglob("*.part")) == []


def test_of_two_fits_with_one_checkpoint_one_refuses_and_one_is_right(tmp_path: Path) -> None:
    options = {"max_iter": 20_000, "batch_size": 8, "random_state": 0}

    def fit(checkpoint: Path | None) -> APClassifier:
        return APClassifier("sox", checkpoint=checkpoint, **options).fit(sp.csr_matrix(X), Y)

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(fit, tmp_path) for _ in range(4)]
        failures = [future.exception() for future in futures]
    assert failures.count(None) >= 1
    assert all(isinstance(error, CheckpointError) for error in failures if error is not None)
    expected = fit(None).coef_
    for future, error in zip(futures, failures, strict=True):
        if error is None:
            np.testing.assert_array_equal(future.result().coef_, expected)
