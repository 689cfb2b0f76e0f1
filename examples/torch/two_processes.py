"""Train on several processes; torchrun restarts a process that dies, and training resumes.

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    torchrun --nproc-per-node 2 --max-restarts 3 examples/torch/two_processes.py [FOLDER]

The first line is needed for restarts, because of pytorch issue 135712.

Each rank passes its own part of the batch. The loss gathers all parts, and the updates equal
those of one process with the whole batch.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from apmax.torch import ADAP, APLoss, PositiveNegativeBatchSampler

STEPS, EVERY = 50, 5
BATCH, POSITIVES = 32, 8  # over all ranks; for 1, 2, 4 or 8 ranks


def main(folder: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(1007, 10, dtype=torch.float64, generator=generator)
    y = X[:, 0] + 0.5 * torch.randn(1007, generator=generator) > 1.8
    loss = APLoss(y, from_logits=True).double()  # may be created before init_process_group

    dist.init_process_group("gloo")  # "nccl" on GPUs, with model and loss on cuda
    train(folder, X, y, loss)
    dist.barrier()  # wait for the slower rank
    dist.destroy_process_group()


def train(folder: Path, X: Tensor, y: Tensor, loss: APLoss, steps: int = STEPS) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1)).double()
    model = DistributedDataParallel(network)
    optimizer = ADAP(model.parameters(), lr=0.05)
    sampler = PositiveNegativeBatchSampler(
        y, BATCH // ranks, POSITIVES // ranks, num_replicas=ranks, rank=rank
    )
    parts = {"model": network, "loss": loss, "optimizer": optimizer, "sampler": sampler}

    step, path = 0, folder / "checkpoint.pt"
    if path.exists():
        saved = torch.load(path, weights_only=True)
        step = saved["step"]
        for name, part in parts.items():
            part.load_state_dict(saved[name])  # type: ignore[attr-defined]

    while step < steps:
        for batch in sampler:
            index = torch.tensor(batch)
            optimizer.zero_grad()
            loss(model(X[index])[:, 0], index, y[index]).backward()
            optimizer.step()
            step += 1
            after_step(step)
            if rank == 0 and (step % EVERY == 0 or step == steps):
                states = {name: part.state_dict() for name, part in parts.items()}  # type: ignore[attr-defined]
                torch.save({"step": step, **states}, path.with_suffix(".part"))
                os.replace(path.with_suffix(".part"), path)
            if step == steps:
                break
    print(f"rank {rank}: tracked AP {loss.average_precision():.6f}")


def after_step(step: int) -> None:
    """Place for logging; a test kills a process here."""


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "two-processes-run")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
