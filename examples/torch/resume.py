"""Train with checkpoints: an interrupted run resumes with bit-identical results.

python examples/torch/resume.py [FOLDER]
"""

import os
import sys
from pathlib import Path

import torch
from torch import nn

from apmax.torch import ADAP, APLoss, PositiveNegativeBatchSampler

STEPS, EVERY = 300, 10


def save(parts: dict[str, object], path: Path) -> None:
    """Write to a temporary file and rename it, so that a checkpoint is always complete."""
    temporary = path.with_suffix(".part")
    try:
        torch.save(parts, temporary)
        os.replace(temporary, path)
    finally:  # after Ctrl-C
        temporary.unlink(missing_ok=True)


def train(folder: Path, steps: int = STEPS) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(3000, 10, generator=generator)
    y = X[:, 0] + 0.5 * torch.randn(3000, generator=generator) > 2.0

    torch.manual_seed(0)
    model = nn.Linear(10, 1)
    loss = APLoss(y, from_logits=True)
    optimizer = ADAP(model.parameters(), lr=0.1)
    sampler = PositiveNegativeBatchSampler(y, batch_size=64, positives_per_batch=16)
    parts = {"model": model, "loss": loss, "optimizer": optimizer, "sampler": sampler}

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
            if step % EVERY == 0 or step == steps:
                states = {name: part.state_dict() for name, part in parts.items()}  # type: ignore[attr-defined]
                save({"step": step, **states}, path)
            if step == steps:
                break
    print(f"tracked AP after {step} steps: {loss.average_precision():.3f}")
    return model


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "resume-run")
    folder.mkdir(parents=True, exist_ok=True)
    train(folder)
