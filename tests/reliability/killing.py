"""Stop work at random moments, run it again, and compare the result with an undisturbed run.

``python -m tests.reliability.killing NAME FOLDER KILLS SEED SIGNAL`` prints the number of runs that
the signal stopped, and of those that were writing a file. Each run is a fork of this process, so
that signals hit the work and not the imports.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.hang import SECONDS

EXAMPLES = Path(__file__).parents[2] / "examples" / "torch"
INTERRUPTED = 128 + signal.SIGINT


class Work(NamedTuple):
    """What runs in a folder, what holds after every stop, and the result to compare."""

    run: Callable[[Path], Any]
    check: Callable[[Path], Any]
    result: Callable[[Path], bytes]
    warm_up_in_fork: bool = False
    """For torch, whose threads do not survive a fork."""
    writes_beside: bool = True
    """Whether temporary files are beside the final ones; Lightning's are in TMPDIR."""


class Run(NamedTuple):
    """How a run ended."""

    complete: bool
    while_writing: bool
    """Whether a temporary file of this run was there when the signal was sent."""


def torch_training() -> Work:
    """examples/torch/resume.py."""
    import torch

    torch.set_num_threads(1)
    train = runpy.run_path(str(EXAMPLES / "resume.py"))["train"]

    def load(folder: Path) -> Any:
        path = folder / "checkpoint.pt"
        return torch.load(path, weights_only=True) if path.exists() else None

    def result(folder: Path) -> bytes:
        saved = load(folder)
        parts = [*saved["model"].values(), saved["loss"]["U"]]
        return b"".join(part.numpy().tobytes() for part in parts)

    return Work(lambda folder: train(folder, 100), load, result, warm_up_in_fork=True)


def lightning_training() -> Work:
    """examples/torch/lightning_module.py with a checkpoint after each epoch."""
    import logging

    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint

    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    train = runpy.run_path(str(EXAMPLES / "lightning_module.py"))["train"]

    def load(folder: Path) -> Any:
        path = folder / "last.ckpt"
        return torch.load(path, weights_only=True) if path.exists() else None

    def run(folder: Path) -> None:
        path = folder / "last.ckpt"
        try:
            train(
                epochs=6,
                resume=str(path) if path.exists() else None,
                callbacks=[ModelCheckpoint(folder, save_last=True)],
                enable_progress_bar=False,
                enable_model_summary=False,
            )
        except SystemExit:  # Lightning ends an interrupted program with the code 1
            raise KeyboardInterrupt from None

    def result(folder: Path) -> bytes:
        parts = filter(torch.is_tensor, load(folder)["state_dict"].values())
        return b"".join(part.numpy().tobytes() for part in parts)

    return Work(run, load, result, warm_up_in_fork=True, writes_beside=False)


def files_fit() -> Work:
    """`APClassifier.fit_files` with a checkpoint."""
    import pandas as pd

    from apmax import APClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 5))
    y = X[:, 0] + X[:, 1] ** 2 + rng.normal(size=4_000) > 3
    table = pd.DataFrame(X, columns=list("abcde")).assign(y=y)

    def run(folder: Path) -> None:
        data = folder.with_name("data.parquet")
        if not data.exists():
            table.to_parquet(data)
        model = APClassifier(alpha=0.01, tol=1e-7)
        model.fit_files(data, "y", checkpoint=folder / "fit.json")
        if model.result_.interrupted:
            raise KeyboardInterrupt
        np.save(folder / "fit.npy", np.append(model.coef_, model.intercept_))

    def result(folder: Path) -> bytes:
        assert not (folder / "fit.json").exists()
        return (folder / "fit.npy").read_bytes()

    def check(folder: Path) -> None:
        if (folder / "fit.json").exists():
            for line in (folder / "fit.json").read_text().splitlines()[:-1]:  # it is appended to
                json.loads(line)
        if (folder / "fit.npy").exists():
            np.load(folder / "fit.npy")

    return Work(run, check, result)


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

    from apmax.app.cli import app as _  # noqa: F401 -- loaded before the forks
    from apmax.app.cli import main
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
        sys.argv = ["apmax", "--quiet", "train", str(data), *options]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise

    def check(folder: Path) -> None:
        if (folder / "model").exists():
            weights.add(load_model(folder / "model").coef.tobytes())
        assert len(weights) <= 1, "another model"

    return Work(run, check, lambda folder: load_model(folder / "model").coef.tobytes())


WORK = {
    "torch": torch_training,
    "lightning": lightning_training,
    "experiments": experiments_store,
    "train": train_command,
    "files": files_fit,
}


def stopped_run(
    work: Callable[[], Any],
    folder: Path,
    stop_after: float | None = None,
    waits_for_file: bool = False,
    number: int = signal.SIGKILL,
) -> Run:
    """Run in a process group of its own, of which no process may be left.

    The signal can wait until the run writes a temporary file in the folder.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the child can catch it
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.alarm(SECONDS)
            with warnings.catch_warnings(action="ignore"):
                sys.stdout = sys.stderr
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
                work()
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing catches it below
            code = 0
        except KeyboardInterrupt:
            code = INTERRUPTED
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with suppress(PermissionError):  # the child was faster
        os.setpgid(child, child)
    writing = False
    if stop_after is not None:
        before = temporary_files(folder)
        time.sleep(stop_after)
        while waits_for_file and not temporary_files(folder) - before:
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
        writing = bool(temporary_files(folder) - before)
        os.kill(child, number)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL if number == signal.SIGKILL else INTERRUPTED), code
    with suppress(ProcessLookupError):
        os.killpg(child, 0)
        raise AssertionError("a process is left")
    return Run(code == 0, writing)


def temporary_files(folder: Path) -> set[tuple[str, int]]:
    """Return temporary files and when they were written: some runs write one of the same name."""
    found = set()
    for path in folder.rglob("*"):
        if path.suffix == ".part" or path.name[0] == ".":
            with suppress(FileNotFoundError):  # it was given its name, or removed
                found.add((path.name, 0 if path.is_dir() else path.stat().st_mtime_ns))
    return found


def stop_and_compare(name: str, folder: Path, kills: int, seed: int, number: int) -> dict[str, int]:
    """Stop the work at random moments, every other time while a file is written."""
    work = WORK[name]()
    undisturbed, disturbed = folder / "undisturbed", folder / "disturbed"
    for place in (undisturbed, disturbed):
        place.mkdir()
    with warnings.catch_warnings(action="ignore"):
        if work.warm_up_in_fork:
            assert stopped_run(lambda: work.run(undisturbed), undisturbed).complete
        else:
            work.run(undisturbed)
    shutil.rmtree(undisturbed)
    undisturbed.mkdir()
    begin = time.perf_counter()
    assert stopped_run(lambda: work.run(undisturbed), undisturbed).complete
    seconds, expected = time.perf_counter() - begin, work.result(undisturbed)
    rng = np.random.default_rng(seed)
    done = {"stopped": 0, "while writing": 0}
    for attempt in count():
        waits = work.writes_beside and attempt % 2 == 1
        moment = seconds * rng.uniform() ** 2 if done["stopped"] < kills else None
        ended = stopped_run(lambda: work.run(disturbed), disturbed, moment, waits, number)
        work.check(disturbed)
        if number == signal.SIGINT:
            assert not temporary_files(disturbed)
        if not ended.complete:
            done["stopped"] += 1
            done["while writing"] += ended.while_writing
            continue
        assert work.result(disturbed) == expected, "another result"
        assert not temporary_files(disturbed)
        if moment is None:
            break
        shutil.rmtree(disturbed)
        disturbed.mkdir()
    return done


if __name__ == "__main__":
    name, folder, *rest = sys.argv[1:]
    print(json.dumps(stop_and_compare(name, Path(folder), *map(int, rest))))
