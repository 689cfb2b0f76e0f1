"""Table 4: pretraining, tuning by validation AP, and every seed of every method."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from lightning.fabric import Fabric

from apmax.errors import ApmaxError, ParameterError
from apmax.validation import Floats
from experiments.deep.comparison import paired_differences, resampled_aps
from experiments.deep.presets import CONTINUED, HEAD, PUBLISHED, DeepSetting, Preset
from experiments.deep.stages import Stage
from experiments.deep.trainer import RESULT, test_scores, train
from experiments.output import mean_and_std, note
from experiments.store import HERE, LIBRARY, read_json

SOURCES = (
    *(LIBRARY / name for name in ("torch", "objective", "methods.py", "metrics.py")),
    HERE / "cifar.py",
    *(HERE / "deep" / f"{name}.py" for name in ("trainer", "stages", "networks")),
)
"""Code that the result of a stage depends on."""


class UnfinishedError(ApmaxError):
    """A stage has no result yet and must not be trained."""


def make_fabric(device: str = "cpu", processes: int = 1, amp: bool = False) -> Fabric:
    """Return the device, precision and processes to train with."""
    return Fabric(
        accelerator=device,
        devices=processes,
        strategy="ddp_spawn" if processes > 1 else "auto",
        precision="bf16-mixed" if amp else "32-true",
    )


class DeepExperiment:
    """The stages of a preset on a data set."""

    def __init__(
        self,
        preset: Preset,
        folder: Path,
        fabric: Fabric,
        *,
        data: str = "cifar10",
        tune: bool = False,
        training: bool = True,
        **options: Any,
    ) -> None:
        ranks = fabric.world_size
        if preset.positives_per_batch % ranks:
            positives = preset.positives_per_batch
            raise ParameterError(
                f"`processes` = {ranks} must divide the batch's {positives} positives"
            )
        self.preset, self.data, self.fabric = preset, data, fabric
        self.folder, self.training = folder, training
        self.train = partial(train, folder=folder, **options)
        self.known = {} if tune else preset.chosen

    def table(self, methods: Sequence[str], seeds: Sequence[int] | None = None) -> dict[str, Any]:
        """Train what is missing and return the rows of the methods and their differences.

        Without training, stages that are not finished are left out.
        """
        seeds = range(self.preset.seeds) if seeds is None else seeds
        starts: dict[int, Stage] = {}
        runs: dict[str, dict[int, Stage]] = {method: {} for method in methods}
        for seed in seeds:
            with suppress(UnfinishedError):
                start = starts[seed] = self._best(self._pretraining(seed))
                for method in methods:
                    with suppress(UnfinishedError):
                        stage = self._stage(method, self._setting(method), start)
                        self._result(stage)
                        runs[method][seed] = stage
        if not starts:
            raise UnfinishedError(f"nothing is finished in {self.folder}: omit --finished to train")
        runs = {method: stages for method, stages in runs.items() if stages}
        pretraining = [{"seed": seed, **self._result(start)} for seed, start in starts.items()]
        return {
            "data": self.data,
            "pretraining": pretraining,
            "rows": [self._row(method, stages) for method, stages in runs.items()],
            "differences": self._differences(runs),
        }

    def _row(self, method: str, stages: dict[int, Stage]) -> dict[str, Any]:
        """Return the results of a method; lists have an entry for each seed."""
        results = [self._result(stage) for stage in stages.values()]
        test_aps = [result["test_ap"] for result in results]
        mean, std = mean_and_std(test_aps)
        row = {
            "method": method,
            "setting": next(iter(stages.values())).setting._asdict(),
            "seeds": list(stages),
            "mean": mean,
            "std": std,
            "test_aps": test_aps,
            "validation_aps": [result["validation_ap"] for result in results],
            "chosen_epochs": [result["chosen_epoch"] for result in results],
            "curves": [result["curves"] for result in results],
            "published": PUBLISHED[self.data].get(method),
        }
        if method == HEAD:
            row["heads"] = [result["head"] for result in results]
        return row

    def _differences(self, runs: dict[str, dict[int, Stage]]) -> list[dict[str, Any]]:
        test_aps: dict[str, dict[int, float]] = {}
        resampled: dict[str, dict[int, Floats]] = {}
        for method, stages in runs.items():
            test_aps[method] = {seed: self._result(one)["test_ap"] for seed, one in stages.items()}
            resampled[method] = {}
            for seed, stage in stages.items():
                y, scores = test_scores(self.fabric, stage, self.folder)
                resampled[method][seed] = resampled_aps(y, scores)
        return paired_differences(test_aps, resampled)

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
        if method == HEAD:
            start, epochs = self._stage(CONTINUED, self._setting(CONTINUED), start), 0
        return replace(start, method=method, setting=setting, epochs=epochs, start=start)

    def _setting(self, method: str) -> DeepSetting:
        """Return the known setting, or the best on the first seed: η and γ first, then β₀."""
        if method in self.known:
            return DeepSetting(*self.known[method])
        settings = self.preset.settings_of(method)
        if len(settings) == 1 and settings[0].beta0 is None:
            return settings[0]
        start = self._best(self._pretraining(0))

        def trials(settings: list[DeepSetting]) -> list[Stage]:
            stages = [self._stage(method, setting, start) for setting in settings]
            return [replace(stage, epochs=self.preset.tuning_epochs) for stage in stages]

        best = self._best(trials(settings))
        if best.setting.beta0 is not None:
            others = [best.setting._replace(beta0=beta0) for beta0 in self.preset.beta0s[1:]]
            best = self._best([best, *trials(others)])
        return best.setting

    def _best(self, stages: list[Stage]) -> Stage:
        return max(stages, key=lambda stage: self._result(stage)["validation_ap"])

    def _result(self, stage: Stage) -> dict[str, Any]:
        """Return the stored result of a stage; train the stage first if there is none."""
        path = self.folder / stage.name / RESULT
        result = read_json(path, "chosen_epoch", "validation_ap", "test_ap")
        if result is None:
            if not self.training:
                raise UnfinishedError(f"{path} is missing")
            if stage.start is not None:
                self._result(stage.start)
            self.fabric.launch(partial(self.train, stage=stage))
            result = read_json(path) or {}
            epoch, ap = result["chosen_epoch"], result["validation_ap"]
            note(f"{stage.name}: validation AP {ap:.4f} in epoch {epoch} of {stage.epochs}")
        return result
