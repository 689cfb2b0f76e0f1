"""
Images: fine-tune a network for AP
==================================

A small convolutional network finds the digit 8. It is trained with cross-entropy first; then three
ways to continue are compared on validation data: cross-entropy, `APLoss`, and `ExactAPHead`, which
fits the last layer exactly. Keep the best, which may well be cross-entropy.
"""

# %%
# Digits of scikit-learn with few eights left.
import copy

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from apmax import average_precision
from apmax.torch import APLoss, ExactAPHead, IndexedDataset, PositiveNegativeBatchSampler

torch.manual_seed(0)
torch.set_num_threads(1)
images, digits = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
kept = rng.permutation(np.flatnonzero((digits != 8) | (rng.random(digits.size) < 0.5)))
X = torch.tensor(images[kept] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
y = torch.tensor(digits[kept] == 8)
train, valid, test = slice(0, 700), slice(700, 1200), slice(1200, None)
print(f"{int(y[train].sum())} eights among {len(y[train])} training images")


def validation_ap(net: nn.Module, part: slice = valid) -> float:
    """Return the AP of a network on some of the images."""
    with torch.no_grad():
        return average_precision(y[part], net.eval()(X[part])[:, 0])


# %%
# Batches with a quarter of positives; `index` tells the loss which training images they are.
sampler = PositiveNegativeBatchSampler(y[train], batch_size=32, positives_per_batch=8)
data = IndexedDataset(TensorDataset(X[train], y[train]))
loader = DataLoader(data, batch_sampler=sampler)


def epochs(net: nn.Module, loss: nn.Module, count: int, lr: float) -> list[float]:
    """Train, and return the validation AP after each epoch."""
    optimizer, curve = torch.optim.Adam(net.parameters(), lr=lr), []
    for _ in range(count):
        net.train()
        for x, label, index in loader:
            optimizer.zero_grad()
            logits = net(x)[:, 0]
            if isinstance(loss, APLoss):
                loss(logits, index, labels=label).backward()
            else:
                loss(logits, label.float()).backward()
            optimizer.step()
        curve.append(validation_ap(net))
    return curve


start = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 16), nn.ReLU(),
    nn.Linear(16, 1),
)  # fmt: skip
before = epochs(start, nn.BCEWithLogitsLoss(), 4, lr=3e-3)

# %%
# Three ways to continue from the same weights.
losses = {
    "cross-entropy": nn.BCEWithLogitsLoss(),
    "APLoss": APLoss(y[train], from_logits=True),
}
networks = {name: copy.deepcopy(start) for name in losses}
curves = {name: epochs(networks[name], loss, 8, lr=1e-3) for name, loss in losses.items()}
networks["exact head"] = copy.deepcopy(start)
plain = DataLoader(TensorDataset(X[train], y[train].float()), batch_size=256)
fit = ExactAPHead().fit(networks["exact head"], plain)
for name, curve in curves.items():
    plt.plot(range(4, 13), [before[-1], *curve], label=name)
plt.plot(range(1, 5), before, color="0.5", label="cross-entropy before")
plt.axhline(validation_ap(networks["exact head"]), linestyle=":", color="C2", label="exact head")
plt.xlabel("epoch")
plt.ylabel("validation AP")
plt.legend()
plt.show()

# %%
# Choose on validation data, report on test data.
for name, net in networks.items():
    print(
        f"{name:<14} validation AP {validation_ap(net):.3f}, test AP {validation_ap(net, test):.3f}"
    )
best = max(networks, key=lambda name: validation_ap(networks[name]))
print(f"chosen: {best}")
