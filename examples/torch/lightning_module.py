"""The same in Lightning: the loss is part of the module, so its state is in every checkpoint.

python examples/torch/lightning_module.py
"""

from typing import Any

import lightning as L
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from apmax import average_precision
from apmax.torch import ADAP, APLoss, IndexedDataset, PositiveNegativeBatchSampler


class APModule(L.LightningModule):
    def __init__(self, labels: Tensor) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
        self.loss = APLoss(labels)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.network(x)[:, 0])

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, index = batch
        value: Tensor = self.loss(self(x), index)
        return value

    def on_train_epoch_end(self) -> None:
        self.log("train_ap", self.loss.average_precision(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return ADAP(self.parameters(), lr=0.02)


def train(epochs: int = 5, **options: Any) -> tuple[APModule, float]:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(4000, 10, generator=generator)
    y = X[:, 0] * X[:, 1] + 0.3 * torch.randn(4000, generator=generator) > 1.8
    half = slice(0, 2000)
    loader = DataLoader(
        IndexedDataset(TensorDataset(X[half])),
        batch_sampler=PositiveNegativeBatchSampler(y[half], batch_size=64, positives_per_batch=16),
    )
    torch.manual_seed(0)
    module = APModule(y[half])
    trainer = L.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, use_distributed_sampler=False, **options
    )
    trainer.fit(module, loader)
    with torch.no_grad():
        return module, average_precision(y[2000:], module(X[2000:]))


if __name__ == "__main__":
    module, test_ap = train()
    print(f"AP tracked {module.loss.average_precision():.3f}, test AP {test_ap:.3f}")
