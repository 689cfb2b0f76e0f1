"""Table 4: pretraining, tuning by validation AP, and every seed of every method."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from lightning.fabric import Fabric
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from apmax.errors import ParameterError
from experiments.deep.presets import PUBLISHED, TITLES, DeepSetting, Preset
from experiments.deep.stages import Stage
from experiments.deep.trainer import RESULT, train
from experiments.output import markdown_table, mean_and_std, note
from experiments.store import HERE, LIBRARY, read_json

SOURCES = (
    *(LIBRARY / name for name in ("torch", "objective", "methods.py", "metrics.py")),
    HERE / "cifar.py",
    *(HERE / "deep" / f"{name}.py" for name in ("trainer", "stages", "networks")),
)
"""Code that the result of a stage depends on."""
COLOURS = dict(zip(TITLES, ("C1", "C6", "C0", "C2", "C4", "C3", "C5"), strict=True))
LINES = ("solid", (0, (3, 1)), "dashed", "dashdot", "dotted", (0, (1, 2)), (0, (5, 1)))
STYLES: dict[str, Any] = dict(zip(TITLES, LINES, strict=True))
Row = dict[str, Any]
"""Results of a method; lists have an entry for each seed."""


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
        **training: Any,
    ) -> None:
        ranks = fabric.world_size
        if preset.positives_per_batch % ranks:
            positives = preset.positives_per_batch
            raise ParameterError(
                f"`processes` = {ranks} must divide the batch's {positives} positives"
            )
        self.preset, self.data, self.fabric = preset, data, fabric
        self.folder = folder
        self.train = partial(train, folder=folder, **training)
        self.known = {} if tune or data != "cifar10" else preset.chosen

    def table(self, methods: Sequence[str], seeds: Sequence[int] | None = None) -> list[Row]:
        """Run what is missing and return a row for each method."""
        seeds = range(self.preset.seeds) if seeds is None else seeds
        settings = {method: self._setting(method) for method in methods}
        results: dict[str, list[dict[str, Any]]] = {method: [] for method in methods}
        for seed in seeds:
            start = self._best(self._pretraining(seed))
            for method in methods:
                stage = self._stage(method, settings[method], start)
                results[method].append(self._result(stage))
        return [self._row(method, settings[method], results[method]) for method in methods]

    def _row(self, method: str, setting: DeepSetting, results: list[dict[str, Any]]) -> Row:
        test_aps = [result["test_ap"] for result in results]
        mean, std = mean_and_std(test_aps)
        return {
            "method": method,
            "setting": setting._asdict(),
            "mean": mean,
            "std": std,
            "test_aps": test_aps,
            "validation_aps": [result["validation_ap"] for result in results],
            "chosen_epochs": [result["chosen_epoch"] for result in results],
            "curves": [result["curves"] for result in results],
            "published": PUBLISHED[self.data].get(method),
        }

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
        return max(stages, key=lambda stage: self._result(stage)["validation_ap"])

    def _result(self, stage: Stage) -> dict[str, Any]:
        """Return the stored result of a stage; train the stage first if there is none."""
        path = self.folder / stage.name / RESULT
        result = read_json(path)
        if result is None:
            self.fabric.launch(partial(self.train, stage=stage))
            result = read_json(path) or {}
            epoch, ap = result["chosen_epoch"], result["validation_ap"]
            note(f"{stage.name}: validation AP {ap:.4f} in epoch {epoch} of {stage.epochs}")
        return result


def rows_to_markdown(rows: list[Row]) -> str:
    """Format mean ± std, every seed, the paper's number and the chosen setting."""
    lines = []
    for row in rows:
        seeds = ", ".join(f"{ap:.4f}" for ap in row["test_aps"])
        paper = "–" if row["published"] is None else "{:.4f} ± {:.4f}".format(*row["published"])
        names = ("η", "τ" if row["method"] == "smoothap" else "γ", "β₀")
        named = zip(names, row["setting"].values(), strict=True)
        chosen = [f"{name} {value:g}" for name, value in named if value is not None]
        chosen.append(f"epoch {'/'.join(map(str, row['chosen_epochs']))}")
        mean = f"{row['mean']:.4f} ± {row['std']:.4f}"
        lines.append([TITLES[row["method"]], mean, seeds, paper, ", ".join(chosen)])
    return markdown_table(["method", "test AP", "every seed", "paper", "chosen"], lines)


def draw_learning_curves(rows: list[Row]) -> Figure:
    """Draw AP on training and validation images after each epoch, a line for every seed."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, column in zip(panels, ("train_ap", "validation_ap"), strict=True):
        for row in rows:
            method = row["method"]
            style = {"color": COLOURS[method], "linestyle": STYLES[method]}
            for k, curve in enumerate(row["curves"]):
                epochs = [point["epoch"] for point in curve]
                aps = [point[column] for point in curve]
                label = TITLES[method] if k == 0 else None
                axes.plot(epochs, aps, marker="o", markersize=3, label=label, **style)
        axes.set(xlabel="epoch after pretraining", title=f"{column.split('_')[0]} AP")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
