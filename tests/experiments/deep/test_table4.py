"""Table 4: stages resume to the same result, and report the AP of the saved weights."""

import json
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from apmax.errors import ParameterError
from experiments.__main__ import app
from experiments.deep import trainer
from experiments.deep.networks import build, crop_and_flip
from experiments.deep.presets import CONTINUED, HEAD, PRESETS, TITLES, DeepSetting
from experiments.deep.stages import COMPOSITIONAL, Stage
from experiments.deep.table4 import DeepExperiment, make_fabric
from experiments.deep.trainer import CHOSEN, ap_of, load_parts

TINY = replace(
    PRESETS["laptop"],
    pretraining_epochs=1,
    epochs=1,
    rates=(1e-3,),
    gammas=(0.5,),
    beta0s=(0.9,),
    seeds=1,
    batch_size=16,
    positives_per_batch=4,
    watched=1.0,
    chosen={},
)


@pytest.fixture(autouse=True)
def tiny_images(tmp_path_factory, monkeypatch):
    """60 small images, a quarter positive and a little brighter; 20 for the test."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "images").mkdir()
    rng = np.random.default_rng(0)
    for part, size in (("train", 60), ("test", 20)):
        classes = np.where(np.arange(size) % 4 == 0, 7, 2).astype(np.uint8)
        x = rng.integers(0, 200, (size, 16, 16, 3)) + 8 * (classes >= 5)[:, None, None, None]
        for name, array in ((f"x_{part}", x.astype(np.uint8)), (f"class_{part}", classes)):
            path = folder / "images" / f"cifar10_imbalanced_{name}.npy.xz"
            with lzma.open(path, "wb", preset=0) as file:
                np.save(file, array)
    monkeypatch.setenv("APMAX_DATA", str(folder))
    trainer._load_once.cache_clear()
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    trainer._load_once.cache_clear()


def stage_of(method: str, epochs: int = 3, **changes: Any) -> Stage:
    gamma = {"adap": 0.5, "moap": 0.5, "soap": 0.5, "smoothap": 0.1, "adap-logistic": 10.0}.get(
        method
    )
    setting = DeepSetting(1e-3, gamma, 0.9 if method in COMPOSITIONAL else None)
    stage = Stage("cifar10", "resnet20", 0, method, setting, 1e-4, epochs, 16, 4, 1.0)
    return replace(stage, **changes)


def train(stage: Stage, folder: Path, processes: int = 1, amp: bool = False) -> dict[str, Any]:
    fabric = make_fabric("cpu", processes, amp)
    return DeepExperiment(TINY, folder, fabric, threads=1)._result(stage)


def chosen_weights(folder: Path, stage: Stage) -> dict[str, torch.Tensor]:
    return torch.load(folder / stage.name / CHOSEN, weights_only=True)


@pytest.mark.parametrize("method", [name for name in TITLES if name != HEAD])
def test_an_interrupted_stage_resumes_to_the_same_result(method, tmp_path, monkeypatch) -> None:
    stage, steps = stage_of(method), []

    def dies_in_the_third_epoch(*arguments: Any) -> Any:
        steps.append(1)
        if len(steps) == 8:  # an epoch has three steps
            raise RuntimeError("killed")
        return crop_and_flip(*arguments)

    whole = train(stage, tmp_path / "whole")
    monkeypatch.setattr(trainer, "crop_and_flip", dies_in_the_third_epoch)
    with pytest.raises(RuntimeError, match="killed"):
        train(stage, tmp_path / "killed")
    resumed = train(stage, tmp_path / "killed")
    assert resumed == whole
    ours, theirs = (chosen_weights(tmp_path / run, stage) for run in ("killed", "whole"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize(("processes", "amp"), [(1, False), (2, True)])
def test_the_reported_ap_is_that_of_the_saved_weights(processes, amp, tmp_path: Path) -> None:
    stage = stage_of("adap", epochs=2)
    result = train(stage, tmp_path, processes, amp)
    best = max(result["curves"], key=lambda point: point["validation_ap"])
    assert result["chosen_epoch"] == best["epoch"]
    network = build("resnet20", 123)
    network.load_state_dict(chosen_weights(tmp_path, stage))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    parts = load_parts(stage)
    with make_fabric(amp=amp).autocast():
        train_ap, validation_ap, test_ap = (
            ap_of(network, *parts[name]) for name in ("watched", "validation", "test")
        )
    assert train_ap == pytest.approx(best["train_ap"], abs=1e-6)
    assert validation_ap == pytest.approx(result["validation_ap"], abs=1e-6)
    assert test_ap == pytest.approx(result["test_ap"], abs=1e-6)


def test_a_diverging_rate_counts_as_ap_0_and_ranks_must_share_the_positives(tmp_path: Path) -> None:
    stage = stage_of("adap", epochs=2)
    result = train(replace(stage, setting=stage.setting._replace(lr=1e30)), tmp_path)
    assert result["validation_ap"] == result["test_ap"] == 0.0
    with pytest.raises(ParameterError, match="must divide"):
        train(stage, tmp_path, processes=3)


def test_settings_are_tuned_on_the_first_seed_and_results_are_kept(tmp_path: Path) -> None:
    known = {"adap": (2e-4, 0.3, 0.5)}
    preset = replace(TINY, gammas=(0.2, 0.5), beta0s=(0.9, 0.1), chosen=known)
    experiment = DeepExperiment(preset, tmp_path, make_fabric(), threads=1, tune=True)
    (row,) = experiment.table(["adap"])["rows"]
    results = {
        path.parent.name.split("-1ep")[0]: json.loads(path.read_text())["validation_ap"]
        for path in tmp_path.glob("*adap*/result.json")
    }
    first = {name for name in results if "beta0.9" in name}
    assert first == {"seed0-adap-lr0.001-gamma0.2-beta0.9", "seed0-adap-lr0.001-gamma0.5-beta0.9"}
    assert len(results) == 3  # the other β₀ is tried with the better γ only
    assert results[f"seed0-adap-{DeepSetting(**row['setting']).words}"] == max(results.values())
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/result.json")}
    again = DeepExperiment(preset, tmp_path, make_fabric(), threads=1, tune=True)
    assert again.table(["adap"])["rows"] == [row]
    assert times == {path: path.stat().st_mtime_ns for path in times}
    (row,) = DeepExperiment(preset, tmp_path, make_fabric(), threads=1).table(["adap"])["rows"]
    assert tuple(row["setting"].values()) == known["adap"]


def test_the_head_is_fitted_on_the_network_that_cross_entropy_has_trained(tmp_path: Path) -> None:
    preset = replace(TINY, epochs=2, chosen={CONTINUED: (1e-3,)})
    experiment = DeepExperiment(preset, tmp_path, make_fabric(), threads=1)
    (row,) = experiment.table([HEAD])["rows"]
    (head,) = row["heads"]
    weights = {
        path.parent.name.rpartition("-")[0]: torch.load(path, weights_only=True)
        for path in tmp_path.glob("*/chosen.pt")
    }
    fitted = weights["seed0-exact-head-default-0ep"]
    continued = weights[f"seed0-{CONTINUED}-lr0.001-2ep"]
    changed = {name for name in fitted if not torch.equal(fitted[name], continued[name])}
    assert changed == (set() if head["alpha"] is None else {"last.weight", "last.bias"})
    network = build("resnet20", 123)
    network.load_state_dict(fitted)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    parts = load_parts(stage_of(HEAD))
    for name in ("validation", "test"):
        assert ap_of(network, *parts[name]) == pytest.approx(row[f"{name}_aps"][0], abs=1e-6)


def test_the_command_writes_table_curves_and_json(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(PRESETS, "tiny", TINY)
    command = ["table4", "--preset", "tiny", "--methods", "adap,cross-entropy-resampled"]
    options = ["--threads", "1", "-o", str(tmp_path)]
    early = CliRunner().invoke(app, ["--json", *command, "--finished", *options])
    assert early.exit_code == 1
    assert "omit --finished" in json.loads(early.stderr)["error"]
    done = CliRunner().invoke(app, ["--json", *command, *options])
    assert done.exit_code == 0, done.output
    table = json.loads(done.stdout)["table4"]
    adap, entropy = table["rows"]
    assert adap["published"] == [0.7667, 0.0015]
    assert entropy["published"] is None
    (difference,) = table["differences"]
    assert difference["mean"] == adap["mean"] - entropy["mean"]
    assert difference["error"] is None  # one seed
    name = "table4-cifar10-tiny-part"
    assert (tmp_path / f"{name}-curves.svg").exists()
    text = (tmp_path / f"{name}.md").read_text()
    assert f"| ADAP | {adap['mean']:.4f} | {adap['mean']:.4f} | 0.7667 ± 0.0015 |" in text
    assert "η 0.001, γ 0.5, β₀ 0.9, epoch 1" in text


def test_finished_reports_the_finished_stages_and_trains_nothing(tmp_path: Path) -> None:
    known = {"adap": (1e-3, 0.5, 0.9), CONTINUED: (1e-3,)}
    preset = replace(TINY, chosen=known, seeds=2)
    DeepExperiment(preset, tmp_path, make_fabric(), threads=1).table(["adap"], [1])
    files = sorted(tmp_path.rglob("*"))
    experiment = DeepExperiment(preset, tmp_path, make_fabric(), threads=1, training=False)
    table = experiment.table(["adap", CONTINUED, "soap"])
    assert [(row["method"], row["seeds"]) for row in table["rows"]] == [("adap", [1])]
    assert [run["seed"] for run in table["pretraining"]] == [1]
    assert table["differences"] == []
    assert sorted(tmp_path.rglob("*")) == files
