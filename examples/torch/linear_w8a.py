"""Train a linear model on w8a (300 binary features, 3 % positives) with SOAP in PyTorch.

    python examples/torch/linear_w8a.py FOLDER_WITH_w8a_AND_w8a.t

The files are on the LIBSVM data page; compressed files (.xz) are read as well. For linear models
``apmax.APClassifier`` is faster.
"""

import lzma
import sys
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_svmlight_file
from torch import nn

from apmax import average_precision
from apmax.torch import PositiveNegativeBatchSampler, from_table


def load(folder: Path, name: str) -> tuple[torch.Tensor, Any]:
    packed = folder / f"{name}.xz"
    with lzma.open(packed) if packed.exists() else (folder / name).open("rb") as file:
        X, y = load_svmlight_file(file, n_features=300)
    return torch.from_numpy(X.toarray()).float(), y > 0


def train(folder: Path, method: str = "soap-adam", epochs: int = 4) -> float:
    X, y = load(folder, "w8a")
    X_test, y_test = load(folder, "w8a.t")
    torch.manual_seed(0)
    model = nn.Linear(300, 1)
    nn.init.zeros_(model.weight)
    loss, optimizer = from_table(method, y, model.parameters(), lr=0.01, beta2=0.01, penalty=1e-5)
    sampler = PositiveNegativeBatchSampler(y, batch_size=128, positives_per_batch=32)
    for _ in range(epochs):
        for batch in sampler:
            index = torch.tensor(batch)
            optimizer.zero_grad()
            loss(torch.sigmoid(model(X[index])[:, 0]), index, y[index]).backward()
            optimizer.step()
    with torch.no_grad():
        return average_precision(y_test, model(X_test)[:, 0])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("pass the folder of w8a and w8a.t: python examples/torch/linear_w8a.py FOLDER")
    print(f"test AP {train(Path(sys.argv[1])):.3f}")
