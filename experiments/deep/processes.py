"""Training of a stage on several processes of one machine (DistributedDataParallel)."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import ProcessRaisedException, spawn

from apmax.errors import ApmaxError
from experiments.deep.stages import Stage
from experiments.deep.trainer import Machine, train
from experiments.output import err

PATIENCE = timedelta(minutes=10)
"""How long a rank waits for another one."""


def train_on_processes(stage: Stage, folder: Path, machine: Machine) -> None:
    """Train a stage with every batch split between ``machine.processes`` ranks."""
    with tempfile.TemporaryDirectory(prefix="apmax-") as meeting:
        arguments = (f"file://{meeting}/ranks", stage, folder, machine, err.quiet)
        try:
            spawn(_run_rank, arguments, machine.processes)  # type: ignore[no-untyped-call]
        except ProcessRaisedException as error:
            reason = str(error).strip().splitlines()[-1]
            raise ApmaxError(f"rank {error.error_index} failed: {reason}") from error


def _run_rank(
    rank: int, address: str, stage: Stage, folder: Path, machine: Machine, quiet: bool
) -> None:
    err.quiet, ranks = quiet, machine.processes
    backend = "nccl" if torch.device(machine.device).type == "cuda" else "gloo"
    dist.init_process_group(
        backend, init_method=address, rank=rank, world_size=ranks, timeout=PATIENCE
    )
    torch.set_num_threads(machine.threads or max(1, torch.get_num_threads() // ranks))
    train(stage, folder, machine)
    dist.barrier()  # rank 0 has written the result
    dist.destroy_process_group()
