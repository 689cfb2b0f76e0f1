"""Time of a step with APLoss and ADAP against cross-entropy and Adam; ``make bench-torch``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import numpy as np
import torch
from torch import nn

from apmax.torch import ADAP, APLoss
from benchmarks.timing import Line, medians
from experiments.deep.networks import ResidualNetwork, projected_shortcut, resnet18, resnet20

BATCH, POSITIVES = 64, 16


def lines() -> Iterator[Line]:
    torch.set_num_threads(1)
    yield _beside_cross_entropy(
        "nn.Linear(300, 1)", lambda: nn.Linear(300, 1), (300,), steps=200, repeats=31, bar=1.6
    )
    yield _beside_cross_entropy(
        "a small ResNet, 32 × 32", _small_resnet, (3, 32, 32), steps=1, repeats=61, bar=1.03
    )
    yield _beside_cross_entropy(
        "ResNet-20, 32 × 32", resnet20, (3, 32, 32), steps=1, repeats=31, bar=1.05
    )
    yield _optimizer_alone()
    yield _growth()


def _batches(m: int, n: int, count: int = 64) -> Iterator[torch.Tensor]:
    rng = np.random.default_rng(0)
    drawn = [
        np.concatenate(
            [
                rng.choice(m, POSITIVES, replace=False),
                m + rng.choice(n - m, BATCH - POSITIVES, replace=False),
            ]
        )
        for _ in range(count)
    ]
    return cycle(torch.from_numpy(index) for index in drawn)


def _beside_cross_entropy(
    name: str, make: Callable[[], nn.Module], shape: tuple[int, ...], *, steps: int, repeats: int,
    bar: float,
) -> Line:  # fmt: skip
    """Time one step, from zeroing the gradients to the update, with the batch in memory."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, *shape, generator=generator)
    y = (torch.arange(BATCH) < POSITIVES).float()
    labels = np.arange(100_000) < 3_000
    batches = _batches(3_000, 100_000)
    torch.manual_seed(0)
    ours, theirs = make(), make()
    loss, optimizer = APLoss(labels), ADAP(ours.parameters())
    entropy, adam = nn.BCEWithLogitsLoss(), torch.optim.Adam(theirs.parameters())

    def ap_steps() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            loss(torch.sigmoid(ours(x).squeeze(-1)), next(batches)).backward()
            optimizer.step()

    def entropy_steps() -> None:
        for _ in range(steps):
            adam.zero_grad()
            entropy(theirs(x).squeeze(-1), y).backward()
            adam.step()

    ap, ce = medians(repeats, ap_steps, entropy_steps)
    print(f"({name}: ours {ap / steps * 1e6:.0f} µs a step, theirs {ce / steps * 1e6:.0f} µs)")
    return Line(f"APLoss + ADAP / BCE + Adam, {name}, batch {BATCH}", ap / ce, bar)


def _optimizer_alone() -> Line:
    """Compare ADAP with Adam(foreach=True) on the parameters of a ResNet-18."""
    sides = []
    for make in (ADAP, torch.optim.Adam):
        params = [nn.Parameter(torch.randn_like(p)) for p in resnet18(outputs=10).parameters()]
        for p in params:
            p.grad = torch.randn_like(p)
        options: Any = {} if make is ADAP else {"foreach": True}
        sides.append(make(params, **options).step)
    ours, theirs = medians(15, *sides)
    return Line("ADAP.step() / Adam(foreach).step(), ResNet-18's parameters", ours / theirs, 1.05)


def _growth() -> Line:
    """Compare the time of a step for 10³ and 10⁷ positives."""
    sides = []
    for m in (10**3, 10**7):
        n = 3 * m
        loss, batches = APLoss(np.arange(n) < m), _batches(m, n, count=512)
        scores = torch.rand(BATCH, requires_grad=True)

        def steps(loss: APLoss = loss, batches: Any = batches, scores: Any = scores) -> None:
            for _ in range(512):
                loss(scores, next(batches)).backward()

        sides.append(steps)
    few, many = medians(15, *sides)
    return Line("time of a step with 10^7 positives / with 10^3", many / few, 1.3)


def _small_resnet() -> nn.Module:
    return ResidualNetwork((16, 32, 64), 1, projected_shortcut)


if __name__ == "__main__":
    missed = 0
    for line in lines():
        print(line, flush=True)
        missed += not line.kept
    sys.exit(1 if missed else 0)
