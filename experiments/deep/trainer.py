"""Training of one stage; interrupted at any moment, it resumes to the same result."""

from __future__ import annotations

import io
import json
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from apmax.errors import NonFiniteError
from apmax.metrics import average_precision
from experiments.cifar import ImageSet, load_imbalanced_cifar, split_off_validation
from experiments.deep.augmentation import crop_and_flip, normalise
from experiments.deep.networks import ResidualNetwork, build
from experiments.deep.stages import Stage, StageObjective, generator_of
from experiments.output import progress_bar
from experiments.store import read_json, write

CHECKPOINT, RESULT, CHOSEN = "checkpoint.pt", "result.json", "chosen.pt"
ImageParts = dict[str, tuple[Tensor, Tensor]]
"""Images and labels of the train, validation, watched and test part."""


@dataclass(frozen=True)
class Machine:
    """Device, precision and processes."""

    device: str = "cpu"
    amp: bool = False
    compile: bool = False
    processes: int = 1
    threads: int | None = None


def train(stage: Stage, folder: Path, machine: Machine) -> dict[str, Any]:
    """Train what is left of the stage, write its result and return it.

    A checkpoint after every epoch holds the network, the loss with its U, the optimizer, the
    sampler and the best weights. All other randomness is a function of seed and step.
    """
    done = read_result(folder, stage)
    if done is not None:
        return done
    if machine.threads is not None:
        torch.set_num_threads(machine.threads)
    trainer = Trainer(stage, folder, machine)
    trainer.resume()
    return trainer.finish()


class Trainer:
    """State of a stage during training, on one rank."""

    def __init__(self, stage: Stage, folder: Path, machine: Machine) -> None:
        self.stage, self.machine, self.folder = stage, machine, folder / stage.name
        grouped = dist.is_available() and dist.is_initialized()
        self.rank, self.ranks = (dist.get_rank(), dist.get_world_size()) if grouped else (0, 1)
        self.device = torch.device(machine.device)
        if self.device.type == "cuda" and self.ranks > 1:
            self.device = torch.device("cuda", self.rank)
        # MPS has no double precision, which U needs.
        self.loss_device = torch.device("cpu") if self.device.type == "mps" else self.device
        self.network = start_network(stage, folder).to(self.device)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        parts = load_parts(stage)
        self.parts = {
            name: (x.to(self.device), y.to(self.device)) for name, (x, y) in parts.items()
        }
        labels = parts["train"][1]
        self.objective = StageObjective(stage, self.network, labels, self.rank, self.ranks)
        self.objective.loss.to(self.loss_device)
        self.steps = max(1, labels.numel() // stage.batch_size)
        self.epoch, self.diverged = 0, False
        self.curves: list[dict[str, Any]] = []
        self.chosen: dict[str, Any] = {"epoch": 0, "validation_ap": -1.0, "weights": {}}

    def resume(self) -> None:
        """Load the checkpoint, if there is one."""
        path = self.folder / CHECKPOINT
        if path.exists():
            saved = torch.load(path, map_location=self.device, weights_only=True)
            self.network.load_state_dict(saved["network"])
            self.objective.load_state_dict(saved["objective"])
            self.epoch, self.curves, self.chosen = saved["epoch"], saved["curves"], saved["chosen"]

    def finish(self) -> dict[str, Any]:
        """Train the remaining epochs, then test the chosen weights once; rank 0 has the result."""
        model: nn.Module = self.network
        if self.ranks > 1:
            model = DistributedDataParallel(self.network)
        if self.machine.compile:
            model = cast(nn.Module, torch.compile(model))
        while self.epoch < self.stage.epochs and not self.diverged:
            started = time.perf_counter()
            loss = self._train_epoch(model)
            self.epoch += 1
            if self.rank == 0:
                self._evaluate_epoch(loss, time.perf_counter() - started)
        if self.rank > 0:
            return {}
        self.network.load_state_dict(self.chosen["weights"])
        result = {
            "stage": self.stage.name,
            "chosen_epoch": self.chosen["epoch"],
            "validation_ap": self.chosen["validation_ap"],
            "test_ap": self._ap("test"),
            "curves": self.curves,
        }
        _save(self.chosen["weights"], self.folder / CHOSEN)
        write(self.folder / RESULT, json.dumps(result, indent=1))
        (self.folder / CHECKPOINT).unlink(missing_ok=True)
        return result

    def _train_epoch(self, model: nn.Module) -> float | None:
        """Train one epoch and return the mean loss, or None if scores are not finite."""
        model.train()
        x, y = self.parts["train"]
        batches, total = self.objective.batches(self.epoch), 0.0
        title = f"{self.stage.name.rpartition('-')[0]} {self.epoch + 1}/{self.stage.epochs}"
        steps: Any = range(self.steps)
        for k in progress_bar(steps, title, self.steps) if self.rank == 0 else steps:
            places = next(batches)
            where = places.to(self.device)
            step = self.epoch * self.steps + k
            generator = generator_of(self.stage.seed, step, self.rank)
            images = normalise(crop_and_flip(x[where], generator))
            self.objective.optimizer.zero_grad()
            with self._autocast():
                logits = model(images)[:, 0].float().to(self.loss_device)
            labels = y[where].to(self.loss_device)
            try:
                loss = self.objective(logits, labels, places.to(self.loss_device))
            except NonFiniteError:  # the learning rate is too high; counts as AP 0
                self.diverged = True
                return None
            loss.backward()  # type: ignore[no-untyped-call]
            self.objective.optimizer.step()
            total += float(loss.detach())
        return total / self.steps

    def _evaluate_epoch(self, loss: float | None, seconds: float) -> None:
        """Compute AP, keep the best weights, write the checkpoint."""
        train_ap, validation_ap = self._ap("watched"), self._ap("validation")
        point = {"epoch": self.epoch, "loss": loss, "train_ap": train_ap}
        self.curves.append({**point, "validation_ap": validation_ap, "seconds": seconds})
        if validation_ap > self.chosen["validation_ap"]:
            weights = {name: value.clone() for name, value in self.network.state_dict().items()}
            self.chosen = {"epoch": self.epoch, "validation_ap": validation_ap, "weights": weights}
        state = {
            "network": self.network.state_dict(),
            "objective": self.objective.state_dict(),
            "epoch": self.epoch,
            "curves": self.curves,
            "chosen": self.chosen,
        }
        _save(state, self.folder / CHECKPOINT)

    def _ap(self, part: str) -> float:
        with self._autocast():
            return ap_of(self.network, *self.parts[part])

    def _autocast(self) -> AbstractContextManager[Any]:
        if not self.machine.amp:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)


def load_parts(stage: Stage) -> ImageParts:
    """Load the images of a stage, split 4:1 into training and validation by its seed."""
    data = _load_once(stage.data, stage.seed)
    train, validation = split_off_validation(data.y, stage.seed)
    places = {"train": np.flatnonzero(train), "validation": np.flatnonzero(validation)}
    places["watched"] = places["train"]
    if stage.watched < 1:
        _, some = split_off_validation(data.y[train], stage.seed, stage.watched)
        places["watched"] = places["train"][some]
    arrays = {name: (data.x[at], data.y[at]) for name, at in places.items()}
    arrays["test"] = (data.x_test, data.y_test)
    return {name: (torch.from_numpy(x), torch.from_numpy(y)) for name, (x, y) in arrays.items()}


@lru_cache(maxsize=1)
def _load_once(name: str, seed: int) -> ImageSet:
    return load_imbalanced_cifar(name, seed)


def start_network(stage: Stage, folder: Path) -> ResidualNetwork:
    """Build new weights, or load those of the stage before; methods for AP get a new last layer."""
    network = build(stage.network, stage.seed)
    if stage.start is not None:
        path = folder / stage.start.name / CHOSEN
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        if not stage.method.startswith("cross-entropy"):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(stage.seed + 1)
                network.last.reset_parameters()
    return network


@torch.no_grad()
def ap_of(network: nn.Module, images: Tensor, labels: Tensor, size: int = 500) -> float:
    """AP of the network's logits; 0 if they are not finite."""
    network.eval()
    logits = [network(normalise(batch))[:, 0].float() for batch in images.split(size)]
    scores = torch.cat(logits).cpu().numpy()
    return average_precision(labels.cpu().numpy(), scores) if np.isfinite(scores).all() else 0.0


def read_result(folder: Path, stage: Stage) -> dict[str, Any] | None:
    """Return the result of a stage, or None if it is not done."""
    return read_json(folder / stage.name / RESULT)


def _save(state: Any, path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write(path, buffer.getvalue())
