"""Stages of the deep experiment: resumed they end the same, and what they say is so."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from apmax.app.cli import app
from apmax.app.disk import locked_folder
from apmax.errors import ParameterError
from experiments.deep import training
from experiments.deep.networks import build
from experiments.deep.objectives import ROWS, ShuffledBatches
from experiments.deep.protocol import METHODS, PRESETS, Preset, Setting
from experiments.deep.reports import to_markdown
from experiments.deep.stages import Machine, Stage
from experiments.deep.table import Experiment, Row
from experiments.deep.training import CHOSEN, ap_of, load_parts, read_result, train

ONE = Machine(threads=1)
TINY = Preset(
    network="resnet20",
    pretraining="cross-entropy",
    pretraining_epochs=1,
    pretraining_rates=(1e-3,),
    weight_decays=(1e-4,),
    epochs=1,
    tuning_epochs=1,
    rates=(1e-4, 1e-3),
    gammas=(0.5,),
    slopes=(10.0,),
    temperatures=(0.1,),
    beta0s=(0.9,),
    seeds=1,
    batch_size=16,
    positives_per_batch=4,
)


@pytest.fixture(autouse=True)
def tiny_images(tmp_path_factory, monkeypatch):
    """60 images, a quarter positive and a little brighter; 20 for the test."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "images").mkdir()
    rng = np.random.default_rng(0)
    for part, size in (("train", 60), ("test", 20)):
        classes = np.where(np.arange(size) % 4 == 0, 7, 2).astype(np.uint8)
        x = rng.integers(0, 200, (size, 32, 32, 3)) + 8 * (classes >= 5)[:, None, None, None]
        for name, array in ((f"x_{part}", x.astype(np.uint8)), (f"class_{part}", classes)):
            path = folder / "images" / f"cifar10_imbalanced_{name}.npy.xz"
            with lzma.open(path, "wb", preset=0) as file:
                np.save(file, array)
    monkeypatch.setenv("APMAX_DATA", str(folder))
    training._load_once.cache_clear()
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    training._load_once.cache_clear()


def test_the_other_beta0_are_tried_with_the_best_of_the_rest(tmp_path: Path) -> None:
    preset = replace(TINY, rates=(1e-3,), gammas=(0.2, 0.5), beta0s=(0.9, 0.1))
    Experiment(preset, tmp_path, ONE).table(["adap"])
    tried = {path.parent.name.split("-1ep")[0] for path in tmp_path.glob("*adap*/result.json")}
    first = {name for name in tried if "beta0.9" in name}
    assert first == {"seed0-adap-lr0.001-gamma0.2-beta0.9", "seed0-adap-lr0.001-gamma0.5-beta0.9"}
    assert len(tried - first) == 1


def test_known_settings_are_used_unless_they_are_to_be_chosen_again(tmp_path: Path) -> None:
    known = Setting(2e-4, 0.3, 0.5)
    preset = replace(TINY, chosen=(("soap", known),))
    (row,) = Experiment(preset, tmp_path, ONE).table(["soap"])
    assert row.setting == known
    (row,) = Experiment(preset, tmp_path, ONE, tune=True).table(["soap"])
    assert row.setting in preset.settings_of("soap")


def stage_of(method: str, epochs: int = 3, **changes: Any) -> Stage:
    gamma = {"adap": 0.5, "soap": 0.5, "smoothap": 0.1, "adap-logistic": 10.0}.get(method)
    setting = Setting(1e-3, gamma, 0.9 if method in ROWS else None)
    stage = Stage("cifar10", "resnet20", 0, method, setting, 1e-4, epochs, 16, 4, 1.0)
    return replace(stage, **changes)


def test_each_surrogate_has_its_own_gammas() -> None:
    preset = replace(TINY, gammas=(0.5, 1.0), slopes=(10.0, 20.0))
    assert {setting.gamma for setting in preset.settings_of("adap")} == {0.5, 1.0}
    assert {setting.gamma for setting in preset.settings_of("adap-logistic")} == {10.0, 20.0}
    assert [row.surrogate for row in ROWS.values()] == [
        "squared_hinge",
        "squared_hinge",
        "logistic",
    ]


class Killed(Exception):
    """Thrown where a process would die."""


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_stage_goes_on_to_the_same_result(method: str, tmp_path: Path) -> None:
    stage = stage_of(method)
    whole = train(stage, tmp_path / "whole", ONE)

    def die(done: int, of: int, ap: float | None) -> None:
        if done == 2 * of // 3 + 1:  # in the third epoch
            raise Killed

    with pytest.raises(Killed):
        train(stage, tmp_path / "killed", ONE, on_step=die)
    assert read_result(tmp_path / "killed", stage) is None
    resumed = train(stage, tmp_path / "killed", ONE)
    for result in (whole, resumed):
        for point in result["curves"]:
            point.pop("seconds")
    assert resumed == whole
    ours, theirs = (
        torch.load(tmp_path / run / stage.name / CHOSEN, weights_only=True)
        for run in ("killed", "whole")
    )
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_what_was_said_in_training_is_the_ap_of_the_saved_model(tmp_path: Path) -> None:
    stage = stage_of("adap", epochs=2)
    result = train(stage, tmp_path, ONE)
    parts = load_parts(stage)
    network = build("resnet20", 123)
    network.load_state_dict(torch.load(tmp_path / stage.name / CHOSEN, weights_only=True))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    told = result["curves"][result["chosen_epoch"] - 1]
    assert ap_of(network, parts.watched) == pytest.approx(told["train_ap"], abs=1e-12)
    assert ap_of(network, parts.validation) == pytest.approx(result["validation_ap"], abs=1e-12)
    assert ap_of(network, parts.test) == pytest.approx(result["test_ap"], abs=1e-12)


def test_the_epoch_is_chosen_by_validation_ap(tmp_path: Path) -> None:
    result = train(stage_of("soap"), tmp_path, ONE)
    best = max(result["curves"], key=lambda point: point["validation_ap"])
    assert result["chosen_epoch"] == best["epoch"]
    assert result["validation_ap"] == best["validation_ap"]


def test_methods_for_ap_start_with_a_new_last_layer_and_cross_entropy_goes_on(tmp_path):
    pretraining = stage_of("cross-entropy", epochs=1)
    train(pretraining, tmp_path, ONE)
    before = torch.load(tmp_path / pretraining.name / CHOSEN, weights_only=True)
    for method in METHODS:
        stage = stage_of(method, start=pretraining)
        weights = training.start_network(stage, tmp_path).state_dict()
        assert torch.equal(weights["stem.0.weight"], before["stem.0.weight"])
        kept = torch.equal(weights["last.weight"], before["last.weight"])
        assert kept == method.startswith("cross-entropy")


def test_two_processes_train_one_network(tmp_path: Path) -> None:
    """Every rank gives half of each batch; the AP that rank 0 tells is that of the weights."""
    from experiments.deep.processes import train_on_processes

    stage = stage_of("adap", epochs=1)
    steps = []
    two = Machine(threads=1, processes=2)
    result = train_on_processes(stage, tmp_path, two, lambda done, of, _: steps.append((done, of)))
    assert steps[-1] == (3, 3)  # 48 images of the training part, 16 in a batch
    network = build("resnet20", 0)
    network.load_state_dict(torch.load(tmp_path / stage.name / CHOSEN, weights_only=True))
    assert ap_of(network, load_parts(stage).test) == pytest.approx(result["test_ap"], abs=1e-6)
    assert read_result(tmp_path, stage) == result


def test_half_precision_keeps_u_and_ap_in_full(tmp_path: Path) -> None:
    stage = stage_of("adap", epochs=1)
    half = train(stage, tmp_path / "half", Machine(threads=1, amp=True))
    full = train(stage, tmp_path / "full", ONE)
    assert half["curves"][0]["loss"] == pytest.approx(full["curves"][0]["loss"], abs=0.05)
    assert half["curves"][0]["loss"] != full["curves"][0]["loss"]
    weights = torch.load(tmp_path / "half" / stage.name / CHOSEN, weights_only=True)
    assert weights["last.weight"].dtype == torch.float32


def test_an_error_of_a_rank_keeps_its_name(tmp_path: Path) -> None:
    from experiments.deep.processes import train_on_processes

    stage = stage_of("cross-entropy", epochs=1, batch_size=1000)
    with pytest.raises(ParameterError, match=r"rank \d: `batch_size` = 1000"):
        train_on_processes(stage, tmp_path, Machine(threads=1, processes=2))


def test_a_rate_that_is_too_high_counts_as_ap_0_and_stops_nothing(tmp_path: Path) -> None:
    stage = stage_of("adap", epochs=2)
    stage = replace(stage, setting=stage.setting._replace(lr=1e30))
    result = train(stage, tmp_path, ONE)
    assert result["validation_ap"] == result["test_ap"] == 0.0
    assert read_result(tmp_path, stage) == result


def test_a_stage_that_another_process_is_at_comes_last(tmp_path: Path) -> None:
    first, second = stage_of("soap", epochs=1), stage_of("smoothap", epochs=1)
    experiment = Experiment(TINY, tmp_path, ONE)
    (tmp_path / first.name).mkdir()
    with locked_folder(tmp_path / first.name) as ours:
        assert ours
        experiment._run([first, second], wait=False)
    assert read_result(tmp_path, first) is None
    assert read_result(tmp_path, second) is not None
    experiment._run([first, second])
    assert read_result(tmp_path, first) is not None


def test_shuffled_batches_show_everything_once_and_resume() -> None:
    batches = ShuffledBatches(25, 5, seed=0)
    assert sorted(torch.cat(list(batches)).tolist()) == list(range(25))
    second = [batch.tolist() for batch in batches]
    again = ShuffledBatches(25, 5, seed=0)
    again.load_state_dict({"passes": 1, "done": 2})
    assert [batch.tolist() for batch in again] == second[2:]


def test_ranks_share_a_shuffled_batch() -> None:
    whole = [batch.tolist() for batch in ShuffledBatches(24, 6, seed=1)]
    halves = [
        [batch.tolist() for batch in ShuffledBatches(24, 6, seed=1, rank=rank, ranks=2)]
        for rank in range(2)
    ]
    assert [first + second for first, second in zip(*halves, strict=True)] == whole


def test_the_setting_is_chosen_on_the_first_seed_and_results_are_kept(tmp_path: Path) -> None:
    told: list[str] = []
    experiment = Experiment(TINY, tmp_path, ONE, tell=told.append)
    (row,) = experiment.table(["soap"])
    assert len(told) == 3  # the pretraining, and two rates of which one is the final run
    assert all("validation AP" in line for line in told)
    results = {
        path.parent.name: json.loads(path.read_text())["validation_ap"]
        for path in tmp_path.glob("*soap*/result.json")
    }
    chosen = [ap for name, ap in results.items() if f"lr{row.setting.lr:g}-" in name]
    assert len(results) == 2
    assert chosen == [max(results.values())]
    steps: list[Any] = []
    again = Experiment(TINY, tmp_path, ONE, advance=lambda *told: steps.append(told))
    assert again.table(["soap"])[0] == row
    assert not steps


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"device": "cuda"}, "PyTorch finds none"),
        ({"device": "abacus"}, "cpu, cuda or mps"),
        ({"processes": 3}, "must divide"),
    ],
    ids=["no gpu", "no device", "processes"],
)
def test_a_machine_that_is_not_there_is_refused_before_any_work(change, says, tmp_path):
    if change.get("device") == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ParameterError, match=says):
        Experiment(TINY, tmp_path / "new", Machine(**change))
    assert not (tmp_path / "new").exists()


def test_the_command_writes_table_curves_and_json(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(PRESETS, "tiny", replace(TINY, rates=(1e-3,)))
    command = ["paper", "table4", "--preset", "tiny", "--methods", "adap,cross-entropy"]
    done = CliRunner().invoke(app, ["--json", *command, "--threads", "1", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    adap, entropy = json.loads(done.stdout)["table4"]
    assert adap["published"] == [0.7667, 0.0015]
    assert entropy["published"] is None
    name = "table4-cifar10-tiny-part"
    assert (tmp_path / f"{name}-curves.svg").stat().st_size > 1000
    assert f"{adap['mean']:.4f} ± 0.0000" in (tmp_path / f"{name}.md").read_text()


def test_a_row_tells_every_seed() -> None:
    row = Row("adap", Setting(1e-4, 2.0, 0.9), [0.7, 0.8], [0.1, 0.2], [3, 4], [], (0.7667, 0.0015))
    told = to_markdown([row])
    assert "0.7500 ± 0.0707" in told
    assert "0.7000, 0.8000" in told
    assert "0.7667 ± 0.0015" in told
    assert "η 0.0001, γ 2, β₀ 0.9, epoch 3/4" in told
