"""
Several labels at once
======================

Rows can have several labels, some of them rare and some unknown. `APLoss` takes a matrix of labels
and trains the mean of their APs; `MultiLabelBatchSampler` puts positives of several labels into
every batch.
"""

# %%
# Four labels with 2 to 20 % positives; a fifth of the labels are missing.
import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from apmax import average_precision
from apmax.torch import ADAP, APLoss, IndexedDataset, MultiLabelBatchSampler

names, shares = ("toxic", "spam", "off-topic", "duplicate"), (0.02, 0.04, 0.1, 0.2)
generator = torch.Generator().manual_seed(0)
torch.manual_seed(0)
mixing = torch.randn(12, 4, generator=generator)
X = torch.randn(8_000, 12, generator=generator)
strength = X @ mixing + 2.0 * torch.randn(8_000, 4, generator=generator)
limits = torch.stack([strength[:, k].quantile(1 - share) for k, share in enumerate(shares)])
truth = (strength > limits).float()
labels = truth[:4_000].clone()
labels[torch.rand(labels.shape, generator=generator) < 0.2] = float("nan")

# %%
# Train, and follow the AP of each label on held-out rows.
net = torch.nn.Linear(12, 4)
loss, optimizer = APLoss(labels, from_logits=True), ADAP(net.parameters(), lr=0.03)
sampler = MultiLabelBatchSampler(labels, batch_size=128)
loader = DataLoader(IndexedDataset(TensorDataset(X[:4_000])), batch_sampler=sampler)


def held_out() -> list[float]:
    """Return the AP of each label on the second half of the rows."""
    with torch.no_grad():
        scores = net(X[4_000:])
    return [average_precision(truth[4_000:, k], scores[:, k]) for k in range(4)]


curve = [held_out()]
for _ in range(10):
    for x, index in loader:
        optimizer.zero_grad()
        loss(net(x), index).backward()
        optimizer.step()
    curve.append(held_out())

# %%
# Rare labels have a lower AP even if they are ranked as well: compare with the dotted lines.
for k, name in enumerate(names):
    plt.plot(np.array(curve)[:, k], label=name)
    plt.axhline(shares[k], linestyle=":", color=f"C{k}")
plt.xlabel("epoch")
plt.ylabel("AP on held-out rows")
plt.legend()
plt.show()
for name, ap in zip(names, curve[-1], strict=True):
    print(f"{name:<10} AP {ap:.3f}")
print(f"mean AP {np.mean(curve[-1]):.3f}")
