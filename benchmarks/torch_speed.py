"""Time of a step with APLoss and ADAP against cross-entropy and LibAUC; ``make bench-torch``."""

from __future__ import annotations

import os
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import numpy as np
import torch
from torch import nn

from apmax.torch import ADAP, APLoss, PositiveNegativeBatchSampler
from benchmarks.timing import Line, medians, report
from experiments.deep.networks import ResidualNetwork, projected_shortcut, resnet18, resnet20

POSITIVES_SHARE = 4
LIBAUC = os.environ.get("APMAX_LIBAUC")
"""Folder of LibAUC 2.0.1: ``pip install --no-deps --target FOLDER libauc==2.0.1``."""


def lines() -> Iterator[Line]:
    torch.set_num_threads(1)

    def linear() -> nn.Module:
        return nn.Linear(300, 1)

    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(300, 256), nn.ReLU(), nn.Linear(256, 1))

    for name, make, batch, steps, bar in (
        ("nn.Linear(300, 1)", linear, 64, 200, 1.4),
        ("nn.Linear(300, 1)", linear, 256, 200, 1.6),
        ("MLP 300-256-1", mlp, 64, 50, 1.15),
        ("MLP 300-256-1", mlp, 256, 30, 1.15),
    ):
        yield from _steps(name, make, (300,), batch=batch, steps=steps, repeats=31, bar=bar)
    for name, make, repeats, bar in (
        ("a small ResNet, 32 × 32", _small_resnet, 61, 1.03),
        ("ResNet-20, 32 × 32", resnet20, 31, 1.05),
    ):
        yield from _steps(name, make, (3, 32, 32), batch=64, steps=1, repeats=repeats, bar=bar)
    yield _optimizer_alone()
    yield _growth()
    yield from _sampler()


def _batches(m: int, n: int, batch: int, count: int = 64) -> Iterator[torch.Tensor]:
    rng = np.random.default_rng(0)
    plus = batch // POSITIVES_SHARE
    drawn = [
        np.concatenate(
            [rng.choice(m, plus, replace=False), m + rng.choice(n - m, batch - plus, replace=False)]
        )
        for _ in range(count)
    ]
    return cycle(torch.from_numpy(index) for index in drawn)


def _steps(
    name: str, make: Callable[[], nn.Module], shape: tuple[int, ...], *, batch: int, steps: int,
    repeats: int, bar: float,
) -> Iterator[Line]:  # fmt: skip
    """Time one step, from zeroing the gradients to the update, with the batch in memory."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, *shape, generator=generator)
    y = (torch.arange(batch) < batch // POSITIVES_SHARE).float()
    labels = np.arange(100_000) < 3_000
    torch.manual_seed(0)

    def stepper(
        forward: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        model: nn.Module,
        optimizer: Any,
    ) -> Callable[[], None]:
        batches = _batches(3_000, 100_000, batch)

        def run() -> None:
            for _ in range(steps):
                optimizer.zero_grad()
                forward(model(x).squeeze(-1), next(batches)).backward()  # type: ignore[no-untyped-call]
                optimizer.step()

        return run

    models = [make() for _ in range(3)]
    loss, entropy = APLoss(labels, from_logits=True), nn.BCEWithLogitsLoss()
    sides = [
        stepper(lambda z, i: loss(z, i, y), models[0], ADAP(models[0].parameters())),
        stepper(lambda z, i: entropy(z, y), models[1], torch.optim.Adam(models[1].parameters())),
    ]
    if LIBAUC is not None:
        sides.append(_libauc_side(stepper, models[2], y))
    ours, ce, *theirs = medians(repeats, *sides)
    print(f"({name}: ours {ours / steps * 1e6:.0f} µs a step, BCE {ce / steps * 1e6:.0f} µs)")
    yield Line(f"APLoss + ADAP / BCE + Adam, {name}, batch {batch}", ours / ce, bar)
    if theirs and len(shape) == 1:
        what = f"LibAUC's APLoss + SOAP / ours, {name}, batch {batch}"
        yield Line(what, theirs[0] / ours, 2.0, at_least=True)


def _libauc_side(stepper: Any, model: nn.Module, y: torch.Tensor) -> Callable[[], None]:
    """A step of LibAUC's APLoss and SOAP, as its documentation writes it."""
    sys.path.append(str(LIBAUC))
    from libauc.losses.auc import AveragePrecisionLoss
    from libauc.optimizers.soap import SOAP

    theirs = AveragePrecisionLoss(data_len=100_000, device=torch.device("cpu"))
    optimizer = SOAP(model.parameters(), lr=1e-3, mode="adam", device=torch.device("cpu"))
    side: Callable[[], None] = stepper(
        lambda z, i: theirs(torch.sigmoid(z), y, i), model, optimizer
    )
    return side


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
        loss, batches = APLoss(np.arange(n) < m), _batches(m, n, 64, count=512)
        scores = torch.rand(64, requires_grad=True)

        def steps(loss: APLoss = loss, batches: Any = batches, scores: Any = scores) -> None:
            for _ in range(512):
                loss(scores, next(batches)).backward()

        sides.append(steps)
    few, many = medians(15, *sides)
    return Line("time of a step with 10^7 positives / with 10^3", many / few, 1.3)


def _sampler() -> Iterator[Line]:
    """Time and memory of starting a pass over 3.3·10⁷ examples, 10⁶ of them positive."""
    labels = np.zeros(33_000_000, bool)
    labels[::33] = True
    sampler = PositiveNegativeBatchSampler(labels, 64, 16)
    tracemalloc.start()
    start = time.process_time()
    next(iter(sampler))
    seconds = time.process_time() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    yield Line("first batch of 3.3·10⁷ examples, seconds of CPU time", seconds, 0.5)
    yield Line("memory for it beside the positives, MB", peak / 1e6, 80.0)


def _small_resnet() -> nn.Module:
    return ResidualNetwork((16, 32, 64), 1, projected_shortcut)


if __name__ == "__main__":
    sys.exit(1 if report("torch_speed", lines()) else 0)
