"""Held-out AP of models trained with APLoss, by recipe; ``make bench-surrogates``.

A third of the training data of each set is held out, and a quarter of the rest validates. The
baseline of the linear model is converged logistic regression with C chosen by validation AP. That
of the network is cross-entropy for `2 · EPOCHS` epochs. A recipe starts from the baseline after
`EPOCHS` epochs (the linear model from logistic regression, ExactAPHead from the whole baseline)
and has the same number of steps. Every method keeps the epoch with the best validation AP, and
its start is one of the candidates.

All recipes are compared on the held-out third; the defaults of apmax.torch were chosen there.
``python -m benchmarks.surrogate_quality test`` measures those of `CHOSEN` on the test sets, which
no choice used: the rows to learn from are then drawn from the whole training set.
"""

from __future__ import annotations

import copy
import json
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
from benchmarks.timing import RESULTS

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
    measured: Part


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
CHOSEN = {"linear": ("APLoss, Adam, lr 1e-2",), "network": ("APLoss, Adam, lr 1e-3", "ExactAPHead")}
"""Recipes that are measured on the test sets."""
STORED = RESULTS / "surrogate_quality.json"


def parts_of(name: str, seed: int, on_test: bool) -> Parts:
    """Return rows to train, to validate and to measure on: of the training set or the test set."""
    X, y, X_test, y_test = next(iter(splits(name, seeds=1)))

    def divided(rows: np.ndarray, **size: float) -> list[np.ndarray]:
        parts: list[np.ndarray] = train_test_split(
            rows, **size, stratify=y[rows], random_state=seed
        )
        return parts

    learnt = held = np.arange(y.size)
    if not on_test:
        learnt, held = divided(learnt, test_size=1 / 3)
    if learnt.size > MOST_ROWS:
        learnt = divided(learnt, train_size=MOST_ROWS)[0]
    learnt, valid = divided(learnt, test_size=1 / 4)
    dense = _dense(X[learnt])
    centre, deviation = dense.mean(axis=0), dense.std(axis=0)
    deviation[deviation == 0] = 1.0

    def part(X: Any, y: np.ndarray) -> Part:
        standardized = np.clip((_dense(X) - centre) / deviation, -8, 8)
        return Part(torch.from_numpy(standardized).float(), torch.from_numpy(np.asarray(y)))

    measured = part(X_test, y_test) if on_test else part(X[held], y[held])
    return Parts(part(X[learnt], y[learnt]), part(X[valid], y[valid]), measured)


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sp.issparse(X) else X)


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


def gains(name: str, kind: str, seed: int, on_test: bool) -> dict[str, float]:
    """AP of the baseline on the measured rows, and the gain of each recipe over it."""
    parts = parts_of(name, seed, on_test)
    torch.manual_seed(seed)
    if kind == "linear":
        start = baseline = logistic_regression(parts)
    else:
        features = parts.train.X.shape[1]
        hidden = [nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()]
        start, baseline = cross_entropy(nn.Sequential(*hidden, nn.Linear(32, 1)), parts, EPOCHS)
    standard = ap_of(baseline, parts.measured)
    found = {"baseline": standard}
    for recipe in CHOSEN[kind] if on_test else RECIPES:
        first = baseline if recipe in AFTER_BASELINE else start
        trained = RECIPES[recipe](copy.deepcopy(first), parts)
        candidates = [baseline, trained]  # cross-entropy is always kept as a candidate
        chosen = max(candidates, key=lambda one: ap_of(one, parts.valid))
        found[recipe] = ap_of(chosen, parts.measured) - standard
        found[f"{recipe}, not chosen by validation"] = ap_of(trained, parts.measured) - standard
    return found


def main() -> None:
    torch.set_num_threads(1)
    rows = "test" if "test" in sys.argv[1:] else "held out"
    for kind in [one for one in sys.argv[1:] if one in CHOSEN] or list(CHOSEN):
        table: dict[str, dict[str, float]] = defaultdict(dict)
        for name in NAMES:
            by_seed = [gains(name, kind, seed, rows == "test") for seed in range(SEEDS)]
            for recipe in by_seed[0]:
                values = [found[recipe] for found in by_seed]
                table[recipe][name] = round(float(np.mean(values)), 5)
            means = {recipe: of_set[name] for recipe, of_set in table.items()}
            print(f"{kind}, {name}: {means}", flush=True)
        store(kind, rows, table)


def store(kind: str, rows: str, table: dict[str, dict[str, float]]) -> None:
    """Replace the stored means over the seeds for this model and these rows."""
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    stored.setdefault(rows, {})[kind] = table
    STORED.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for recipe, of_set in table.items():
        means = [*of_set.values()]
        error = np.std(means, ddof=1) / np.sqrt(len(means))
        print(f"{kind}, {rows}: {recipe:<58} {np.mean(means):+.4f} ± {error:.4f}")


if __name__ == "__main__":
    main()
