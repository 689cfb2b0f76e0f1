"""Training of one stage; interrupted at any moment, it resumes to the same result."""

import io
import json
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from lightning.fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor, nn

from apmax.errors import NonFiniteError
from apmax.metrics import average_precision
from apmax.torch import ExactAPHead
from apmax.validation import Mask
from experiments.cifar import load_imbalanced_cifar, split_off_validation
from experiments.deep.networks import ResidualNetwork, build, crop_and_flip, normalise
from experiments.deep.presets import HEAD
from experiments.deep.stages import Stage, StageObjective, generator_of
from experiments.output import progress_bar
from experiments.store import write

CHECKPOINT, RESULT, CHOSEN = "checkpoint.pt", "result.json", "chosen.pt"
EVALUATED = 500
"""Images per batch outside of training."""
_load_once = lru_cache(maxsize=1)(load_imbalanced_cifar)


def train(
    fabric: Fabric, stage: Stage, folder: Path, compiled: bool = False, threads: int | None = None
) -> None:
    """Train what is left of a stage and write its result, on every rank of `fabric`.

    A checkpoint after every epoch holds the network, the loss with its U, the optimizer, the
    sampler and the best weights. All other randomness is a function of seed and step.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    if stage.method != HEAD:
        Trainer(fabric, stage, folder, compiled).finish()
    elif fabric.is_global_zero:
        fit_head(fabric, stage, folder)
    fabric.barrier()  # rank 0 has written the result


class Trainer:
    """State of a stage during training, on one rank."""

    def __init__(self, fabric: Fabric, stage: Stage, folder: Path, compiled: bool = False) -> None:
        self.fabric, self.stage, self.folder = fabric, stage, folder / stage.name
        self.network = start_network(stage, folder)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        model: Any = torch.compile(self.network) if compiled else self.network
        self.model = fabric.setup_module(model)
        parts = load_parts(stage)
        self.parts = {name: fabric.to_device(part) for name, part in parts.items()}
        labels = parts["train"][1]
        self.objective = StageObjective(
            stage, self.network, labels, fabric.global_rank, fabric.world_size
        )
        # MPS has no double precision, which U needs.
        self.loss_device = torch.device("cpu") if fabric.device.type == "mps" else fabric.device
        self.objective.loss.to(self.loss_device)
        self.steps = max(1, labels.numel() // stage.batch_size)
        self.stateful: dict[str, Any] = {
            "network": self.network,
            "loss": self.objective.loss,
            "optimizer": self.objective.optimizer,
            "sampler": self.objective.sampler,
        }
        self.epoch, self.diverged = 0, False
        self.curves: list[dict[str, Any]] = []
        self.chosen: dict[str, Any] = {"epoch": 0, "validation_ap": -1.0, "weights": {}}
        path = self.folder / CHECKPOINT
        if path.exists():
            saved = torch.load(path, map_location=self.fabric.device, weights_only=True)
            for name, part in self.stateful.items():
                part.load_state_dict(saved[name])
            self.epoch, self.curves, self.chosen = saved["epoch"], saved["curves"], saved["chosen"]

    def finish(self) -> None:
        """Train the remaining epochs, then test the chosen weights once."""
        while self.epoch < self.stage.epochs and not self.diverged:
            loss = self._train_epoch()
            self.epoch += 1
            if self.fabric.is_global_zero:
                self._evaluate_epoch(loss)
        if not self.fabric.is_global_zero:
            return
        self.network.load_state_dict(self.chosen["weights"])
        result = {
            "chosen_epoch": self.chosen["epoch"],
            "validation_ap": self.chosen["validation_ap"],
            "test_ap": self._ap("test"),
            "curves": self.curves,
        }
        _publish(self.chosen["weights"], result, self.folder)
        (self.folder / CHECKPOINT).unlink(missing_ok=True)

    def _train_epoch(self) -> float | None:
        """Train one epoch and return the mean loss, or None if scores are not finite."""
        self.model.train()
        x, y = self.parts["train"]
        batches, total = self.objective.batches(self.epoch), 0.0
        title = f"{self.stage.name.rpartition('-')[0]} {self.epoch + 1}/{self.stage.epochs}"
        steps: Any = range(self.steps)
        for k in progress_bar(steps, title, self.steps) if self.fabric.is_global_zero else steps:
            places = next(batches)
            step = self.epoch * self.steps + k
            generator = generator_of(self.stage.seed, step, self.fabric.global_rank)
            images = normalise(crop_and_flip(x[places.to(x.device)], generator))
            self.objective.optimizer.zero_grad()
            logits = self.model(images)[:, 0].float().to(self.loss_device)
            labels = y[places.to(y.device)].to(self.loss_device)
            try:
                loss = self.objective(logits, labels, places.to(self.loss_device))
            except NonFiniteError:  # the learning rate is too high; counts as AP 0
                self.diverged = True
                return None
            self.fabric.backward(loss)
            self.objective.optimizer.step()
            total += float(loss.detach())
        return total / self.steps

    def _evaluate_epoch(self, loss: float | None) -> None:
        """Compute AP, keep the best weights, write the checkpoint."""
        train_ap, validation_ap = self._ap("watched"), self._ap("validation")
        aps = {"train_ap": train_ap, "validation_ap": validation_ap}
        self.curves.append({"epoch": self.epoch, "loss": loss, **aps})
        if validation_ap > self.chosen["validation_ap"]:
            weights = {name: value.clone() for name, value in self.network.state_dict().items()}
            self.chosen = {"epoch": self.epoch, "validation_ap": validation_ap, "weights": weights}
        state = {name: part.state_dict() for name, part in self.stateful.items()}
        progress = {"epoch": self.epoch, "curves": self.curves, "chosen": self.chosen}
        _save({**state, **progress}, self.folder / CHECKPOINT)

    def _ap(self, part: str) -> float:
        with self.fabric.autocast():
            return ap_of(self.network, *self.parts[part])


def fit_head(fabric: Fabric, stage: Stage, folder: Path) -> None:
    """Fit the last layer to exact AP on the training images, without crops and flips."""
    network = start_network(stage, folder)
    network.to(fabric.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    parts = {name: fabric.to_device(part) for name, part in load_parts(stage).items()}
    x, y = parts["train"]
    batches = zip(torch.split(x, EVALUATED), torch.split(y, EVALUATED), strict=True)
    with fabric.autocast():
        fit = ExactAPHead(process_group=False).fit(
            network, ((normalise(images), labels) for images, labels in batches), layer="last"
        )
        aps = {name: ap_of(network, *parts[name]) for name in ("validation", "test")}
    alpha = fit.alphas[0] if fit.changed else None
    result = {
        "chosen_epoch": 0,
        "validation_ap": aps["validation"],
        "test_ap": aps["test"],
        "curves": [],
        "head": {"alpha": alpha, "gain": fit.gains[0], "error": fit.errors[0]},
    }
    _publish(network.state_dict(), result, folder / stage.name)


def load_parts(stage: Stage) -> dict[str, tuple[Tensor, Tensor]]:
    """Load the train, validation, watched and test part; the split is 4:1 by the stage's seed."""
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


def start_network(stage: Stage, folder: Path) -> ResidualNetwork:
    """Build new weights, or load those of the stage before; methods for AP get a new last layer."""
    network = build(stage.network, stage.seed)
    if stage.start is not None:
        path = folder / stage.start.name / CHOSEN
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        if stage.method != HEAD and not stage.method.startswith("cross-entropy"):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(stage.seed + 1)
                network.last.reset_parameters()
    return network


def ap_of(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """AP of the network's logits; 0 if they are not finite."""
    scores = logits_of(network, images)
    return average_precision(labels.cpu().numpy(), scores) if np.isfinite(scores).all() else 0.0


@torch.no_grad()
def logits_of(network: nn.Module, images: Tensor) -> NDArray[np.float32]:
    """Logits of images, without crops and flips."""
    network.eval()
    batches = torch.split(images, EVALUATED)
    logits = [network(normalise(batch))[:, 0].float() for batch in batches]
    return cast(NDArray[np.float32], torch.cat(logits).cpu().numpy())


def test_scores(fabric: Fabric, stage: Stage, folder: Path) -> tuple[Mask, NDArray[np.float32]]:
    """Labels of the test images and the logits of a finished stage; not finite ones are 0."""
    network = build(stage.network, stage.seed)
    weights = torch.load(folder / stage.name / CHOSEN, map_location="cpu", weights_only=True)
    network.load_state_dict(weights)
    network.to(fabric.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    x, y = load_parts(stage)["test"]
    with fabric.autocast():
        return y.numpy(), np.nan_to_num(logits_of(network, fabric.to_device(x)), posinf=0.0)


def _publish(weights: Any, result: dict[str, Any], folder: Path) -> None:
    """Write the chosen weights, then the result, which marks the stage as finished."""
    _save(weights, folder / CHOSEN)
    write(folder / RESULT, json.dumps(result, indent=1))


def _save(state: Any, path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write(path, buffer.getvalue())
