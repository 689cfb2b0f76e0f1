"""Rank molecules by activity against HIV (3.5 % active): ADAP after cross-entropy.

    python examples/torch/molecules.py hiv_ecfp4_1024.npz

The file holds the 41,127 molecules of MoleculeNet's HIV set: Morgan fingerprints of radius 2 and
1024 bits (by RDKit) as CSR (indptr, indices), y of shape (n, 1), and the scaffold split: 0 to
train, 1 to choose the epoch, 2 to test. Test molecules have scaffolds that training does not.
The baseline is cross-entropy for as many epochs.
"""

import copy
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from apmax import average_precision
from apmax.torch import ADAP, APLoss, PositiveNegativeBatchSampler

BATCH, POSITIVES = 256, 64


class Molecules(NamedTuple):
    X: Tensor
    y: Tensor


def load(path: Path) -> list[Molecules]:
    with np.load(path, allow_pickle=False) as data:
        shape = (data["indptr"].size - 1, 1024)
        bits = (np.ones(data["indices"].size, np.float32), data["indices"], data["indptr"])
        X = sp.csr_matrix(bits, shape=shape)
        y, split = data["y"][:, 0] == 1, data["scaffold_split"]
    return [
        Molecules(torch.from_numpy(X[split == k].toarray()), torch.from_numpy(y[split == k]))
        for k in range(3)
    ]


def ap_of(model: nn.Module, part: Molecules) -> float:
    model.eval()
    with torch.no_grad():
        return average_precision(part.y.numpy(), model(part.X)[:, 0].numpy())


def best_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[Tensor], Tensor],
    parts: list[Molecules],
    epochs: int,
) -> nn.Module:
    """Train with a loss of positions in the training set; keep the epoch of best validation AP."""
    train, validation, _ = parts
    sampler = PositiveNegativeBatchSampler(train.y, BATCH, POSITIVES)
    best, kept = -1.0, model
    for _ in range(epochs):
        model.train()
        for batch in sampler:
            optimizer.zero_grad()
            loss(torch.tensor(batch)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        ap = ap_of(model, validation)
        if ap > best:
            best, kept = ap, copy.deepcopy(model)
    return kept


def by_cross_entropy(model: nn.Module, parts: list[Molecules], epochs: int, lr: float) -> nn.Module:
    X, y = parts[0]
    entropy = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def loss(index: Tensor) -> Tensor:
        value: Tensor = entropy(model(X[index])[:, 0], y[index].float())
        return value

    return best_epoch(model, optimizer, loss, parts, epochs)


def by_adap(model: nn.Module, parts: list[Molecules], epochs: int, lr: float) -> nn.Module:
    X, y = parts[0]
    minus_ap = APLoss(y, surrogate="squared_hinge", gamma=0.5, schedule="constant")
    optimizer = ADAP(model.parameters(), lr=lr, schedule="constant")

    def loss(index: Tensor) -> Tensor:
        value: Tensor = minus_ap(torch.sigmoid(model(X[index])[:, 0]), index, y[index])
        return value

    return best_epoch(model, optimizer, loss, parts, epochs)


def main(path: Path, seeds: int = 5, epochs: int = 6) -> dict[str, list[float]]:
    parts = load(path)
    found: dict[str, list[float]] = {"cross-entropy": [], "ADAP": []}
    for seed in range(seeds):
        torch.manual_seed(seed)
        model: nn.Module = nn.Sequential(
            nn.Linear(1024, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 1)
        )
        model = by_cross_entropy(model, parts, epochs, lr=1e-3)  # both continue from here
        for name, train in (("cross-entropy", by_cross_entropy), ("ADAP", by_adap)):
            tried = [train(copy.deepcopy(model), parts, epochs, lr) for lr in (1e-4, 1e-3)]
            chosen = max([model, *tried], key=lambda one: ap_of(one, parts[1]))
            found[name].append(ap_of(chosen, parts[2]))
        print(f"seed {seed}: " + ", ".join(f"{n} {aps[-1]:.3f}" for n, aps in found.items()))
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    for name, aps in main(Path(sys.argv[1])).items():
        mean, spread = statistics.mean(aps), statistics.stdev(aps)
        print(f"test AP, second half by {name}: {mean:.3f} ± {spread:.3f}")
