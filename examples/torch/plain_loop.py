"""Train a small network for average precision, in a plain loop.

python examples/torch/plain_loop.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from apmax import average_precision
from apmax.torch import ADAP, APLoss, IndexedDataset, PositiveNegativeBatchSampler


def make_data(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Twenty features, of which three matter; about 3 % of the examples are positive."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 20, generator=generator)
    noise = 0.7 * torch.randn(n, generator=generator)
    return X, X[:, 0] * X[:, 1] + X[:, 2] + noise > 3.0


def train(epochs: int = 15) -> dict[str, float]:
    X, y = make_data(6000, seed=0)
    X_test, y_test = make_data(6000, seed=1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))

    # Cross-entropy first: average precision is for the last mile.
    entropy = nn.BCEWithLogitsLoss()
    adam = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for x, label in DataLoader(TensorDataset(X, y), batch_size=128, shuffle=True):
            adam.zero_grad()
            entropy(model(x)[:, 0], label.float()).backward()
            adam.step()

    def test_ap() -> float:
        with torch.no_grad():
            return average_precision(y_test, model(X_test)[:, 0])

    result = {"cross-entropy": test_ap()}

    # Three things change: the sampler, the index, and the loss.
    data = IndexedDataset(TensorDataset(X))
    sampler = PositiveNegativeBatchSampler(y, batch_size=128, positives_per_batch=32)
    loss = APLoss(y)  # it knows the labels
    optimizer = ADAP(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        for x, index in DataLoader(data, batch_sampler=sampler):
            optimizer.zero_grad()
            loss(torch.sigmoid(model(x)[:, 0]), index).backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: AP tracked {loss.average_precision():.3f}, test {test_ap():.3f}")
    return result | {"average precision": test_ap()}


if __name__ == "__main__":
    for name, ap in train().items():
        print(f"test AP after {name}: {ap:.3f}")
