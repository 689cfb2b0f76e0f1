"""Replace the last layer of a trained network by the exact full-batch fit.

python examples/torch/exact_head.py
"""

import copy

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from apmax import average_precision
from apmax.torch import ExactAPHead


def make_data(n: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 20, generator=generator)
    noise = 0.5 * torch.randn(n, generator=generator)
    return X, torch.maximum(X[:, 0] + X[:, 1], 1.5 * X[:, 2]) + noise > 3.2


def main() -> dict[str, float]:
    X, y = make_data(6000, seed=2)
    X_test, y_test = make_data(20_000, seed=3)
    torch.manual_seed(0)
    network = nn.Sequential(nn.BatchNorm1d(20), nn.Linear(20, 1))  # or any network
    loss, optimizer = nn.BCEWithLogitsLoss(), torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(15):
        for x, label in DataLoader(TensorDataset(X, y), batch_size=128, shuffle=True):
            optimizer.zero_grad()
            loss(network(x)[:, 0], label.float()).backward()
            optimizer.step()
    before = copy.deepcopy(network).eval()

    fit = ExactAPHead().fit(network, DataLoader(TensorDataset(X, y), batch_size=1024))

    print(f"layer {fit.layer}: cross-validated gain {fit.gains[0]:+.4f} ± {fit.errors[0]:.4f}")
    network.eval()
    with torch.no_grad():
        return {
            "cross-entropy": average_precision(y_test, before(X_test)[:, 0]),
            "with ExactAPHead": average_precision(y_test, network(X_test)[:, 0]),
        }


if __name__ == "__main__":
    for name, ap in main().items():
        print(f"{name}: test AP {ap:.3f}")
