"""Kill work at random moments, run it again, and compare the result with an undisturbed run.

``python -m tests.reliability.killing NAME FOLDER KILLS SEED`` prints the number of kills, and of
those that hit a file being written. Each run is a fork of this process, so that kills hit the work
and not the imports.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RESUME = Path(__file__).parents[2] / "examples" / "torch" / "resume.py"


class Work(NamedTuple):
    """What runs in a folder, what holds after every kill, and the result to compare."""

    run: Callable[[Path], Any]
    check: Callable[[Path], Any]
    result: Callable[[Path], bytes]
    warm_up_in_fork: bool = False
    """For torch, whose threads do not survive a fork."""


def torch_training() -> Work:
    """examples/torch/resume.py."""
    import torch

    torch.set_num_threads(1)
    train = runpy.run_path(str(RESUME))["train"]

    def load(folder: Path) -> Any:
        path = folder / "checkpoint.pt"
        return torch.load(path, weights_only=True) if path.exists() else None

    def result(folder: Path) -> bytes:
        saved = load(folder)
        parts = [*saved["model"].values(), saved["loss"]["U"]]
        return b"".join(part.numpy().tobytes() for part in parts)

    return Work(lambda folder: train(folder, 100), load, result, warm_up_in_fork=True)


def singular_value(size: int) -> float:
    """Return a result that takes some milliseconds."""
    return float(np.linalg.norm(np.random.default_rng(size).random((size, size)), 2))


def experiments_store() -> Work:
    """Results of `python -m experiments`."""
    from experiments.store import Store, Unit, write

    units = [Unit(singular_value, (size,)) for size in range(150, 190)]

    def run(folder: Path) -> None:
        found = {unit.name: result for unit, result in Store(folder).results(units, jobs=1)}
        write(folder / "table.json", json.dumps(found, sort_keys=True))

    def check(folder: Path) -> None:
        for path in folder.rglob("*.json"):
            json.loads(path.read_text())

    return Work(run, check, lambda folder: (folder / "table.json").read_bytes())


def train_command() -> Work:
    """`apmax train` with 40,000 features, whose model takes some time to write."""
    import scipy.sparse as sp

    from apmax.app.cli.app import app
    from apmax.app.model import load_model

    rng = np.random.default_rng(0)
    X = sp.random(300, 40_000, density=2e-4, format="csr", rng=rng)
    total = np.asarray(X[:, :20_000].sum(axis=1)).ravel()
    y = total > np.quantile(total, 0.8)
    weights: set[bytes] = set()

    def run(folder: Path) -> None:
        data, out = folder.with_name("data.npz"), folder / "model"
        if not data.exists():
            parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
            np.savez(data, y=y.astype(float), **parts)
        options = ["--test", str(data), "--model", "logistic", "--out", str(out)]
        options += ["--jobs", "1"]  # the processes of joblib do not survive a fork
        assert not app(["--quiet", "train", str(data), *options], standalone_mode=False)

    def check(folder: Path) -> None:
        if (folder / "model").exists():
            weights.add(load_model(folder / "model").coef.tobytes())
        assert len(weights) <= 1, "another model"

    return Work(run, check, lambda folder: load_model(folder / "model").coef.tobytes())


WORK = {"torch": torch_training, "experiments": experiments_store, "train": train_command}


def completes(
    work: Callable[[], Any], kill_after: float | None = None, writes_to: Path | None = None
) -> bool:
    """Run in a fork and tell whether it ended before the kill.

    With a folder, the kill waits until a temporary file is in it.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with warnings.catch_warnings(action="ignore"):
                sys.stdout = sys.stderr
                work()
            code = 0
        finally:
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        while writes_to is not None and not temporary_files(writes_to):
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), f"the work failed: {code}"
    return code == 0


def temporary_files(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*.part")]


def kill_and_compare(name: str, folder: Path, kills: int, seed: int) -> dict[str, int]:
    """Kill the work at random moments, every other time while a file is written."""
    work = WORK[name]()
    undisturbed, disturbed = folder / "undisturbed", folder / "disturbed"
    for place in (undisturbed, disturbed):
        place.mkdir()
    with warnings.catch_warnings(action="ignore"):
        assert not work.warm_up_in_fork or completes(lambda: work.run(undisturbed))
        work.warm_up_in_fork or work.run(undisturbed)
    shutil.rmtree(undisturbed)
    undisturbed.mkdir()
    begin = time.perf_counter()
    assert completes(lambda: work.run(undisturbed))
    seconds, expected = time.perf_counter() - begin, work.result(undisturbed)
    rng = np.random.default_rng(seed)
    done = {"killed": 0, "while writing": 0}
    while True:
        before = temporary_files(disturbed)
        writes_to = disturbed if done["killed"] % 2 == 1 and not before else None
        moment = seconds * rng.uniform() ** 2 if done["killed"] < kills else None
        ended = completes(lambda: work.run(disturbed), moment, writes_to)
        work.check(disturbed)
        if not ended:
            done["killed"] += 1
            done["while writing"] += temporary_files(disturbed) != before
            continue
        assert work.result(disturbed) == expected, "another result"
        assert temporary_files(disturbed) == []
        if moment is None:
            return done
        shutil.rmtree(disturbed)
        disturbed.mkdir()


if __name__ == "__main__":
    name, folder, kills, seed = sys.argv[1:]
    print(json.dumps(kill_and_compare(name, Path(folder), int(kills), int(seed))))
