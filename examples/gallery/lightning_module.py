"""
APLoss with Lightning
=====================

The loss is a submodule, so its state is part of every checkpoint, and two hooks store the sampler
beside it. A run that was interrupted resumes from the last checkpoint. For brevity there is no
training with cross-entropy first, which is [recommended](../torch.md#when-to-use-it).
"""

# %%
# The module. Specific to AP are loss, dataset, sampler, the index in `training_step`, and the hooks
# for checkpoints.
import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import lightning as L
import matplotlib.pyplot as plt
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from apmax import average_precision
from apmax.torch import APLoss, IndexedDataset, PositiveNegativeBatchSampler

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
        """Return any optimizer."""
        return torch.optim.Adam(self.parameters(), lr=0.01)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Store the batches used in this pass; workers of a DataLoader draw more in advance."""
        progress: Any = self.trainer.fit_loop.epoch_loop.batch_progress
        done = progress.current.processed
        checkpoint["sampler"] = self.sampler.state_dict(batches_done=done)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore it."""
        self.sampler.load_state_dict(checkpoint["sampler"])


# %%
# Train on a problem that no linear model can solve: three epochs, then three more from the
# checkpoint, as after a crash.
generator = torch.Generator().manual_seed(0)
X = torch.randn(6_000, 10, generator=generator)
y = X[:, 0] * X[:, 1] + 0.3 * torch.randn(6_000, generator=generator) > 1.8
temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)


def train(epochs: int, checkpoint: Path | None = None) -> list[float]:
    """Train up to this epoch, and return the AP on held-out rows after each."""
    torch.manual_seed(0)
    module = Ranker(X[:3_000], y[:3_000], X[3_000:], y[3_000:])
    trainer = L.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        callbacks=[ModelCheckpoint(folder, save_last=True)],
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    # With Lightning 2.6 or later, add weights_only=True: the checkpoint loads without running code.
    trainer.fit(module, ckpt_path=checkpoint)
    return module.curve


curve = train(3) + train(6, folder / "last.ckpt")
plt.plot(range(1, 7), curve, marker="o")
plt.axhline(float(y[3_000:].float().mean()), linestyle=":", color="0.5")
plt.xlabel("epoch")
plt.ylabel("AP on held-out rows")
plt.show()
print(f"AP {curve[-1]:.3f}, share of positives {y[3_000:].float().mean():.3f}")
temporary.cleanup()
