"""Held-out AP of networks trained with APLoss, by surrogate; ``make bench-surrogates``.

Eight epochs of cross-entropy, then eight more with each loss, from the same weights and with the
same number of steps. Figures are gains over continued cross-entropy on a held-out third of the
training data. Test sets are not used.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from apmax import average_precision
from apmax.torch import ADAP, APLoss, PositiveNegativeBatchSampler
from benchmarks.real_data import splits

NAMES = ("mammography", "letter", "ijcnn1", "a9a", "celeba", "w8a", "cover")
SEEDS, EPOCHS, BATCH, POSITIVES = 3, 8, 128, 32
MOST_ROWS = 15_000
SURROGATES = (
    ("squared_hinge", 0.1),
    ("squared_hinge", 0.5),
    ("logistic", 20.0),
    ("logistic", 40.0),
)
TRACKERS = ("randomized_coordinate", "moving_average")
OPTIMIZERS = ("ADAP", "Adam")
NETWORKS = ("linear", "two layers")


class StandardizedData(NamedTuple):
    """Standardized features, and labels."""

    X: Tensor
    y: Tensor


def parts_of(name: str, seed: int) -> tuple[StandardizedData, StandardizedData]:
    """Split the training set into two thirds to train and a held-out third."""
    split = next(iter(splits(name, seeds=1)))
    X = split.X.toarray() if sp.issparse(split.X) else split.X
    learnt, held = train_test_split(
        np.arange(split.y.size), test_size=1 / 3, stratify=split.y, random_state=seed
    )
    if learnt.size > MOST_ROWS:
        learnt, _ = train_test_split(
            learnt, train_size=MOST_ROWS, stratify=split.y[learnt], random_state=seed
        )
    deviation = X[learnt].std(axis=0)
    X = np.clip((X - X[learnt].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), -8, 8)
    X, y = torch.from_numpy(X).float(), torch.from_numpy(np.asarray(split.y))
    train, test = (StandardizedData(X[rows], y[rows]) for rows in (learnt, held))
    return train, test


def network(kind: str, features: int) -> nn.Module:
    if kind == "linear":
        return nn.Linear(features, 1)
    hidden = [nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(32, 1))


def train_cross_entropy(model: nn.Module, part: StandardizedData) -> None:
    loss, optimizer = nn.BCEWithLogitsLoss(), torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(EPOCHS):
        order = torch.randperm(part.y.numel())
        for start in range(0, order.numel(), BATCH):
            index = order[start : start + BATCH]
            optimizer.zero_grad()
            loss(model(part.X[index])[:, 0], part.y[index].float()).backward()
            optimizer.step()


def train_average_precision(
    model: nn.Module, part: StandardizedData, optimizer_name: str, **options: Any
) -> None:
    optimizer: torch.optim.Optimizer = (
        ADAP(model.parameters(), lr=0.01)
        if optimizer_name == "ADAP"
        else torch.optim.Adam(model.parameters(), lr=1e-3)
    )
    loss = APLoss(part.y, **options)
    steps = EPOCHS * -(-part.y.numel() // BATCH)
    for index in islice(_batches(part.y), steps):
        optimizer.zero_grad()
        loss(torch.sigmoid(model(part.X[index])[:, 0]), index).backward()
        optimizer.step()


def _batches(y: Tensor) -> Iterator[Tensor]:
    positives = min(POSITIVES, int(y.sum()))
    generator = torch.Generator().manual_seed(0)
    sampler = PositiveNegativeBatchSampler(y, BATCH, positives, generator=generator)
    while True:
        for batch in sampler:
            yield torch.as_tensor(batch)


def ap_of(model: nn.Module, part: StandardizedData) -> float:
    with torch.no_grad():
        return average_precision(part.y.numpy(), model(part.X)[:, 0].numpy())


def gains(name: str, kind: str) -> dict[tuple[Any, ...], float]:
    """Mean gain over the seeds of each configuration against continued cross-entropy."""
    found: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for seed in range(SEEDS):
        learnt, held = parts_of(name, seed)
        torch.manual_seed(seed)
        start = network(kind, learnt.X.shape[1])
        train_cross_entropy(start, learnt)
        longer = copy.deepcopy(start)
        train_cross_entropy(longer, learnt)
        standard = ap_of(longer, held)
        for (surrogate, gamma), tracker, optimizer in product(SURROGATES, TRACKERS, OPTIMIZERS):
            model = copy.deepcopy(start)
            options = {"surrogate": surrogate, "gamma": gamma, "tracker": tracker}
            train_average_precision(model, learnt, optimizer, **options)
            found[surrogate, gamma, tracker, optimizer].append(ap_of(model, held) - standard)
    return {way: float(np.mean(each)) for way, each in found.items()}


def main() -> None:
    torch.set_num_threads(1)
    for kind in NETWORKS:
        print(f"{kind + ': surrogate, gamma, tracker, optimizer':<58} mean  " + "  ".join(NAMES))
        table = {name: gains(name, kind) for name in NAMES}
        for way in table[NAMES[0]]:
            row = [table[name][way] for name in NAMES]
            text = "  ".join(
                f"{gain:>+{len(name)}.4f}" for name, gain in zip(NAMES, row, strict=True)
            )
            print(f"{' '.join(map(str, way)):<58} {np.mean(row):+.4f}  {text}", flush=True)


if __name__ == "__main__":
    main()
