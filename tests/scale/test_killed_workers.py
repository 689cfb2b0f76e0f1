"""Workers that are killed do not change the result."""

from __future__ import annotations

import os
import random
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from apmax.errors import ParameterError, PartitionError
from apmax.scale.cluster import _most_suspicious, _partition_error
from tests.hang import SECONDS
from tests.reliability.soak import record, scaled

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import psutil  # noqa: E402
from distributed.diagnostics.plugin import WorkerPlugin  # noqa: E402

from apmax.dask import DaskAPClassifier  # noqa: E402
from tests.dask_clusters import client_of, data, local_cluster, of_threads  # noqa: E402

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "distributed.scheduler.allowed-failures": 20,
    "distributed.worker.use-file-locking": False,
}
WORKER = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--no-dashboard"]


@contextmanager
def with_nanny(workers: int, folder: Path, **settings: Any) -> Iterator[Any]:
    """Start a cluster of processes that are restarted when they end."""
    with (
        dask.config.set({**SETTINGS, **settings}),
        local_cluster(workers, processes=True) as cluster,
        client_of(cluster) as client,
    ):
        yield client


@contextmanager
def without_nanny(workers: int, folder: Path) -> Iterator[Any]:
    """Start a scheduler and worker processes without nannies; others replace those that end."""
    with (
        dask.config.set(SETTINGS),
        local_cluster(0) as cluster,
        client_of(cluster) as client,
    ):
        command = [
            *WORKER, cluster.scheduler_address, "--nthreads", "1", "--host", "127.0.0.1",
            "--local-directory", str(folder),
        ]  # fmt: skip
        ended, started = threading.Event(), list[subprocess.Popen[bytes]]()

        def keep_one_running() -> None:
            """Start a worker, and another one with a new name when it was killed."""
            while not ended.is_set():
                nowhere = subprocess.DEVNULL
                process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
                started.append(process)
                process.wait()

        keepers = [threading.Thread(target=keep_one_running) for _ in range(workers)]
        try:
            for keeper in keepers:
                keeper.start()
            client.wait_for_workers(workers, timeout=SECONDS)
            yield client
        finally:
            ended.set()
            while any(keeper.is_alive() for keeper in keepers):  # one may just start a worker
                for process in list(started):
                    process.kill()
                for keeper in keepers:
                    keeper.join(0.1)


STAGES = {
    "loading": "raw_block",
    "standardisation": "apmax-statistics",
    "logistic regression": "apmax-log_loss",
    "average precision": "apmax-vector_moments",
    "calibration": "apmax-histogram",
}
"""Beginnings of the keys of tasks in each stage of a fit."""


class Killer(WorkerPlugin):
    """Kills workers when they begin a task of a stage, a given number of times per stage.

    Files in a folder count the kills. So each of them happens exactly once, at the same point of
    the fit, whichever worker gets there. With `nannies`, the only thread for tasks waits until a
    file shows that the nanny has heard of the worker's start: it restarts no other worker.
    """

    name = "killer"

    def __init__(self, folder: Path, kills: int, nannies: bool) -> None:
        self.folder, self.kills, self.nannies = folder, kills, nannies

    def setup(self, worker: Any) -> None:
        self.tasks = worker.executors["default"]

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        if finish != "executing":
            return
        name = str(key if isinstance(key, str) else key[0])
        stage = next((one for one, first in STAGES.items() if name.startswith(first)), None)
        for number in range(self.kills if stage else 0):
            try:
                (self.folder / "kills" / f"{stage} {number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            known = self.folder / "known" / str(os.getpid())
            self.tasks.submit(kill_this_process, known if self.nannies else None)
            return


def kill_this_process(when: Path | None) -> None:
    """Kill the worker, when a file exists."""
    while when is not None and not when.exists():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    """Return the coefficients of an undisturbed fit, by threads."""
    with of_threads(1) as cluster, client_of(cluster) as client:
        model = DaskAPClassifier(alpha=0.1, client=client).fit(*data())
    return np.append(model.coef_, model.intercept_)


def test_without_a_cluster_the_error_says_what_to_do() -> None:
    with pytest.raises(ParameterError, match=r"distributed\.Client\(\)"):
        DaskAPClassifier().fit(*data())


def check_kills(cluster: Any, kills: int, expected: np.ndarray, folder: Path) -> None:
    """Fit while workers are killed in every stage, and compare the coefficients."""
    (folder / "kills").mkdir()
    (folder / "known").mkdir()
    nannies = cluster is with_nanny
    with cluster(2, folder) as client, ThreadPoolExecutor(1) as pool:
        client.register_plugin(Killer(folder, kills, nannies))
        fit = pool.submit(DaskAPClassifier(alpha=0.1, client=client).fit, *data())
        deadline = time.monotonic() + SECONDS
        while nannies and not fit.done() and time.monotonic() < deadline:
            for process in workers_of(client, nannies):
                (folder / "known" / str(process)).touch()
            time.sleep(0.1)
        model = fit.result(SECONDS)
    killed = sorted(path.name for path in (folder / "kills").iterdir())
    assert killed == sorted(f"{stage} {number}" for stage in STAGES for number in range(kills))
    np.testing.assert_array_equal(np.append(model.coef_, model.intercept_), expected)


def test_a_kill_in_every_stage_leaves_the_same_bits(expected: np.ndarray, tmp_path: Path) -> None:
    check_kills(without_nanny, 1, expected, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("cluster", "name"), [(with_nanny, "with nannies"), (without_nanny, "without nannies")]
)
def test_many_kills_in_every_stage_leave_the_same_bits(
    cluster: Any, name: str, expected: np.ndarray, tmp_path: Path
) -> None:
    fits = scaled(5)
    for number in range(fits):
        folder = tmp_path / str(number)
        folder.mkdir()
        check_kills(cluster, 2, expected, folder)
    record(
        f"a fit on Dask workers {name} that SIGKILL stops has the same bits",
        f"{2 * len(STAGES) * fits} kills in {len(STAGES)} stages of {fits} fits",
    )


def workers_of(client: Any, nannies: bool) -> list[int]:
    """Return the processes of workers that run; a nanny restarts only what it knows to run."""
    if not nannies:
        return list(client.run(os.getpid, on_error="ignore").values())
    found = client.run(process_of_nanny, nanny=True, on_error="ignore")
    return [process for process in found.values() if process]


def process_of_nanny(dask_worker: Any) -> int | None:
    running = dask_worker.process is not None and dask_worker.process.status.name == "running"
    return dask_worker.process.pid if running else None


def wait_for_end(process: int) -> None:
    """Wait until a process has ended, without collecting its exit code."""
    deadline = time.monotonic() + SECONDS
    with suppress(psutil.NoSuchProcess):
        while psutil.Process(process).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def check_stops(cluster: Any, number: int, stops: int, expected: np.ndarray, folder: Path) -> None:
    """Fit again and again while workers are stopped at random moments, so many times.

    A nanny whose worker SIGINT ends does not start another one; the cluster does when it is scaled.
    """
    rng, left = random.Random(0), stops
    with cluster(2, folder) as client, ThreadPoolExecutor(1) as pool:
        while left:
            model = DaskAPClassifier(alpha=0.1, client=client)
            fit = pool.submit(model.fit, *data())
            deadline = time.monotonic() + SECONDS
            while left and not fit.done() and time.monotonic() < deadline:
                time.sleep(rng.uniform(0.1, 1.0))
                processes = workers_of(client, cluster is with_nanny)
                if processes and not fit.done():
                    stopped = rng.choice(processes)
                    with suppress(ProcessLookupError):
                        os.kill(stopped, number)
                        left -= 1
                    wait_for_end(stopped)
                    if cluster is with_nanny and number == signal.SIGINT:
                        client.cluster.scale(2)
            fit.result(SECONDS)
            np.testing.assert_array_equal(np.append(model.coef_, model.intercept_), expected)


EVERY_CLUSTER = pytest.mark.parametrize(
    ("cluster", "name"), [(with_nanny, "with nannies"), (without_nanny, "without nannies")]
)


@EVERY_CLUSTER
def test_a_worker_that_gets_ctrl_c_leaves_the_same_bits(
    cluster: Any, name: str, expected: np.ndarray, tmp_path: Path
) -> None:
    check_stops(cluster, signal.SIGINT, 1, expected, tmp_path)


@pytest.mark.soak
@EVERY_CLUSTER
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_stops_at_random_moments_leave_the_same_bits(
    number: signal.Signals, cluster: Any, name: str, expected: np.ndarray, tmp_path: Path
) -> None:
    stops = scaled(25)
    check_stops(cluster, number, stops, expected, tmp_path)
    record(
        f"a fit on Dask workers {name} that {number.name} stops at random moments has the same "
        "bits",
        f"{stops} stops",
    )


def test_the_example_survives_a_kill_with_the_same_coefficients(tmp_path: Path) -> None:
    """Its worker is restarted by a nanny."""
    example = runpy.run_path(str(ROOT / "examples" / "dask_cluster.py"))
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        ap, difference = example["main"](rows=20_000, partitions=4)
    assert ap > 0.1
    assert difference == 0.0


def deadly(part: np.ndarray, block_info: Any = None) -> np.ndarray:
    if block_info and block_info[0]["chunk-location"][0] == 5:
        os._exit(1)
    return part


def test_a_partition_that_kills_its_workers_ends_the_fit(tmp_path: Path) -> None:
    X, y = data()
    with with_nanny(1, tmp_path, **{"distributed.scheduler.allowed-failures": 0}) as client:
        model = DaskAPClassifier(client=client)
        with pytest.raises(PartitionError, match=r"partitions? .*\b5\b.* ended repeatedly"):
            model.fit(X.map_blocks(deadly, dtype=float), y)
    assert not hasattr(model, "coef_")


def test_only_tasks_of_this_fit_are_blamed() -> None:
    """Several clients may use a cluster."""
    read = SimpleNamespace(key=("read", 3), suspicious=2, dependencies=[])
    block = SimpleNamespace(key="block-3", suspicious=2, dependencies=[read])
    other = SimpleNamespace(key="block-4", suspicious=1, dependencies=[read])
    result = SimpleNamespace(key="result", suspicious=0, dependencies=[block, other])
    foreign = SimpleNamespace(key=("elsewhere", 7), suspicious=3, dependencies=[])
    tasks = {task.key: task for task in (read, block, other, result, foreign)}
    found = _most_suspicious("result", SimpleNamespace(tasks=tasks))
    assert set(found) == {"block-3", ("read", 3)}
    assert _most_suspicious("forgotten", SimpleNamespace(tasks=tasks)) == []


@pytest.mark.parametrize(
    ("blamed", "others", "named"),
    [
        ("('deadly-66bb55c2', 5, 0)", [], "partition 5 ended"),
        ("('read-parquet-66bb55c2', 12)", [], "partition 12 ended"),
        ("apmax-describe-b0b09cc9-7", ["('deadly-66bb55c2', 7, 0)"], "partition 7 ended"),
        ("apmax-describe-b0b09cc9-arguments", [], "task apmax-describe-b0b09cc9-arguments ended"),
        (
            "('deadly-66bb55c2', 6, 0)",
            ["('deadly-66bb55c2', 10, 0)", "('deadly-66bb55c2', 5, 0)"],
            "one of the partitions 5, 6, 10 ended",
        ),
    ],
)
def test_the_error_names_the_partitions_that_may_be_the_cause(
    blamed: str, others: list[str], named: str
) -> None:
    assert named in str(_partition_error(blamed, others))
