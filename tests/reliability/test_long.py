"""Large data within stated memory, long runs with flat memory, many fits without cross-talk."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed

from apmax import APClassifier, average_precision
from apmax.app.report import Report, Scored, write_report
from apmax.validation import Floats

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 6))
Y = X[:, 0] + RNG.normal(size=400) > 1
SOLVERS = ("lbfgs", "adap-adam", "soap-sgd", "moap-v2", "smoothap")


def one_fit(number: int) -> Floats:
    """One of many fits, each with its own solver, seed and part of the data."""
    rows = np.random.default_rng(number).permutation(400)[:300]
    options: dict[str, Any] = {"max_iter": 20 if number % 5 == 0 else 300, "batch_size": 16}
    model = APClassifier(SOLVERS[number % 5], random_state=number, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rounds converge to nothing
        model.fit(X[rows], Y[rows])
    return np.append(model.coef_, model.intercept_)


def in_threads(count: int) -> list[Floats]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(one_fit, range(count)))


def in_processes(count: int) -> list[Floats]:
    return list(Parallel(n_jobs=2)(delayed(one_fit)(number) for number in range(count)))


def assert_bits_of_fits_in_turn(count: int, how: Any) -> None:
    before: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    expected = [one_fit(number) for number in range(count)]
    found = how(count)
    after: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    np.testing.assert_array_equal(found, expected)
    assert len({row.tobytes() for row in expected}) == count  # no two are the same by chance
    np.testing.assert_equal(after, before)


@pytest.mark.filterwarnings("ignore")  # warnings.catch_warnings is not for threads
@pytest.mark.parametrize("how", [in_threads, in_processes], ids=["threads", "processes"])
def test_fits_at_once_have_the_bits_of_fits_in_turn(how: Any) -> None:
    assert_bits_of_fits_in_turn(50, how)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", [in_threads, in_processes], ids=["threads", "processes"])
def test_a_thousand_fits_at_once_have_the_bits_of_fits_in_turn(how: Any) -> None:
    begin = time.perf_counter()
    assert_bits_of_fits_in_turn(1000, how)
    print(
        f"\n1,000 fits in {how.__name__[3:]}: {time.perf_counter() - begin:.0f} s with the serial"
    )


def fit_large(rows: int, solver: str) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).with_name("large.py")), str(rows), solver]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


LARGEST = {"soap-adam": 12.0, "lbfgs": 16.0}
"""Arrays of n doubles that a fit takes beside its data, at most."""


@needs_proc
def test_a_fit_of_many_sparse_rows_takes_the_memory_that_is_stated() -> None:
    told = fit_large(300_000, "soap-adam")
    assert told["arrays_of_n_doubles"] < LARGEST["soap-adam"] + 3  # some is not of n
    assert told["ap"] > 3 * told["prevalence"]


@needs_proc
@pytest.mark.soak
@pytest.mark.parametrize("solver", list(LARGEST))
def test_ten_million_sparse_rows_take_the_memory_that_is_stated(solver: str) -> None:
    told = fit_large(10_000_000, solver)
    print(f"\n{told}")
    assert told["arrays_of_n_doubles"] < LARGEST[solver]
    assert told["ap"] > 3 * told["prevalence"]


def work(number: int, folder: Path) -> None:
    """Fit, predict and report, as a service would do all day."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(2000, 10)).astype([np.float32, np.float64][number % 2])
    y = X[:, 0] + rng.normal(size=2000) > 1.5
    solver = SOLVERS[number % 5]
    options: dict[str, Any] = {"max_iter": 20 if solver == "lbfgs" else 500}
    if solver != "lbfgs":
        options["checkpoint"] = folder / "checkpoint"
    model = APClassifier(solver, random_state=number, **options).fit(X, y)
    scores = model.predict_proba(X)[:, 1]
    assert average_precision(y, scores) > y.mean()
    write_report(Report(str(number), [Scored("a model", y, scores)]), folder / "report.html")


@needs_proc
@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
def test_memory_stays_flat_while_fits_predictions_and_reports_go_on(tmp_path: Path) -> None:
    from tests.reliability.large import resident

    minutes = float(os.environ.get("APMAX_SOAK_MINUTES", "60"))
    begin = time.monotonic()
    warm, count, seen = 0.0, 0, []
    while time.monotonic() < begin + 60 * minutes:
        work(count, tmp_path)
        count += 1
        if count % 20 == 0:
            gc.collect()
            seen.append(resident())
            if not warm and time.monotonic() > begin + 6 * minutes:  # the first tenth
                warm = max(seen)
    last = max(seen[-5:])
    print(
        f"\nsoak: {minutes:g} minutes, {count} times fit + predict + report, {warm:.1f} MB after "
        f"the first tenth, {last:.1f} MB at the end ({last / warm - 1:+.2%}), "
        f"{threading.active_count()} threads, {len(os.listdir('/proc/self/fd'))} open files"
    )
    assert last < 1.02 * warm
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint", "report.html"]
