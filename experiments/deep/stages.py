"""A stage: one network trained by one method, with its loss, optimizer and batches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain, repeat
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from apmax.methods import METHODS
from apmax.torch import PositiveNegativeBatchSampler, SmoothAPLoss, from_table
from experiments.deep.presets import DeepSetting

COMPOSITIONAL = {
    "adap": METHODS["adap-adam"],
    "moap": METHODS["moap-v2"],
    "soap": METHODS["soap-adam"],
    "adap-logistic": replace(METHODS["adap-adam"], surrogate="logistic"),
}
"""Methods of the library by their names in Table 4."""


@dataclass(frozen=True)
class Stage:
    """Everything that a result depends on; `start` is the stage whose weights it starts from."""

    data: str
    network: str
    seed: int
    method: str
    setting: DeepSetting
    weight_decay: float
    epochs: int
    batch_size: int
    positives_per_batch: int
    watched: float
    start: Stage | None = None

    @property
    def name(self) -> str:
        """Name of the stage's folder: the main fields and a digest of all of them."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:8]
        return f"seed{self.seed}-{self.method}-{self.setting.words}-{self.epochs}ep-{digest}"


class StageObjective:
    """Loss, optimizer and batches of a stage, on one of several ranks."""

    def __init__(
        self, stage: Stage, network: nn.Module, labels: Tensor, rank: int = 0, ranks: int = 1
    ) -> None:
        self.stage, self.size, self.rank, self.ranks = stage, labels.numel(), rank, ranks
        setting, decay = stage.setting, stage.weight_decay
        lr = cast(float, setting.lr)
        self.loss: nn.Module
        self.optimizer: torch.optim.Optimizer
        if stage.method in COMPOSITIONAL:
            self.loss, self.optimizer = from_table(
                COMPOSITIONAL[stage.method],
                labels,
                network.parameters(),
                lr=lr,
                gamma=setting.gamma,
                beta0=cast(float, setting.beta0),
                penalty=decay / 2,  # torch's weight decay: λ‖w‖² has the gradient 2λw
                schedule="constant",
            )
        else:
            smooth = stage.method == "smoothap"
            self.loss = SmoothAPLoss(setting.gamma or 0.01) if smooth else nn.BCEWithLogitsLoss()
            parameters = network.parameters()
            self.optimizer = torch.optim.Adam(parameters, lr=lr, weight_decay=decay)
        self.sampler = PositiveNegativeBatchSampler(
            labels,
            stage.batch_size // ranks,
            stage.positives_per_batch // ranks,
            generator=torch.Generator().manual_seed(stage.seed),
            num_replicas=ranks,
            rank=rank,
        )
        self._resampled = map(torch.as_tensor, chain.from_iterable(repeat(self.sampler)))

    def __call__(self, logits: Tensor, labels: Tensor, places: Tensor) -> Tensor:
        """Loss of a batch; `places` are the indices of its images."""
        if self.stage.method.startswith("cross-entropy"):
            return cast(Tensor, self.loss(logits, labels.to(logits.dtype)))
        targets = places if self.stage.method in COMPOSITIONAL else labels
        return cast(Tensor, self.loss(torch.sigmoid(logits), targets))

    def batches(self, epoch: int) -> Iterator[Tensor]:
        """Yield indices: a shuffled pass for cross-entropy, else batches with more positives."""
        if self.stage.method != "cross-entropy":
            return self._resampled
        order = torch.randperm(self.size, generator=generator_of(self.stage.seed, epoch))
        whole = order[: self.size // self.stage.batch_size * self.stage.batch_size]
        batches = whole.view(-1, self.stage.batch_size).unbind()
        return (batch.tensor_split(self.ranks)[self.rank] for batch in batches)


def generator_of(*numbers: int) -> torch.Generator:
    """Return a generator seeded by several numbers, such as seed, step and rank."""
    state = np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state) >> 1)
