"""Held-out AP of models trained with APLoss, by recipe; ``make bench-surrogates``.

A third of the training data of each set is held out, and a quarter of the rest validates. The
baseline of the linear model is converged logistic regression with C chosen by validation AP. That
of the network is cross-entropy for `2 · EPOCHS` epochs. A recipe starts from the baseline after
`EPOCHS` epochs (the linear model from logistic regression, ExactAPHead from the whole baseline)
and has the same number of steps. Every method keeps the epoch with the best validation AP, and
its start is one of the candidates. Test sets are not used.
"""

from __future__ import annotations

import copy
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from apmax import average_precision
from apmax.torch import ADAP, APLoss, ExactAPHead, PositiveNegativeBatchSampler
from benchmarks.real_data import splits

NAMES = ("mammography", "letter", "ijcnn1", "a9a", "celeba", "w8a", "cover")
SEEDS, EPOCHS, BATCH, POSITIVES = 5, 10, 128, 32
MOST_ROWS = 15_000
STRENGTHS = (1e-2, 1e-1, 1.0, 10.0, 100.0)


class Part(NamedTuple):
    """Standardized features, and labels."""

    X: Tensor
    y: Tensor


class Parts(NamedTuple):
    train: Part
    valid: Part
    held_out: Part


Train = Callable[[nn.Module, Parts], nn.Module]


def ap_recipe(optimizer: str, lr: float, *, from_logits: bool = True, **options: Any) -> Train:
    def train(model: nn.Module, parts: Parts) -> nn.Module:
        part = parts.train
        chosen: Any = {"ADAP": ADAP, "Adam": torch.optim.Adam}[optimizer]
        descent = chosen(model.parameters(), lr=lr)
        loss = APLoss(part.y, from_logits=from_logits, **options)
        positives = min(POSITIVES, int(part.y.sum()))
        sampler = PositiveNegativeBatchSampler(part.y, BATCH, positives)
        steps = -(-part.y.numel() // BATCH)

        def stream() -> Iterator[list[int]]:
            while True:
                yield from sampler

        batches = stream()

        def epoch() -> None:
            for _ in range(steps):
                index = torch.tensor(next(batches))
                descent.zero_grad()
                logits = model(part.X[index])[:, 0]
                scores = logits if from_logits else torch.sigmoid(logits)
                loss(scores, index, part.y[index]).backward()
                descent.step()

        return best_epoch(model, parts.valid, epoch, EPOCHS)

    return train


def exact_head(model: nn.Module, parts: Parts) -> nn.Module:
    loader = DataLoader(TensorDataset(*parts.train), batch_size=4096)
    ExactAPHead().fit(model, loader)
    return model


RECIPES: dict[str, Train] = {
    "APLoss, Adam, lr 1e-3": ap_recipe("Adam", 1e-3),
    "APLoss, Adam, lr 1e-2": ap_recipe("Adam", 1e-2),
    "APLoss, ADAP, lr 1e-2": ap_recipe("ADAP", 1e-2),
    "randomized coordinate, lr 1e-3": ap_recipe("Adam", 1e-3, tracker="randomized_coordinate"),
    "moving average, lr 1e-3": ap_recipe("Adam", 1e-3, tracker="moving_average"),
    "probabilities, γ = 20, lr 1e-3": ap_recipe("Adam", 1e-3, from_logits=False),
    "ExactAPHead": exact_head,
}
AFTER_BASELINE = ("ExactAPHead",)
"""Recipes that start from the whole baseline, because they need no epochs."""


def parts_of(name: str, seed: int) -> Parts:
    """Split the training set: a third is held out, a quarter of the rest validates."""
    split = next(iter(splits(name, seeds=1)))
    X = split.X.toarray() if sp.issparse(split.X) else split.X
    rows = np.arange(split.y.size)
    learnt, held = train_test_split(rows, test_size=1 / 3, stratify=split.y, random_state=seed)
    if learnt.size > MOST_ROWS:
        learnt, _ = train_test_split(
            learnt, train_size=MOST_ROWS, stratify=split.y[learnt], random_state=seed
        )
    learnt, valid = train_test_split(
        learnt, test_size=1 / 4, stratify=split.y[learnt], random_state=seed
    )
    deviation = X[learnt].std(axis=0)
    X = np.clip((X - X[learnt].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), -8, 8)
    X, y = torch.from_numpy(X).float(), torch.from_numpy(np.asarray(split.y))
    return Parts(*(Part(X[which], y[which]) for which in (learnt, valid, held)))


def best_epoch(model: nn.Module, valid: Part, epoch: Callable[[], None], epochs: int) -> nn.Module:
    """Train for some epochs; return the best of the start and all epochs on validation data."""
    best, kept = ap_of(model, valid), copy.deepcopy(model)
    for _ in range(epochs):
        epoch()
        ap = ap_of(model, valid)
        if ap > best:
            best, kept = ap, copy.deepcopy(model)
    return kept


def cross_entropy(model: nn.Module, parts: Parts, epochs: int) -> tuple[nn.Module, nn.Module]:
    """Train by cross-entropy; return the best epochs of the first half and of all."""
    part, loss = parts.train, nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def epoch() -> None:
        order = torch.randperm(part.y.numel())
        for start in range(0, order.numel(), BATCH):
            index = order[start : start + BATCH]
            optimizer.zero_grad()
            loss(model(part.X[index])[:, 0], part.y[index].float()).backward()
            optimizer.step()

    half = best_epoch(model, parts.valid, epoch, epochs)
    longer = best_epoch(model, parts.valid, epoch, epochs)
    return half, max([half, longer], key=lambda one: ap_of(one, parts.valid))


def logistic_regression(parts: Parts) -> nn.Module:
    """Return the converged fit with the best C of `STRENGTHS` on validation data."""
    models = []
    for C in STRENGTHS:
        fit = LogisticRegression(C=C, max_iter=5000, tol=1e-6)
        fit.fit(parts.train.X.double().numpy(), parts.train.y.numpy())
        model = nn.Linear(parts.train.X.shape[1], 1)
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(fit.coef_))
            model.bias.copy_(torch.from_numpy(fit.intercept_))
        models.append(model)
    return max(models, key=lambda one: ap_of(one, parts.valid))


def ap_of(model: nn.Module, part: Part) -> float:
    with torch.no_grad():
        return average_precision(part.y.numpy(), model(part.X)[:, 0].numpy())


def gains(name: str, kind: str, seed: int) -> tuple[float, dict[str, float]]:
    """AP of the baseline on held-out data, and the gain of each recipe over it."""
    parts = parts_of(name, seed)
    torch.manual_seed(seed)
    if kind == "linear":
        start = baseline = logistic_regression(parts)
    else:
        features = parts.train.X.shape[1]
        hidden = [nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()]
        start, baseline = cross_entropy(nn.Sequential(*hidden, nn.Linear(32, 1)), parts, EPOCHS)
    standard = ap_of(baseline, parts.held_out)
    found = {}
    for recipe, train in RECIPES.items():
        first = baseline if recipe in AFTER_BASELINE else start
        trained = train(copy.deepcopy(first), parts)
        candidates = [baseline, trained]  # cross-entropy is always kept as a candidate
        chosen = max(candidates, key=lambda one: ap_of(one, parts.valid))
        found[recipe] = ap_of(chosen, parts.held_out) - standard
        found[f"{recipe}, not chosen by validation"] = ap_of(trained, parts.held_out) - standard
    return standard, found


def main() -> None:
    torch.set_num_threads(1)
    for kind in sys.argv[1:] or ("linear", "network"):
        table: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for name in NAMES:
            for seed in range(SEEDS):
                standard, found = gains(name, kind, seed)
                for recipe, gain in {"baseline": standard, **found}.items():
                    table[recipe][name].append(gain)
            print(f"({kind}: {name} done)", file=sys.stderr, flush=True)
        print(f"{kind + ': gain over the baseline':<58} mean ± error  " + "  ".join(NAMES))
        for recipe, of_set in table.items():
            means = [float(np.mean(of_set[name])) for name in NAMES]
            error = np.std(means, ddof=1) / np.sqrt(len(means))
            text = "  ".join(f"{m:>+{len(n)}.4f}" for n, m in zip(NAMES, means, strict=True))
            print(f"{recipe:<58} {np.mean(means):+.4f} ± {error:.4f}  {text}", flush=True)


if __name__ == "__main__":
    main()
