"""Start work in a process, kill it at random moments, start it again, and compare the results.

``python killing.py VICTIM FOLDER KILLS SEED`` prints one line of JSON. All is imported once;
each run of the work is a fork of that process, so that kills fall into the work and not into
imports. A victim writes into its folder; how is the product's business.
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

ROOT = Path(__file__).parents[2]


class Victim(NamedTuple):
    """Work to be killed: what it does, what must hold at any moment, what it ends with."""

    work: Callable[[Path], None]
    check: Callable[[Path], None]
    result: Callable[[Path], bytes]
    forks_warm: bool = True
    """Whether the process may have done the work before it forks."""

    def warm_up(self, folder: Path) -> None:
        """Do the work once, so that its kernels are compiled and loaded."""
        if self.forks_warm:
            self.work(folder)
        else:
            assert in_fork(lambda: self.work(folder))


def linear_fit() -> Victim:
    """A stochastic fit with early stopping that writes its checkpoint after every chunk."""
    from apmax import APClassifier
    from apmax.app.disk import write_aside
    from apmax.errors import CheckpointError
    from apmax.linear import checkpoint

    checkpoint.SECONDS, checkpoint.SHARE = 0.0, np.inf
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 5))
    y = X[:, 0] + rng.normal(size=40_000) > 0.2  # many positives: a large state
    options: dict[str, Any] = {"batch_size": 8, "early_stopping": True, "n_iter_no_change": 100}

    def work(folder: Path) -> None:
        model = APClassifier(
            "adap-adam", max_iter=6_000, random_state=1, checkpoint=folder / "state", **options
        ).fit(X, y)
        told = [model.coef_, model.intercept_, model.history_["validation_ap"]]
        write_aside(folder / "result", b"".join(array.tobytes() for array in told))

    def check(folder: Path) -> None:
        path = folder / "state" / checkpoint.FILE
        if path.exists():  # whole: it knows that it is of another fit, or that it has ended
            told = ""
            try:
                checkpoint._read(path, {"versions": "none"})
            except CheckpointError as error:
                told = str(error)
            assert not told or "another fit that has not come to its end" in told, told

    return Victim(work, check, lambda folder: (folder / "result").read_bytes())


def torch_training() -> Victim:
    """examples/torch/resume.py."""
    import torch

    from apmax.torch import APLoss

    torch.set_num_threads(1)
    loss, index = APLoss(torch.arange(9) > 5), torch.arange(9)
    loss(torch.rand(9), index)  # loads the kernels, and starts none of torch's threads
    example = runpy.run_path(str(ROOT / "examples" / "torch" / "resume.py"))

    def check(folder: Path) -> None:
        if (folder / "checkpoint.pt").exists():
            torch.load(folder / "checkpoint.pt", weights_only=True)

    def result(folder: Path) -> bytes:
        saved = torch.load(folder / "checkpoint.pt", weights_only=True)
        parts = [*saved["model"].values(), saved["loss"]["U"]]
        return b"".join(part.numpy().tobytes() for part in parts)

    work = lambda folder: example["train"](folder, 100)  # noqa: E731
    return Victim(work, check, result, forks_warm=False)  # torch's threads do not fork


def one_cell(method: str, repeat: int) -> list[list[float]]:
    """Training and test AP of a few settings of the paper's protocol, on small data."""
    from apmax.app.data import PaperSet
    from apmax.methods import METHODS
    from experiments.protocol import ap_of, settings_of, train

    rng = np.random.default_rng(repeat)
    X = rng.random((2000, 8))
    y = X[:, 0] + 0.3 * rng.normal(size=2000) > 1.1
    data = PaperSet(X=X[::2], y=y[::2], X_test=X[1::2], y_test=y[1::2])
    aps = []
    for setting in settings_of(METHODS[method])[::10]:
        w = train(data, method, setting, repeat)
        aps.append([0.0 if w is None else ap_of(X[k::2], y[k::2], w) for k in (0, 1)])
    return aps


def paper_table() -> Victim:
    """What `apmax paper table3` does, with fewer settings."""
    from apmax.app.disk import write_aside
    from experiments.protocol import PAPER_METHODS
    from experiments.store import Store, Unit

    units = [Unit(one_cell, (method, repeat)) for method in PAPER_METHODS for repeat in range(3)]

    def work(folder: Path) -> None:
        found = {unit.name: result for unit, result in Store(folder).results(units, jobs=1)}
        write_aside(folder / "table.json", json.dumps(found, sort_keys=True).encode())

    def check(folder: Path) -> None:
        for path in folder.rglob("*.json"):
            json.loads(path.read_text())

    return Victim(work, check, lambda folder: (folder / "table.json").read_bytes())


def train_command() -> Victim:
    """`apmax train` over an older model; 40,000 features make a large model."""
    import scipy.sparse as sp

    from apmax.app.cli import app
    from apmax.app.pipeline.storage import load_model

    rng = np.random.default_rng(0)
    X = sp.random(300, 40_000, density=2e-4, format="csr", rng=rng)
    total = np.asarray(X[:, :20_000].sum(axis=1)).ravel()
    y = (total > np.quantile(total, 0.8)).astype(float)
    known: set[bytes] = set()

    def work(folder: Path) -> None:
        data = folder / "data.npz"
        if not data.exists():
            sp.save_npz(data.with_name("half.npz"), X)
            with np.load(data.with_name("half.npz")) as parts:
                arrays = {name: parts[name] for name in parts}
            np.savez(data.with_name("half.npz"), y=y, **arrays)
            os.replace(data.with_name("half.npz"), data)
        out, test = str(folder / "model"), ["--test", str(data)]
        arguments = ["--quiet", "train", str(data), *test, "--solver", "lbfgs", "--out", out]
        assert not app(arguments, standalone_mode=False)

    def check(folder: Path) -> None:
        if (folder / "model").exists():
            known.add(load_model(folder / "model").coef.tobytes())
            assert len(known) == 1, "half of a model, or another"

    return Victim(work, check, lambda folder: load_model(folder / "model").coef.tobytes())


VICTIMS = {
    "linear": linear_fit,
    "torch": torch_training,
    "paper": paper_table,
    "train": train_command,
}


def in_fork(
    work: Callable[[], None], kill_after: float | None = None, while_writing: Path | None = None
) -> bool:
    """Whether the work came to its end before it was killed.

    With a folder, it is killed when something is being written there next.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sys.stdout = sys.stderr
                work()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        while while_writing is not None and not left_aside(while_writing):
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), f"the work failed by itself: {code}"
    return code == 0


def left_aside(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*.part")]


def kill_and_compare(name: str, folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill the work so often, at random moments, every other time at the next writing."""
    victim = VICTIMS[name]()
    never, often = folder / "never", folder / "often"
    for place in (never, often):
        place.mkdir()
    with warnings.catch_warnings(action="ignore"):
        victim.warm_up(never)
    shutil.rmtree(never)
    never.mkdir()
    begin = time.perf_counter()
    assert in_fork(lambda: victim.work(never))
    whole = time.perf_counter() - begin
    expected = victim.result(never)
    rng = np.random.default_rng(seed)
    done = {"killed": 0, "while writing": 0, "ended": 0, "seconds": round(whole, 3)}
    while done["killed"] < kills:
        # Often early, so that many runs are needed, but over all of the work.
        before = left_aside(often)
        moment = whole * rng.uniform() ** 2
        in_writing = done["killed"] % 2 == 1 and not before
        ended = in_fork(lambda: victim.work(often), moment, often if in_writing else None)
        victim.check(often)
        if not ended:
            done["killed"] += 1
            done["while writing"] += left_aside(often) != before
            continue
        done["ended"] += 1
        assert victim.result(often) == expected, "another result after kills"
        assert left_aside(often) == [], "litter"
        shutil.rmtree(often)
        often.mkdir()
    assert in_fork(lambda: victim.work(often))
    victim.check(often)
    assert victim.result(often) == expected, "another result after kills"
    assert left_aside(often) == [], "litter"
    return {**done, "ended": done["ended"] + 1}


if __name__ == "__main__":
    name, folder, kills, seed = sys.argv[1:]
    print(json.dumps(kill_and_compare(name, Path(folder), int(kills), int(seed))))
