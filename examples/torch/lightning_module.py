"""Train with Lightning; every checkpoint includes the loss and the sampler.

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
    def __init__(self, X: Tensor, y: Tensor, workers: int = 0) -> None:
        super().__init__()
        self.workers = workers
        self.network = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
        self.loss = APLoss(y, from_logits=True)  # a submodule: its state is in the checkpoint
        self.data = IndexedDataset(TensorDataset(X, y))
        self.sampler = PositiveNegativeBatchSampler(y, batch_size=64, positives_per_batch=16)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x)[:, 0]
        return logits

    def train_dataloader(self) -> Any:
        return DataLoader(self.data, batch_sampler=self.sampler, num_workers=self.workers)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y, index = batch
        value: Tensor = self.loss(self(x), index, y)
        return value

    def on_train_epoch_end(self) -> None:
        self.log("train_ap", self.loss.average_precision(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return ADAP(self.parameters(), lr=0.02)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # workers of a DataLoader draw batches before training uses them
        progress: Any = self.trainer.fit_loop.epoch_loop.batch_progress
        done = progress.current.processed
        checkpoint["sampler"] = self.sampler.state_dict(batches_done=done)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        saved = checkpoint["sampler"]
        if saved["data"] == self.sampler.state_dict()["data"]:  # otherwise this is other data
            self.sampler.load_state_dict(saved)


def train(
    epochs: int = 5, resume: str | None = None, workers: int = 0, **options: Any
) -> tuple[APModule, float]:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(4000, 10, generator=generator)
    y = X[:, 0] * X[:, 1] + 0.3 * torch.randn(4000, generator=generator) > 1.8
    torch.manual_seed(0)
    module = APModule(X[:2000], y[:2000], workers)
    trainer = L.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        use_distributed_sampler=False,  # the sampler has num_replicas and rank
        **options,
    )
    trainer.fit(module, ckpt_path=resume)
    with torch.no_grad():
        return module, average_precision(y[2000:], module(X[2000:]))


if __name__ == "__main__":
    module, test_ap = train(enable_checkpointing=False)
    print(f"tracked AP {module.loss.average_precision():.3f}, test AP {test_ap:.3f}")
