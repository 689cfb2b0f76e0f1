"""Train on several labels per example, some of them missing, for their mean AP.

python examples/torch/multi_label.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from apmax import average_precision
from apmax.torch import APLoss, IndexedDataset, MultiLabelBatchSampler

NAMES = ("toxic", "active", "soluble")


def make_data(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 12, generator=generator)
    mixing = torch.randn(12, len(NAMES), generator=torch.Generator().manual_seed(9))
    noise = 3.0 * torch.randn(n, len(NAMES), generator=generator)
    return X, (X @ mixing + noise > 6.0).float()


def train(epochs: int = 20) -> dict[str, float]:
    X, labels = make_data(4000, seed=0)
    X_test, y_test = make_data(4000, seed=1)
    unknown = torch.rand(labels.shape, generator=torch.Generator().manual_seed(2)) < 0.2
    labels[unknown] = float("nan")  # or -1

    torch.manual_seed(0)
    model = nn.Linear(12, len(NAMES))
    loss = APLoss(labels, from_logits=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    sampler = MultiLabelBatchSampler(labels, 128, labels_per_batch=3, positives_per_label=8)
    loader = DataLoader(IndexedDataset(TensorDataset(X, labels)), batch_sampler=sampler)
    for _ in range(epochs):
        for x, label, index in loader:
            optimizer.zero_grad()
            loss(model(x), index, label).backward()
            optimizer.step()
    print("tracked AP", [round(ap, 3) for ap in loss.average_precision_per_label().tolist()])
    with torch.no_grad():
        scores = model(X_test)
    return {name: average_precision(y_test[:, k], scores[:, k]) for k, name in enumerate(NAMES)}


if __name__ == "__main__":
    for name, ap in train().items():
        print(f"{name}: test AP {ap:.3f}")
