"""
APLoss with several labels
==========================

Rows can have several labels, some of them rare and some unknown. `APLoss` takes a matrix of labels
and trains the mean of their APs; `MultiLabelBatchSampler` puts positives of several labels into
every batch. Cross-entropy on the same batches is the baseline; on these data it ranks as well.
"""

# %%
# Four labels with 2 to 20 % positives; a fifth of the labels are missing.
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

from apmax import average_precision
from apmax.torch import APLoss, IndexedDataset, MultiLabelBatchSampler

names, shares = ("toxic", "spam", "off-topic", "duplicate"), (0.02, 0.04, 0.1, 0.2)
generator = torch.Generator().manual_seed(0)
mixing = torch.randn(12, 4, generator=generator)
X = torch.randn(8_000, 12, generator=generator)
strength = X @ mixing + 2.0 * torch.randn(8_000, 4, generator=generator)
limits = torch.stack([strength[:, k].quantile(1 - share) for k, share in enumerate(shares)])
truth = (strength > limits).float()
labels = truth[:4_000].clone()
labels[torch.rand(labels.shape, generator=generator) < 0.2] = float("nan")

# %%
# Train a model for AP and one with cross-entropy; follow the AP of each label on held-out rows.
sampler = MultiLabelBatchSampler(labels, batch_size=128)
data = IndexedDataset(TensorDataset(X[:4_000], labels))
loader = DataLoader(data, batch_sampler=sampler)


def cross_entropy(logits: Tensor, index: Tensor, label: Tensor) -> Tensor:
    """Return the mean over the known labels."""
    known = ~label.isnan()
    return binary_cross_entropy_with_logits(logits[known], label[known])


def train(loss: Callable[..., Any]) -> np.ndarray:
    """Return the held-out AP of each label, before training and after each epoch."""
    torch.manual_seed(0)
    net = torch.nn.Linear(12, 4)
    optimizer, curve = torch.optim.Adam(net.parameters(), lr=0.03), [held_out(net)]
    for _ in range(10):
        for x, label, index in loader:
            optimizer.zero_grad()
            loss(net(x), index, label).backward()
            optimizer.step()
        curve.append(held_out(net))
    return np.array(curve)


def held_out(net: torch.nn.Module) -> list[float]:
    """Return the AP of each label on the second half of the rows."""
    with torch.no_grad():
        scores = net(X[4_000:])
    return [average_precision(truth[4_000:, k], scores[:, k]) for k in range(4)]


curves = {"APLoss": train(APLoss(labels, from_logits=True)), "cross-entropy": train(cross_entropy)}

# %%
# Rare labels have a lower AP even if they are ranked as well: compare with the dotted lines.
for k, name in enumerate(names):
    plt.plot(curves["APLoss"][:, k], color=f"C{k}", label=name)
    plt.plot(curves["cross-entropy"][:, k], "--", color=f"C{k}")
    plt.axhline(shares[k], linestyle=":", color=f"C{k}")
plt.xlabel("epoch")
plt.ylabel("AP on held-out rows (dashed: cross-entropy)")
plt.legend()
plt.show()
for method, curve in curves.items():
    aps = ", ".join(f"{name} {ap:.3f}" for name, ap in zip(names, curve[-1], strict=True))
    print(f"{method}: {aps}; mean {curve[-1].mean():.3f}")
