"""A stage on several processes of this machine (DDP), with progress told to the caller."""

from __future__ import annotations

import multiprocessing
import queue
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import ProcessRaisedException, start_processes

from apmax import errors
from apmax.errors import ApmaxError
from experiments.deep.stages import Machine, Stage
from experiments.deep.training import OnStep, read_result, train

PATIENCE = timedelta(minutes=10)
"""How long a rank waits for another before it gives up."""


def train_on_processes(
    stage: Stage, folder: Path, machine: Machine, on_step: OnStep | None = None
) -> dict[str, Any]:
    """As :func:`train`, every batch split between ``machine.processes`` ranks."""
    done = read_result(folder, stage)
    if done is not None:
        return done
    told = multiprocessing.get_context("spawn").Queue()
    with tempfile.TemporaryDirectory(prefix="apmax-") as meeting:
        address = f"file://{Path(meeting) / 'ranks'}"
        arguments = (machine.processes, address, stage, folder, machine, told)
        ranks = start_processes(  # type: ignore[no-untyped-call]
            _run_rank, arguments, machine.processes, join=False, start_method="spawn"
        )
        try:
            while not ranks.join(timeout=0.2):
                _pass_on(told, on_step)
        except ProcessRaisedException as error:
            raise _of_a_rank(error) from error
        _pass_on(told, on_step)
    result = read_result(folder, stage)
    if result is None:
        raise ApmaxError(
            f"the processes of {stage.name} ended without a result: run the command again, it goes "
            "on from the last epoch"
        )
    return result


def _run_rank(
    rank: int, ranks: int, address: str, stage: Stage, folder: Path, machine: Machine, told: Any
) -> None:
    backend = "nccl" if torch.device(machine.device).type == "cuda" else "gloo"
    dist.init_process_group(
        backend, init_method=address, rank=rank, world_size=ranks, timeout=PATIENCE
    )
    torch.set_num_threads(machine.threads or max(1, torch.get_num_threads() // ranks))
    tell = None if rank else (lambda *progress: told.put(progress))
    train(stage, folder, machine, on_step=tell)
    dist.barrier()  # leave together, and after the model has gone
    dist.destroy_process_group()


def _of_a_rank(error: ProcessRaisedException) -> Exception:
    """What a rank has raised, by the name that ends its traceback, if it is one of our errors."""
    last = str(error).strip().splitlines()[-1]
    name, _, message = last.partition(": ")
    kind = getattr(errors, name.rpartition(".")[2], None)
    if isinstance(kind, type) and issubclass(kind, ApmaxError):
        return kind(f"rank {error.error_index}: {message}")
    return error


def _pass_on(told: Any, on_step: OnStep | None) -> None:
    """The newest word from rank 0."""
    newest = None
    while True:
        try:
            newest = told.get_nowait()
        except queue.Empty:
            break
    if newest is not None and on_step is not None:
        on_step(*newest)
