"""Table 4: pretraining, tuning by validation AP, and every seed of every method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from filelock import FileLock, Timeout

from apmax.errors import FileError, ParameterError
from experiments.deep.presets import PRESETS, PUBLISHED, TITLES, DeepSetting, Preset
from experiments.deep.processes import train_on_processes
from experiments.deep.stages import Stage
from experiments.deep.trainer import Machine, read_result, train
from experiments.output import markdown_table, mean_and_std, note
from experiments.store import HERE, LIBRARY, code_digest

SOURCES = (
    *(LIBRARY / name for name in ("torch", "objective", "methods.py", "metrics.py")),
    HERE / "cifar.py",
    *(HERE / "deep" / f"{name}.py" for name in ("trainer", "stages", "networks", "augmentation")),
)
"""Code that the result of a stage depends on."""


class MethodRow(NamedTuple):
    """Results of a method; lists have an entry for each seed."""

    method: str
    setting: DeepSetting
    test_aps: list[float]
    validation_aps: list[float]
    chosen_epochs: list[int]
    curves: list[list[dict[str, Any]]]
    published: tuple[float, float] | None

    @property
    def mean(self) -> float:
        """Mean test AP of the chosen epochs."""
        return float(np.mean(self.test_aps))

    @property
    def std(self) -> float:
        """Standard deviation over the seeds; 0 for one seed."""
        return float(np.std(self.test_aps, ddof=1)) if len(self.test_aps) > 1 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        fields = {**self._asdict(), "setting": self.setting._asdict()}
        return {**fields, "mean": self.mean, "std": self.std}


class DeepExperiment:
    """The stages of a preset on a data set, in a folder that several runs may share."""

    def __init__(
        self, preset: Preset, folder: Path, machine: Machine, data: str, *, tune: bool = False
    ) -> None:
        self.preset, self.machine, self.data = preset, machine, data
        self.known = {} if tune or data != "cifar10" else dict(preset.chosen)
        if preset.positives_per_batch % machine.processes:
            raise ParameterError(
                f"`processes` = {machine.processes} must divide the "
                f"{preset.positives_per_batch} positives of a batch"
            )
        try:
            torch.zeros(1, device=machine.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ParameterError(
                f"`device` = {machine.device!r} cannot be used ({reason}): use cpu, cuda or mps"
            ) from None
        self.folder = folder / f"deep-{_digest(machine)}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def table(self, methods: Sequence[str], seeds: Sequence[int] | None) -> list[MethodRow]:
        """Run what is missing and return a row for each method."""
        seeds = range(self.preset.seeds) if seeds is None else seeds
        self._run((one for seed in seeds for one in self._pretraining(seed)), wait=False)
        settings = {
            method: self.known.get(method) or self._tune(method, self._pretrained(0))
            for method in methods
        }
        starts = {seed: self._pretrained(seed) for seed in seeds}
        stages = {
            (method, seed): self._stage(method, settings[method], starts[seed], seed)
            for seed in seeds
            for method in methods
        }
        self._run(stages.values())
        rows = []
        for method in methods:
            results = [self._result(stages[method, seed]) for seed in seeds]
            columns: Any = (
                [result[name] for result in results]
                for name in ("test_ap", "validation_ap", "chosen_epoch", "curves")
            )
            published = PUBLISHED[self.data].get(method)
            rows.append(MethodRow(method, settings[method], *columns, published))
        return rows

    def _pretrained(self, seed: int) -> Stage:
        return self._best(self._pretraining(seed))

    def _pretraining(self, seed: int) -> list[Stage]:
        preset = self.preset
        return [
            Stage(
                data=self.data,
                network=preset.network,
                seed=seed,
                method=preset.pretraining,
                setting=DeepSetting(rate),
                weight_decay=decay,
                epochs=preset.pretraining_epochs,
                batch_size=preset.batch_size,
                positives_per_batch=preset.positives_per_batch,
                watched=preset.watched,
            )
            for rate, decay in product(preset.pretraining_rates, preset.weight_decays)
        ]

    def _tune(self, method: str, start: Stage) -> DeepSetting:
        """Return the setting with the highest validation AP: η and γ first, then β₀."""
        best = self._best(self._trials(self.preset.settings_of(method), method, start))
        others = [best.setting._replace(beta0=beta0) for beta0 in self.preset.beta0s[1:]]
        if best.setting.beta0 is not None and others:
            best = self._best([best, *self._trials(others, method, start)])
        return best.setting

    def _trials(self, settings: list[DeepSetting], method: str, start: Stage) -> list[Stage]:
        stages = [self._stage(method, setting, start, start.seed) for setting in settings]
        return [replace(stage, epochs=self.preset.tuning_epochs) for stage in stages]

    def _stage(self, method: str, setting: DeepSetting, start: Stage, seed: int) -> Stage:
        epochs = self.preset.epochs
        return replace(
            start, method=method, setting=setting, seed=seed, epochs=epochs, start=start
        )

    def _best(self, stages: list[Stage]) -> Stage:
        self._run(stages)
        return max(stages, key=lambda stage: self._result(stage)["validation_ap"])

    def _result(self, stage: Stage) -> dict[str, Any]:
        result = read_result(self.folder, stage)
        if result is None:
            raise FileError(f"{stage.name} has no result: run the command again to resume")
        return result

    def _run(self, stages: Iterable[Stage], *, wait: bool = True) -> None:
        """Train every stage; with `wait`, also those that another process is training."""
        stages = list(stages)
        for blocking in (False, True) if wait else (False,):
            for stage in stages:
                lock = FileLock(self.folder / f"{stage.name}.lock", blocking=blocking)
                try:
                    with lock:
                        self._train(stage)
                except Timeout:  # another process has it
                    continue

    def _train(self, stage: Stage) -> None:
        if read_result(self.folder, stage) is not None:
            return
        run = train_on_processes if self.machine.processes > 1 else train
        run(stage, self.folder, self.machine)
        result = self._result(stage)
        chosen = result["curves"][result["chosen_epoch"] - 1]
        note(
            f"seed {stage.seed} {stage.method} {stage.setting.words}: epoch {chosen['epoch']} of "
            f"{stage.epochs}, training AP {chosen['train_ap']:.4f}, validation AP "
            f"{chosen['validation_ap']:.4f}"
        )


def _digest(machine: Machine) -> str:
    """Digest of what changes results: versions, device, precision, processes and code."""
    how = ("-amp" if machine.amp else "") + ("-compiled" if machine.compile else "")
    version = torch.__version__.split("+")[0]
    return f"{version}-{machine.device}{how}-{machine.processes}-{code_digest(*SOURCES)[:12]}"


def choose_preset(name: str, data: str) -> Preset:
    """Check the names of a preset and a data set."""
    PUBLISHED.choose(data)
    return PRESETS.choose(name)


def rows_to_markdown(rows: list[MethodRow]) -> str:
    """Format mean ± std, every seed, the paper's number and the chosen setting."""
    head = ["method", "test AP", "every seed", "paper", "chosen"]
    lines = []
    for row in rows:
        seeds = ", ".join(f"{ap:.4f}" for ap in row.test_aps)
        paper = "–" if row.published is None else mean_and_std(*row.published, digits=4)
        names = ("η", "τ" if row.method == "smoothap" else "γ", "β₀")
        named = zip(names, row.setting, strict=True)
        chosen = [f"{name} {value:g}" for name, value in named if value is not None]
        chosen.append(f"epoch {'/'.join(map(str, row.chosen_epochs))}")
        mean = mean_and_std(row.mean, row.std, digits=4)
        lines.append([TITLES[row.method], mean, seeds, paper, ", ".join(chosen)])
    return markdown_table(head, lines)
