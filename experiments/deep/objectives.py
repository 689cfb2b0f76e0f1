"""What a stage minimises: every method as one call of (logits, labels, places)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from apmax.errors import ParameterError
from apmax.methods import METHODS
from experiments.deep.stages import Stage
from apmax.torch import PositiveNegativeBatchSampler, SmoothAPLoss, from_table

ROWS = {
    "adap": METHODS["adap-adam"],
    "soap": METHODS["soap-adam"],
    "adap-logistic": replace(METHODS["adap-adam"], surrogate="logistic"),
}
WITH_NEW_LAST_LAYER = (*ROWS, "smoothap")
"""Methods for AP; cross-entropy goes on with the last layer that it has."""


class Objective:
    """A loss, its optimizer and its batches, with one state to save."""

    def __init__(
        self, stage: Stage, network: nn.Module, labels: Tensor, *, rank: int = 0, ranks: int = 1
    ) -> None:
        self.method = stage.method
        lr, decay = stage.setting.lr, stage.weight_decay
        self.loss: nn.Module
        self.optimizer: torch.optim.Optimizer
        self.batches: Any
        if stage.method in ROWS:
            self.loss, self.optimizer = from_table(
                ROWS[stage.method],
                labels,
                network.parameters(),
                lr=lr,
                gamma=stage.setting.gamma,
                beta0=_given(stage.setting.beta0, "beta0", stage),
                penalty=decay / 2,  # as torch's weight decay: λ‖w‖² has the gradient 2λw
                schedule="constant",
            )
        else:
            smooth = stage.method == "smoothap"
            temperature = _given(stage.setting.gamma, "gamma", stage) if smooth else 1.0
            self.loss = SmoothAPLoss(temperature) if smooth else nn.BCEWithLogitsLoss()
            self.optimizer = torch.optim.Adam(network.parameters(), lr=lr, weight_decay=decay)
        if stage.method == "cross-entropy":
            self.batches = ShuffledBatches(
                labels.numel(), stage.batch_size, stage.seed, rank=rank, ranks=ranks
            )
        else:
            self.batches = PositiveNegativeBatchSampler(
                labels,
                stage.batch_size // ranks,
                stage.positives_per_batch // ranks,
                generator=torch.Generator().manual_seed(stage.seed),
                num_replicas=ranks,
                rank=rank,
            )

    def __call__(self, logits: Tensor, labels: Tensor, places: Tensor) -> Tensor:
        """The loss of a batch."""
        if self.method in ROWS:
            value: Tensor = self.loss(torch.sigmoid(logits), places)
        elif self.method == "smoothap":
            value = self.loss(torch.sigmoid(logits), labels)
        else:
            value = self.loss(logits, labels.to(logits.dtype))
        return value

    def state_dict(self) -> dict[str, Any]:
        """Loss, optimizer and batches."""
        parts = {"loss": self.loss, "optimizer": self.optimizer, "batches": self.batches}
        return {name: part.state_dict() for name, part in parts.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.loss.load_state_dict(state["loss"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.batches.load_state_dict(state["batches"])

    def endless_batches(self) -> Iterator[Tensor]:
        """Pass after pass."""
        while True:
            for batch in self.batches:
                yield torch.as_tensor(batch)


def _given(value: float | None, name: str, stage: Stage) -> float:
    if value is None:
        raise ParameterError(f"`setting` of {stage.method} has no {name}: give it one")
    return value


class ShuffledBatches:
    """All examples in random order, in whole batches; what is left over waits for another pass."""

    def __init__(
        self, size: int, batch_size: int, seed: int, *, rank: int = 0, ranks: int = 1
    ) -> None:
        if size < batch_size:
            raise ParameterError(
                f"`batch_size` = {batch_size} is more than the {size} examples there are: lower it"
            )
        self.size, self.batch_size, self.seed = size, batch_size, seed
        self.rank, self.ranks = rank, ranks
        self.passes = 0
        self.done = 0

    def __iter__(self) -> Iterator[Tensor]:
        order = torch.randperm(self.size, generator=generator_of(self.seed, self.passes))
        whole = order[: self.size // self.batch_size * self.batch_size].view(-1, self.batch_size)
        for batch in whole[self.done :].unbind():
            self.done += 1
            if self.done == len(whole):
                self.passes, self.done = self.passes + 1, 0
            yield batch.tensor_split(self.ranks)[self.rank]

    def state_dict(self) -> dict[str, int]:
        """Which batch is next."""
        return {"passes": self.passes, "done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from there."""
        self.passes, self.done = state["passes"], state["done"]


def generator_of(*numbers: int) -> torch.Generator:
    """A generator for exactly this: a seed, a step, a rank."""
    state = np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state) >> 1)
