"""Processes that share the fits, started so that Ctrl-C reaches only the command itself."""

from __future__ import annotations

import multiprocessing.resource_tracker
import signal

from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals import loky


def start_workers(jobs: int) -> None:
    """Start the processes of joblib with SIGINT blocked, a state that they keep.

    A terminal sends Ctrl-C to all processes. A worker that it ends in the middle of a fit would end
    the command with an error, before the models that are complete can be kept.
    """
    count = effective_n_jobs(jobs)
    if count == 1 or not hasattr(signal, "pthread_sigmask"):  # not on Windows
        return
    for tracker in (multiprocessing.resource_tracker, loky.backend.resource_tracker):
        tracker.ensure_running()  # starting it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        Parallel(n_jobs=jobs)(delayed(int)() for _ in range(2 * count))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop_workers() -> None:
    """End the processes of joblib at once; without the command they would wait for minutes."""
    executor = loky.reusable_executor._executor
    for process in list((getattr(executor, "_processes", None) or {}).values()):
        process.terminate()
