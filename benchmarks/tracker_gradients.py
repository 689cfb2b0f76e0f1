"""Mean gradient of APLoss beside the exact gradient, by tracker; ``make bench-trackers``.

A linear model is trained on synthetic data with rare positives. After some steps its state is
frozen, and the gradients of many batches are averaged and compared with the exact gradient over
all data: `size` is the ratio of the norms, `cosine` that of the angle. m/B is the number of
positives divided by those of a batch.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor, nn

from apmax import average_precision
from apmax.torch import APLoss, ExactAPLoss, PositiveNegativeBatchSampler
from benchmarks.timing import RESULTS

FEATURES, BATCH, POSITIVES, SHARE = 20, 64, 16, 0.03
RATIOS = (1, 10, 100, 1000)
STEPS, SHOWN = (100, 500, 2000), 500
AVERAGED = 400


def trackers(ratio: int) -> dict[str, dict[str, Any]]:
    return {
        "randomized coordinate, 0.9/√t (the paper's)": {
            "tracker": "randomized_coordinate", "beta0": 0.9, "schedule": "inverse_sqrt",
        },
        "randomized coordinate, B/m": {
            "tracker": "randomized_coordinate", "beta0": 1 / ratio, "schedule": "constant",
        },
        "moving average, 0.9": {"tracker": "moving_average", "beta0": 0.9},
        "moving average, 0.5": {"tracker": "moving_average", "beta0": 0.5},
        "moving average, 0.2": {"tracker": "moving_average", "beta0": 0.2},
        "none": {"tracker": "none"},
        "elapsed average, 0.9/√t (the default)": {"tracker": "elapsed_average"},
    }  # fmt: skip


def make_data(positives: int) -> tuple[Tensor, Tensor]:
    """Two causes of a positive, which one direction cannot separate."""
    generator = torch.Generator().manual_seed(0)
    n = round(positives / SHARE)
    X = torch.randn(n, FEATURES, generator=generator)
    signal = torch.maximum(X[:, 0] + X[:, 1], 1.5 * X[:, 2])
    signal += 0.5 * torch.randn(n, generator=generator)
    return X, signal >= signal.kthvalue(n - positives + 1).values


def gradient(model: nn.Module, loss: Tensor) -> Tensor:
    model.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).clone()


def measure(X: Tensor, y: Tensor, options: dict[str, Any]) -> list[tuple[float, float, float]]:
    torch.manual_seed(0)
    model = nn.Linear(FEATURES, 1)
    loss = APLoss(y, **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    sampler = PositiveNegativeBatchSampler(y, BATCH, POSITIVES)

    def batches() -> Any:
        while True:
            yield from sampler

    def value(batch: list[int]) -> Tensor:
        index = torch.tensor(batch)
        result: Tensor = loss(torch.sigmoid(model(X[index])[:, 0]), index)
        return result

    found, stream = [], batches()
    for step in range(1, STEPS[-1] + 1):
        optimizer.zero_grad()
        value(next(stream)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step in STEPS:
            loss.eval()
            mean = torch.zeros(FEATURES + 1)
            for _ in range(AVERAGED):
                mean += gradient(model, value(next(stream))) / AVERAGED
            loss.train()
            exact = gradient(model, ExactAPLoss()(torch.sigmoid(model(X)[:, 0]), y))
            with torch.no_grad():
                ap = average_precision(y.numpy(), model(X)[:, 0].numpy())
            size = float(mean.norm() / exact.norm())
            cosine = float(mean @ exact / (mean.norm() * exact.norm()))
            found.append((size, cosine, ap))
    return found


def main() -> None:
    """Print all figures, and store those of `SHOWN` steps by tracker and m/B."""
    torch.set_num_threads(1)
    stored: dict[str, dict[str, list[float]]] = {}
    titles = "   ".join(f"t = {t:<4} size cosine     AP" for t in STEPS)
    for ratio in RATIOS:
        X, y = make_data(ratio * POSITIVES)
        print(f"\nm/B = {ratio:<38} {titles}")
        for name, options in trackers(ratio).items():
            columns = measure(X, y, options)
            shown = [round(value, 3) for value in columns[STEPS.index(SHOWN)]]
            stored.setdefault(name, {})[str(ratio)] = shown
            text = "   ".join(f"         {s:4.2f} {c:6.2f} {ap:6.3f}" for s, c, ap in columns)
            print(f"{name:<44} {text}", flush=True)
    text = json.dumps(stored, indent=1, ensure_ascii=False)
    (RESULTS / "tracker_gradients.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
