"""Train for average precision in a plain loop, compared with cross-entropy for as many epochs.

    python examples/torch/plain_loop.py

The model is deliberately too simple for the data, so that the loss decides which errors it
makes. A network that can fit all examples gains little from another loss.
"""

import copy

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from apmax import average_precision
from apmax.torch import APLoss, IndexedDataset, PositiveNegativeBatchSampler

EPOCHS = 20


def make_data(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Twenty features and 4 % positives, which have one of two causes."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 20, generator=generator)
    noise = 0.5 * torch.randn(n, generator=generator)
    return X, torch.maximum(X[:, 0] + X[:, 1], 1.5 * X[:, 2]) + noise > 3.2


def train_cross_entropy(model: nn.Module, X: Tensor, y: Tensor) -> None:
    loss = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(EPOCHS):
        for x, label in DataLoader(TensorDataset(X, y), batch_size=128, shuffle=True):
            optimizer.zero_grad()
            loss(model(x)[:, 0], label.float()).backward()
            optimizer.step()


def train_average_precision(model: nn.Module, X: Tensor, y: Tensor) -> None:
    """Three things differ: the sampler, the index, and a loss that has the labels."""
    data = IndexedDataset(TensorDataset(X, y))
    sampler = PositiveNegativeBatchSampler(y, batch_size=128, positives_per_batch=32)
    loss = APLoss(y, from_logits=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for epoch in range(EPOCHS):
        for x, label, index in DataLoader(data, batch_sampler=sampler):
            optimizer.zero_grad()
            loss(model(x)[:, 0], index, label).backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: tracked AP {loss.average_precision():.3f}")


def main(seed: int = 0) -> dict[str, float]:
    X, y = make_data(6000, seed=2 * seed)
    X_test, y_test = make_data(20_000, seed=2 * seed + 1)
    torch.manual_seed(seed)
    model = nn.Linear(20, 1)
    train_cross_entropy(model, X, y)  # both continue from here
    longer, sharper = copy.deepcopy(model), copy.deepcopy(model)
    train_cross_entropy(longer, X, y)
    train_average_precision(sharper, X, y)
    with torch.no_grad():
        return {
            name: average_precision(y_test, trained(X_test)[:, 0])
            for name, trained in (("cross-entropy", longer), ("average precision", sharper))
        }


if __name__ == "__main__":
    for name, ap in main().items():
        print(f"test AP, second half of training by {name}: {ap:.3f}")
