"""Train with PyTorch-Ignite; the checkpoint includes the loss and the sampler.

python examples/torch/ignite_engine.py     # needs pip install pytorch-ignite
"""

from typing import Any

import torch
from ignite.engine import Engine, Events
from ignite.handlers import Checkpoint, DiskSaver
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from apmax import average_precision
from apmax.torch import APLoss, IndexedDataset, PositiveNegativeBatchSampler


def train(epochs: int = 5, folder: str | None = None) -> float:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(4000, 10, generator=generator)
    y = X[:, 0] + 0.5 * torch.randn(4000, generator=generator) > 1.9
    torch.manual_seed(0)
    model = nn.Linear(10, 1)
    loss = APLoss(y[:2000], from_logits=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    sampler = PositiveNegativeBatchSampler(y[:2000], batch_size=64, positives_per_batch=16)
    data = IndexedDataset(TensorDataset(X[:2000], y[:2000]))

    def step(engine: Engine, batch: Any) -> float:
        x, label, index = batch
        optimizer.zero_grad()
        value = loss(model(x)[:, 0], index, label)
        value.backward()
        optimizer.step()
        return float(value.detach())

    trainer = Engine(step)

    def report(engine: Engine) -> None:
        print(f"epoch {engine.state.epoch}: tracked AP {loss.average_precision():.3f}")

    trainer.add_event_handler(Events.EPOCH_COMPLETED, report)
    if folder is not None:
        parts = {"model": model, "loss": loss, "optimizer": optimizer, "sampler": sampler}
        saver = Checkpoint(parts, DiskSaver(folder, require_empty=False), n_saved=1)
        trainer.add_event_handler(Events.EPOCH_COMPLETED, saver)
    trainer.run(DataLoader(data, batch_sampler=sampler), max_epochs=epochs)
    with torch.no_grad():
        return average_precision(y[2000:], model(X[2000:])[:, 0])


if __name__ == "__main__":
    print(f"test AP {train():.3f}")
