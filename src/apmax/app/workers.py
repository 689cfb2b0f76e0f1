"""Processes that share the fits; they end with the command, and Ctrl-C reaches only the command."""

from __future__ import annotations

import multiprocessing.resource_tracker
import os
import signal
import threading
import time
from functools import cache

from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals import loky
from joblib.parallel import LokyBackend, get_active_backend

SECONDS = 0.5
"""Time between two looks at the command."""
ROUNDS = 50
"""Maximum number of rounds of tasks that are sent to reach every process."""


def start_workers(jobs: int) -> None:
    """Start the processes of joblib, ready for fits, with SIGINT blocked, a state that they keep.

    A terminal sends Ctrl-C to all processes. A worker that it ends in the middle of a fit would end
    the command with an error, before the models that are complete can be kept.
    """
    count, backend = effective_n_jobs(jobs), get_active_backend()[0]
    if count == 1 or not hasattr(signal, "pthread_sigmask"):  # not on Windows
        return
    if not isinstance(backend, LokyBackend):  # threads of this process, or workers of a cluster
        return
    for tracker in (multiprocessing.resource_tracker, loky.backend.resource_tracker):
        tracker.ensure_running()  # starting it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        reached: set[int] = set()
        for _ in range(ROUNDS):
            calls = [delayed(_begin)(os.getpid()) for _ in range(2 * count)]
            reached.update(Parallel(n_jobs=jobs)(calls))
            if len(reached) >= count:
                break
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop_workers() -> None:
    """End the processes of joblib at once; without the command they would wait for minutes."""
    executor = loky.reusable_executor._executor
    for process in list((getattr(executor, "_processes", None) or {}).values()):
        process.terminate()


@cache  # one thread for each worker
def end_with(owner: int) -> None:
    """End this worker when its owner is killed; joblib would keep it for five minutes."""

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _begin(owner: int) -> int:
    end_with(owner)
    from apmax.tabular import search  # noqa: F401 -- the first fit should not wait for imports
    from apmax.tabular.library import has_lightgbm

    if has_lightgbm():
        import lightgbm  # noqa: F401
    time.sleep(0.01)  # so that the other processes take tasks as well
    return os.getpid()
