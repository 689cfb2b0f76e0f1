"""A stage: one network trained by one method from a start, with a folder of its own."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from apmax.errors import ParameterError
from experiments.deep.protocol import Setting
from experiments.store import digest_of


@dataclass(frozen=True)
class Stage:
    """All that its result depends on; `start` is the stage whose chosen weights it goes on from."""

    data: str
    network: str
    seed: int
    method: str
    setting: Setting
    weight_decay: float
    epochs: int
    batch_size: int
    positives_per_batch: int
    watched: float
    start: Stage | None = None

    @property
    def name(self) -> str:
        """In words, and a digest of all the rest."""
        told = json.dumps(asdict(self), sort_keys=True)
        digest = hashlib.sha256(told.encode()).hexdigest()[:8]
        return f"seed{self.seed}-{self.method}-{self.setting.words}-{self.epochs}ep-{digest}"


@dataclass(frozen=True)
class Machine:
    """Where and how to compute."""

    device: str = "cpu"
    amp: bool = False
    compile: bool = False
    processes: int = 1
    threads: int | None = None

    def check(self) -> None:
        """That the device is there, before any work."""
        kind = self.device.partition(":")[0]
        available = {
            "cpu": True,
            "cuda": torch.cuda.is_available(),
            "mps": torch.backends.mps.is_available(),
        }
        if kind not in available:
            raise ParameterError(f"`device` = {self.device!r} must be cpu, cuda or mps")
        if not available[kind]:
            raise ParameterError(
                f"`device` = {self.device!r}: PyTorch finds none on this machine; use cpu, or a "
                f"build of PyTorch with {kind}"
            )
        if kind == "cuda" and self.processes > torch.cuda.device_count():
            raise ParameterError(
                f"`processes` = {self.processes}, but there are {torch.cuda.device_count()} GPUs: "
                "one process has one GPU"
            )
        if kind == "mps" and self.processes > 1:
            raise ParameterError("`processes` must be 1 on mps, which is one device")

    @property
    def digest(self) -> str:
        """What changes results: precision, compilation, and how a batch is split."""
        how = ("-amp" if self.amp else "") + ("-compiled" if self.compile else "")
        return f"{self.device}{how}-{self.processes}"


DEPENDS_ON = (
    *("torch", "method", "problem", "kernels", "metrics.py", "data/cifar.py"),
    *(f"paper/deep/{name}.py" for name in ("training", "objectives", "networks", "augmentation")),
    "paper/deep/processes.py",
)
"""The code that makes the result of a stage; which stages there are is no part of it."""


def results_folder(out: Path, machine: Machine) -> Path:
    """Where results of this code on this kind of machine are."""
    digest = digest_of(DEPENDS_ON)[:12]
    return out / f"deep-{torch.__version__.split('+')[0]}-{machine.digest}-{digest}"
