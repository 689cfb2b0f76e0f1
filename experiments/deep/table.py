"""Table 4: pretraining, the choice of settings by validation AP, and every seed of every method."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from apmax.app.disk import locked_folder, make_folder
from apmax.errors import FileError, ParameterError
from experiments.deep.processes import train_on_processes
from experiments.deep.protocol import METHODS, PRESETS, PUBLISHED, Preset, Setting
from experiments.deep.stages import Machine, Stage
from experiments.deep.training import read_result, train
from apmax.registry import Registry

Advance = Callable[[str, int, int, float | None], None]
"""(what is trained, steps done, steps in all, validation AP)."""
PAUSE = 2.0
"""Seconds between looks at stages that another process is at."""


class Row(NamedTuple):
    """A method's results, a seed each."""

    method: str
    setting: Setting
    test_aps: list[float]
    validation_aps: list[float]
    chosen_epochs: list[int]
    curves: list[list[dict[str, Any]]]
    published: tuple[float, float] | None

    @property
    def mean(self) -> float:
        """Mean test AP of the chosen models."""
        return float(np.mean(self.test_aps))

    @property
    def std(self) -> float:
        """Its deviation over the seeds; 0 for one."""
        return float(np.std(self.test_aps, ddof=1)) if len(self.test_aps) > 1 else 0.0


class Experiment:
    """The stages of a preset on a data set, in a folder that several runs may share."""

    def __init__(
        self,
        preset: str | Preset,
        folder: Path,
        machine: Machine,
        *,
        data: str = "cifar10",
        advance: Advance | None = None,
        tell: Callable[[str], None] | None = None,
        tune: bool = False,
    ) -> None:
        self.preset = PRESETS.choose(preset) if isinstance(preset, str) else preset
        Registry("data", PUBLISHED).choose(data)
        self.folder, self.machine, self.data = folder, machine, data
        self.advance = advance or (lambda *_: None)
        self.tell = tell or (lambda _: None)
        self.known = {} if tune or data != "cifar10" else dict(self.preset.chosen)
        machine.check()
        if self.preset.positives_per_batch % machine.processes:
            raise ParameterError(
                f"`processes` = {machine.processes} must divide the "
                f"{self.preset.positives_per_batch} positives of a batch"
            )
        make_folder(folder)

    def table(
        self, methods: Sequence[str] = METHODS, seeds: Sequence[int] | None = None
    ) -> list[Row]:
        """Run what is missing and return a row for each method."""
        known = Registry("method", {name: name for name in METHODS})
        methods = [known.choose(name) for name in methods]
        seeds = range(self.preset.seeds) if seeds is None else seeds
        self._run((one for seed in seeds for one in self._pretraining(seed)), wait=False)
        settings = {
            method: self.known.get(method) or self.tuned(method, self.pretrained(0))
            for method in methods
        }
        starts = {seed: self.pretrained(seed) for seed in seeds}
        stages = {
            (method, seed): self._stage(method, settings[method], starts[seed], seed)
            for seed in seeds
            for method in methods
        }
        self._run(stages.values())
        return [
            self._row(method, settings[method], [stages[method, seed] for seed in seeds])
            for method in methods
        ]

    def pretrained(self, seed: int) -> Stage:
        """The pretraining with the highest validation AP."""
        return self._best(self._pretraining(seed))

    def _pretraining(self, seed: int) -> list[Stage]:
        preset = self.preset
        return [
            Stage(
                data=self.data,
                network=preset.network,
                seed=seed,
                method=preset.pretraining,
                setting=setting,
                weight_decay=decay,
                epochs=preset.pretraining_epochs,
                batch_size=preset.batch_size,
                positives_per_batch=preset.positives_per_batch,
                watched=preset.watched,
            )
            for setting, decay in preset.pretraining_settings()
        ]

    def tuned(self, method: str, start: Stage) -> Setting:
        """The setting with the highest validation AP on the first seed, after a few epochs.

        First η and γ with the first β₀, then the other β₀.
        """
        best = self._best(self._trials(self.preset.settings_of(method), method, start))
        others = [best.setting._replace(beta0=beta0) for beta0 in self.preset.beta0s[1:]]
        if best.setting.beta0 is not None and others:
            best = self._best([best, *self._trials(others, method, start)])
        return best.setting

    def _trials(self, settings: list[Setting], method: str, start: Stage) -> list[Stage]:
        epochs = self.preset.tuning_epochs
        return [
            replace(self._stage(method, setting, start, start.seed), epochs=epochs)
            for setting in settings
        ]

    def _stage(self, method: str, setting: Setting, start: Stage, seed: int) -> Stage:
        return replace(
            start, method=method, setting=setting, seed=seed, epochs=self.preset.epochs, start=start
        )

    def _best(self, stages: list[Stage]) -> Stage:
        self._run(stages)
        return max(stages, key=lambda stage: self._result(stage)["validation_ap"])

    def _result(self, stage: Stage) -> dict[str, Any]:
        result = read_result(self.folder, stage)
        if result is None:
            raise FileError(f"the result of {stage.name} has gone: run the command again")
        return result

    def _run(self, stages: Iterable[Stage], *, wait: bool = True) -> None:
        """Every stage once; those that another process is at come last, or not at all."""
        open_stages = list(stages)
        while open_stages:
            busy = []
            for stage in open_stages:
                make_folder(self.folder / stage.name)
                with locked_folder(self.folder / stage.name) as ours:
                    if ours:
                        self._train(stage)
                    else:
                        busy.append(stage)
            if not wait:
                return
            if len(busy) == len(open_stages):
                time.sleep(PAUSE)
            open_stages = busy

    def _train(self, stage: Stage) -> None:
        """Train the stage, if it is not done, and say what it came to."""
        if read_result(self.folder, stage) is not None:
            return
        title = f"seed {stage.seed} {stage.method} {stage.setting.words}"

        def on_step(done: int, of: int, ap: float | None) -> None:
            self.advance(title, done, of, ap)

        if self.machine.processes > 1:
            result = train_on_processes(stage, self.folder, self.machine, on_step)
        else:
            result = train(stage, self.folder, self.machine, on_step=on_step)
        chosen = result["curves"][result["chosen_epoch"] - 1]
        self.tell(
            f"{title}: epoch {chosen['epoch']} of {stage.epochs}, training AP "
            f"{chosen['train_ap']:.4f}, validation AP {chosen['validation_ap']:.4f}"
        )

    def _row(self, method: str, setting: Setting, stages: list[Stage]) -> Row:
        results = [self._result(stage) for stage in stages]
        return Row(
            method,
            setting,
            [result["test_ap"] for result in results],
            [result["validation_ap"] for result in results],
            [result["chosen_epoch"] for result in results],
            [result["curves"] for result in results],
            PUBLISHED[self.data].get(method),
        )
