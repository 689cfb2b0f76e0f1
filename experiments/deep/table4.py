"""Table 4: pretraining, tuning by validation AP, and every seed of every method."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from lightning.fabric import Fabric
from torch.multiprocessing.spawn import ProcessRaisedException

from apmax.errors import ApmaxError, FileError, ParameterError
from experiments.deep.presets import PUBLISHED, TITLES, DeepSetting, Preset
from experiments.deep.stages import Stage
from experiments.deep.trainer import RESULT, train
from experiments.output import format_mean, markdown_table, mean_and_std, note
from experiments.store import HERE, LIBRARY, code_digest, read_json

SOURCES = (
    *(LIBRARY / name for name in ("torch", "objective", "methods.py", "metrics.py")),
    HERE / "cifar.py",
    *(HERE / "deep" / f"{name}.py" for name in ("trainer", "stages", "networks", "augmentation")),
)
"""Code that the result of a stage depends on."""
Row = dict[str, Any]
"""Results of a method; lists have an entry for each seed."""


@dataclass(frozen=True)
class Machine:
    """Device, precision and processes."""

    device: str = "cpu"
    amp: bool = False
    compile: bool = False
    processes: int = 1
    threads: int | None = None

    @property
    def name(self) -> str:
        """Name of the folder: what changes results, with a digest of the code."""
        how = ("-amp" if self.amp else "") + ("-compiled" if self.compile else "")
        version = torch.__version__.split("+")[0]
        return f"deep-{version}-{self.device}{how}-{self.processes}-{code_digest(*SOURCES)[:12]}"


class DeepExperiment:
    """The stages of a preset on a data set, in a folder that several runs may share."""

    def __init__(
        self, preset: Preset, out: Path, machine: Machine, data: str, *, tune: bool = False
    ) -> None:
        if preset.positives_per_batch % machine.processes:
            raise ParameterError(
                f"`processes` = {machine.processes} must divide the "
                f"{preset.positives_per_batch} positives of a batch"
            )
        try:
            self.fabric = Fabric(
                accelerator=machine.device,
                devices=machine.processes,
                strategy="ddp_spawn" if machine.processes > 1 else "auto",
                precision="bf16-mixed" if machine.amp else "32-true",
            )
        except (RuntimeError, ValueError) as error:
            raise ParameterError(f"`device` = {machine.device!r}: {error}") from None
        self.preset, self.machine, self.data = preset, machine, data
        self.known = {} if tune or data != "cifar10" else preset.chosen
        self.folder = out / machine.name

    def table(self, methods: Sequence[str], seeds: Sequence[int] | None = None) -> list[Row]:
        """Run what is missing and return a row for each method."""
        seeds = range(self.preset.seeds) if seeds is None else seeds
        self._run((one for seed in seeds for one in self._pretraining(seed)), wait=False)
        settings = {method: self._setting(method) for method in methods}
        starts = {seed: self._best(self._pretraining(seed)) for seed in seeds}
        stages = {
            (method, seed): self._stage(method, settings[method], starts[seed])
            for seed in seeds
            for method in methods
        }
        self._run(stages.values())
        rows = []
        for method in methods:
            results = [self._result(stages[method, seed]) for seed in seeds]
            test_aps = [result["test_ap"] for result in results]
            mean, std = mean_and_std(test_aps)
            rows.append(
                {
                    "method": method,
                    "setting": settings[method]._asdict(),
                    "mean": mean,
                    "std": std,
                    "test_aps": test_aps,
                    "validation_aps": [result["validation_ap"] for result in results],
                    "chosen_epochs": [result["chosen_epoch"] for result in results],
                    "curves": [result["curves"] for result in results],
                    "published": PUBLISHED[self.data].get(method),
                }
            )
        return rows

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

    def _stage(self, method: str, setting: DeepSetting, start: Stage) -> Stage:
        epochs = self.preset.epochs
        return replace(start, method=method, setting=setting, epochs=epochs, start=start)

    def _setting(self, method: str) -> DeepSetting:
        """Return the known setting, or the best on the first seed: η and γ first, then β₀."""
        if method in self.known:
            return DeepSetting(*self.known[method])
        start = self._best(self._pretraining(0))

        def trials(settings: list[DeepSetting]) -> list[Stage]:
            stages = [self._stage(method, setting, start) for setting in settings]
            return [replace(stage, epochs=self.preset.tuning_epochs) for stage in stages]

        best = self._best(trials(self.preset.settings_of(method)))
        if best.setting.beta0 is not None:
            others = [best.setting._replace(beta0=beta0) for beta0 in self.preset.beta0s[1:]]
            best = self._best([best, *trials(others)])
        return best.setting

    def _best(self, stages: list[Stage]) -> Stage:
        self._run(stages)
        return max(stages, key=lambda stage: self._result(stage)["validation_ap"])

    def _result(self, stage: Stage) -> dict[str, Any]:
        result = read_json(self.folder / stage.name / RESULT)
        if result is None:
            raise FileError(f"{stage.name} has no result: run the command again to resume")
        return result

    def _run(self, stages: Iterable[Stage], *, wait: bool = True) -> None:
        """Train every stage; with `wait`, also those that another process is training."""
        stages = list(stages)
        self.folder.mkdir(parents=True, exist_ok=True)
        for blocking in (False, True) if wait else (False,):
            for stage in stages:
                try:
                    with FileLock(self.folder / f"{stage.name}.lock", blocking=blocking):
                        self._train(stage)
                except Timeout:  # another process has the lock
                    continue

    def _train(self, stage: Stage) -> None:
        if read_json(self.folder / stage.name / RESULT) is not None:
            return
        options = (self.machine.compile, self.machine.threads)
        try:
            self.fabric.launch(train, stage, self.folder, *options)
        except ProcessRaisedException as error:
            reason = str(error).strip().splitlines()[-1]
            raise ApmaxError(f"rank {error.error_index} failed: {reason}") from error
        result = self._result(stage)
        chosen = result["curves"][result["chosen_epoch"] - 1]
        aps = f"training AP {chosen['train_ap']:.4f}, validation AP {chosen['validation_ap']:.4f}"
        title = f"seed {stage.seed} {stage.method} {stage.setting.words}"
        note(f"{title}: epoch {chosen['epoch']} of {stage.epochs}, {aps}")


def rows_to_markdown(rows: list[Row]) -> str:
    """Format mean ± std, every seed, the paper's number and the chosen setting."""
    lines = []
    for row in rows:
        seeds = ", ".join(f"{ap:.4f}" for ap in row["test_aps"])
        paper = "–" if row["published"] is None else format_mean(*row["published"], digits=4)
        names = ("η", "τ" if row["method"] == "smoothap" else "γ", "β₀")
        named = zip(names, row["setting"].values(), strict=True)
        chosen = [f"{name} {value:g}" for name, value in named if value is not None]
        chosen.append(f"epoch {'/'.join(map(str, row['chosen_epochs']))}")
        mean = format_mean(row["mean"], row["std"], digits=4)
        lines.append([TITLES[row["method"]], mean, seeds, paper, ", ".join(chosen)])
    return markdown_table(["method", "test AP", "every seed", "paper", "chosen"], lines)
