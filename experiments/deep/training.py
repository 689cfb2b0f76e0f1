"""One stage from its start to its result: killed at any moment, it goes on to the same end."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from apmax.app.data.cifar import ImageSet, load_imbalanced_cifar, split_off_validation
from apmax.app.disk import make_folder, write_aside
from apmax.errors import NonFiniteError
from apmax.metrics import average_precision
from experiments.deep.augmentation import crop_and_flip, normalise
from experiments.deep.networks import ResidualNetwork, build
from experiments.deep.objectives import WITH_NEW_LAST_LAYER, Objective, generator_of
from experiments.deep.stages import Machine, Stage

CHECKPOINT, RESULT, CHOSEN = "checkpoint.pt", "result.json", "chosen.pt"
OnStep = Callable[[int, int, float | None], None]
"""(steps done, steps in all, validation AP of the last epoch)."""


class Part(NamedTuple):
    """Images and labels of one part of the data."""

    x: Tensor
    y: Tensor

    def to(self, device: torch.device) -> Part:
        """The same on another device."""
        return Part(self.x.to(device), self.y.to(device))


class Parts(NamedTuple):
    """What a stage is trained on, chosen by, watched on and tested on."""

    train: Part
    validation: Part
    watched: Part
    test: Part


def load_parts(stage: Stage) -> Parts:
    """The imbalanced set, split 4 : 1 by the stage's seed."""
    data = _load_once(stage.data, stage.seed)
    train, validation = split_off_validation(data.y, stage.seed)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    watched = torch.from_numpy(train)
    if stage.watched < 1:
        _, some = split_off_validation(data.y[train], stage.seed, stage.watched)
        watched = torch.from_numpy(np.flatnonzero(train)[some])
    return Parts(
        Part(x[torch.from_numpy(train)], y[torch.from_numpy(train)]),
        Part(x[torch.from_numpy(validation)], y[torch.from_numpy(validation)]),
        Part(x[watched], y[watched]),
        Part(torch.from_numpy(data.x_test), torch.from_numpy(data.y_test)),
    )


@lru_cache(maxsize=1)
def _load_once(name: str, seed: int) -> ImageSet:
    return load_imbalanced_cifar(name, seed)


def train(
    stage: Stage,
    folder: Path,
    machine: Machine,
    *,
    parts: Parts | None = None,
    on_step: OnStep | None = None,
) -> dict[str, Any]:
    """Train what is left of the stage and return its result, which is also written.

    After every epoch a checkpoint holds the network, the loss with its U, the optimizer, the
    batches and the best weights so far. All other randomness is a function of (seed, step).
    """
    done = read_result(folder, stage)
    if done is not None:
        return done
    make_folder(folder / stage.name)
    if machine.threads is not None:
        torch.set_num_threads(machine.threads)
    trainer = Trainer(stage, folder, machine, parts or load_parts(stage))
    trainer.resume()
    return trainer.finish(on_step or (lambda *_: None))


class Trainer:
    """The state of a stage that is under way, on one rank."""

    def __init__(self, stage: Stage, folder: Path, machine: Machine, parts: Parts) -> None:
        self.stage, self.machine, self.parts = stage, machine, parts
        self.folder = folder / stage.name
        grouped = dist.is_available() and dist.is_initialized()
        self.rank, self.ranks = (dist.get_rank(), dist.get_world_size()) if grouped else (0, 1)
        self.device = torch.device(machine.device)
        if self.device.type == "cuda" and self.ranks > 1:
            self.device = torch.device("cuda", self.rank)
        self.network = start_network(stage, folder).to(self.device)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.on_device = Parts(*(part.to(self.device) for part in parts))
        # U is kept in double precision on the CPU where the device has none
        self.loss_device = torch.device("cpu") if self.device.type == "mps" else self.device
        self.objective = Objective(
            stage, self.network, parts.train.y, rank=self.rank, ranks=self.ranks
        )
        self.objective.loss.to(self.loss_device)
        self.steps_per_epoch = max(1, parts.train.y.numel() // stage.batch_size)
        self.epoch = 0
        self.diverged = False
        self.curves: list[dict[str, Any]] = []
        self.chosen: dict[str, Any] = {"epoch": 0, "validation_ap": -1.0, "weights": {}}

    def resume(self) -> None:
        """Load the checkpoint, if there is one."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            return
        saved = torch.load(path, map_location=self.device, weights_only=True)
        self.network.load_state_dict(saved["network"])
        self.objective.load_state_dict(saved["objective"])
        self.epoch, self.curves, self.chosen = saved["epoch"], saved["curves"], saved["chosen"]

    def finish(self, on_step: OnStep) -> dict[str, Any]:
        """All epochs that are left; then the test, once, with the chosen weights."""
        model: nn.Module = self.network
        if self.ranks > 1:
            model = DistributedDataParallel(self.network)
        if self.machine.compile:
            model = cast(nn.Module, torch.compile(model))
        batches = self.objective.endless_batches()
        while self.epoch < self.stage.epochs and not self.diverged:
            started = time.perf_counter()
            loss = self._train_epoch(model, batches, on_step)
            self.epoch += 1
            if self.rank == 0:
                self._note_epoch(loss, time.perf_counter() - started)
        result = self._result()
        if self.rank == 0:
            _save(self.chosen["weights"], self.folder / CHOSEN)
            write_aside(self.folder / RESULT, json.dumps(result, indent=1).encode())
            (self.folder / CHECKPOINT).unlink(missing_ok=True)
        return result

    def _train_epoch(self, model: nn.Module, batches: Any, on_step: OnStep) -> float | None:
        """Steps of one epoch; returns the mean loss, or None if scores are not finite any more."""
        model.train()
        train = self.on_device.train
        total = 0.0
        for k in range(self.steps_per_epoch):
            step = self.epoch * self.steps_per_epoch + k
            places = next(batches)
            where = places.to(self.device)
            generator = generator_of(self.stage.seed, step, self.rank)
            images = normalise(crop_and_flip(train.x[where], generator))
            self.objective.optimizer.zero_grad()
            with self._autocast():
                logits = model(images)[:, 0].float().to(self.loss_device)
            labels = train.y[where].to(self.loss_device)
            try:
                loss = self.objective(logits, labels, places.to(self.loss_device))
            except NonFiniteError:  # the rate is too high; the linear table counts it as AP 0, too
                self.diverged = True
                return None
            loss.backward()  # type: ignore[no-untyped-call]
            self.objective.optimizer.step()
            total += float(loss.detach())
            last = self.curves[-1]["validation_ap"] if self.curves else None
            on_step(step + 1, self.stage.epochs * self.steps_per_epoch, last)
        return total / self.steps_per_epoch

    def _note_epoch(self, loss: float | None, seconds: float) -> None:
        """AP on watched and validation images, the best weights, the checkpoint."""
        train_ap, validation_ap = (
            ap_of(self.network, part, self._autocast)
            for part in (self.on_device.watched, self.on_device.validation)
        )
        self.curves.append(
            {
                "epoch": self.epoch,
                "loss": loss,
                "train_ap": train_ap,
                "validation_ap": validation_ap,
                "seconds": seconds,
            }
        )
        if validation_ap > self.chosen["validation_ap"]:
            weights = {name: value.clone() for name, value in self.network.state_dict().items()}
            self.chosen = {
                "epoch": self.epoch,
                "validation_ap": validation_ap,
                "weights": weights,
            }
        state = {
            "network": self.network.state_dict(),
            "objective": self.objective.state_dict(),
            "epoch": self.epoch,
            "curves": self.curves,
            "chosen": self.chosen,
        }
        _save(state, self.folder / CHECKPOINT)

    def _result(self) -> dict[str, Any]:
        """The chosen epoch and its AP on the test set; only rank 0 knows."""
        if self.rank > 0:
            return {}
        self.network.load_state_dict(self.chosen["weights"])
        return {
            "stage": self.stage.name,
            "chosen_epoch": self.chosen["epoch"],
            "validation_ap": self.chosen["validation_ap"],
            "test_ap": ap_of(self.network, self.on_device.test, self._autocast),
            "curves": self.curves,
        }

    def _autocast(self) -> AbstractContextManager[Any]:
        if not self.machine.amp:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)


def start_network(stage: Stage, folder: Path) -> ResidualNetwork:
    """New weights, or the chosen ones of the stage before, the last layer drawn anew for AP."""
    network = build(stage.network, stage.seed)
    if stage.start is not None:
        path = folder / stage.start.name / CHOSEN
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    if stage.start is not None and stage.method in WITH_NEW_LAST_LAYER:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stage.seed + 1)
            network.renew_last_layer()
    return network


@torch.no_grad()
def ap_of(
    network: nn.Module,
    part: Part,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    size: int = 500,
) -> float:
    """AP of the network's logits; 0 if they are not finite."""
    network.eval()
    starts = range(0, part.y.numel(), size)
    with autocast():
        logits = [network(normalise(part.x[k : k + size]))[:, 0].float() for k in starts]
    scores = torch.cat(logits).cpu().numpy()
    return average_precision(part.y.cpu().numpy(), scores) if np.isfinite(scores).all() else 0.0


def read_result(folder: Path, stage: Stage) -> dict[str, Any] | None:
    """What the stage came to, if it is done."""
    try:
        return cast(dict[str, Any], json.loads((folder / stage.name / RESULT).read_text()))
    except (FileNotFoundError, ValueError):
        return None


def _save(state: Any, path: Path) -> None:
    """Written aside and renamed: a checkpoint is whole, or it is the one before."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_aside(path, buffer.getvalue())
