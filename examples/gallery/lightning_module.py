"""
With Lightning
==============

The loss is a submodule, so its memory is part of every checkpoint, and the sampler is restored
beside it. Nothing else changes in a LightningModule.
"""

# %%
# The module: three lines are specific to AP.
import logging
import warnings
from typing import Any

import lightning as L
import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from apmax import average_precision
from apmax.torch import ADAP, APLoss, IndexedDataset, PositiveNegativeBatchSampler

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")


class Ranker(L.LightningModule):
    """A small network that is trained for AP."""

    def __init__(self, X: Tensor, y: Tensor, X_valid: Tensor, y_valid: Tensor) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
        self.loss = APLoss(y, from_logits=True)
        self.data = IndexedDataset(TensorDataset(X, y))
        self.sampler = PositiveNegativeBatchSampler(y, batch_size=64, positives_per_batch=16)
        self.valid, self.curve = (X_valid, y_valid), list[float]()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.network(x)[:, 0]
        return logits

    def train_dataloader(self) -> Any:
        """Return batches with positives."""
        return DataLoader(self.data, batch_sampler=self.sampler)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Return the loss of a batch."""
        x, label, index = batch
        value: Tensor = self.loss(self(x), index, labels=label)
        return value

    def on_train_epoch_end(self) -> None:
        """Follow the AP on held-out rows."""
        with torch.no_grad():
            self.curve.append(average_precision(self.valid[1], self(self.valid[0])))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer of the paper; any other works, too."""
        return ADAP(self.parameters(), lr=0.02)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Store the position in the pass over the data."""
        checkpoint["sampler"] = self.sampler.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore it."""
        self.sampler.load_state_dict(checkpoint["sampler"])


# %%
# Train on a problem that no linear model can solve.
generator = torch.Generator().manual_seed(0)
X = torch.randn(6_000, 10, generator=generator)
y = X[:, 0] * X[:, 1] + 0.3 * torch.randn(6_000, generator=generator) > 1.8
torch.manual_seed(0)
module = Ranker(X[:3_000], y[:3_000], X[3_000:], y[3_000:])
trainer = L.Trainer(
    max_epochs=6,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    use_distributed_sampler=False,
)
trainer.fit(module)
plt.plot(range(1, 7), module.curve, marker="o")
plt.axhline(float(y[3_000:].float().mean()), linestyle=":", color="0.5")
plt.xlabel("epoch")
plt.ylabel("AP on held-out rows")
plt.show()
print(f"AP {module.curve[-1]:.3f}, share of positives {y[3_000:].float().mean():.3f}")
