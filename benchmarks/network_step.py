"""Time of a training step of ResNet-20 on one core, by layout and precision.

``python -m benchmarks.network_step`` stores CPU times relative to torch's defaults in
``docs/results/network_step.json``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import product

import torch
from torch import nn

from benchmarks.timing import RESULTS, medians
from experiments.deep.networks import build, crop_and_flip, normalise

BATCH, IMAGES, REPEATS = 64, 2000, 15


def training_step(*, last: bool, amp: bool) -> Callable[[], None]:
    """Return a step of cross-entropy and Adam; `last` stores the channels last."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (IMAGES, 3, 32, 32), dtype=torch.uint8, generator=generator)
    y = (torch.rand(IMAGES, generator=generator) < 0.25).float()
    order = torch.contiguous_format if not last else torch.channels_last
    network = build("resnet20", 0)
    network.to(memory_format=order)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    loss = nn.BCEWithLogitsLoss()

    def step() -> None:
        index = torch.randint(0, IMAGES, (BATCH,), generator=generator)
        images = normalise(crop_and_flip(x[index], generator)).contiguous(memory_format=order)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=amp):
            logits = network(images)[:, 0]
        loss(logits, y[index]).backward()
        optimizer.step()

    return step


def main() -> int:
    """Print the time of each variant relative to the first."""
    torch.set_num_threads(1)
    titles, steps = [], []
    for amp, last in product((False, True), (False, True)):
        names = ("bfloat16" if amp else "float32", "channels last" if last else "channels first")
        titles.append(", ".join(names))
        steps.append(training_step(last=last, amp=amp))
    times = medians(REPEATS, *steps)
    for title, seconds in zip(titles, times, strict=True):
        print(f"{title:<40} {1000 * seconds:7.1f} ms {seconds / times[0]:6.2f}")
    found = {
        title: round(seconds / times[0], 3) for title, seconds in zip(titles, times, strict=True)
    }
    (RESULTS / "network_step.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
