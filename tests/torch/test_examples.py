"""The examples run, and do what they say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import dump_svmlight_file, load_digits

from benchmarks.real_data import data_folder

EXAMPLES = Path(__file__).parents[2] / "examples" / "torch"


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_the_plain_loop_ends_above_cross_entropy_for_as_long() -> None:
    result = example("plain_loop")["main"]()
    assert result["average precision"] > result["cross-entropy"] > 0.3


def test_several_labels_are_learnt_although_some_are_missing() -> None:
    assert min(example("multi_label")["train"]().values()) > 0.4


def test_retrieval_learns_by_every_loss() -> None:
    assert min(example("retrieval")["train"](epochs=20).values()) > 0.7


def test_the_exact_head_is_at_least_as_good_as_the_layer_that_it_replaces() -> None:
    found = example("exact_head")["main"]()
    assert found["with ExactAPHead"] >= found["cross-entropy"] > 0.2


@pytest.mark.filterwarnings("ignore")  # Ignite's own
def test_ignite_trains_and_saves_all_parts(tmp_path: Path) -> None:
    pytest.importorskip("ignite", reason="needs pytorch-ignite")
    assert example("ignite_engine")["train"](folder=str(tmp_path)) > 0.5
    (path,) = tmp_path.glob("*.pt")
    state = torch.load(path, weights_only=True)
    assert set(state) >= {"model", "loss", "optimizer", "sampler"}
    assert state["loss"]["rounds"] > 0


@pytest.mark.filterwarnings("ignore")  # those of transformers
def test_the_hugging_face_trainer_fine_tunes_for_average_precision() -> None:
    pytest.importorskip("transformers", reason="needs transformers and accelerate")
    pytest.importorskip("accelerate", reason="needs transformers and accelerate")
    assert example("hugging_face_trainer")["train"]() > 0.6


@pytest.mark.filterwarnings("ignore")  # Lightning's own
def test_a_lightning_checkpoint_loads_for_other_data(tmp_path: Path) -> None:
    parts = example("lightning_module")
    quiet = {"enable_progress_bar": False, "enable_model_summary": False}
    trained, _ = parts["train"](epochs=1, default_root_dir=tmp_path, **quiet)
    (path,) = tmp_path.rglob("*.ckpt")
    X, y = torch.randn(50, 10), torch.arange(50) < 20
    loaded = parts["APModule"].load_from_checkpoint(path, X=X, y=y, strict=False)
    torch.testing.assert_close(loaded.network[0].weight, trained.network[0].weight)
    assert loaded.loss.tracked().isnan().all()


@pytest.mark.filterwarnings("ignore")  # Lightning's own
def test_lightning_resumes_bit_identically_from_its_checkpoint(tmp_path: Path) -> None:
    train = example("lightning_module")["train"]
    quiet = {"enable_progress_bar": False, "enable_model_summary": False}
    straight, test_ap = train(epochs=4, enable_checkpointing=False, **quiet)
    assert test_ap > 0.5
    half, _ = train(epochs=2, default_root_dir=tmp_path, **quiet)
    (path,) = tmp_path.rglob("*.ckpt")
    state = torch.load(path, weights_only=True)["state_dict"]
    torch.testing.assert_close(state["loss.U"], half.loss.U)
    resumed, _ = train(epochs=4, resume=str(path), enable_checkpointing=False, **quiet)
    for left, right in zip(straight.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.filterwarnings("ignore")  # Lightning's own
def test_lightning_resumes_bit_identically_within_an_epoch_with_workers(tmp_path: Path) -> None:
    from lightning.pytorch.callbacks import ModelCheckpoint

    train = example("lightning_module")["train"]
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "workers": 1}
    saving = ModelCheckpoint(tmp_path, every_n_train_steps=10, save_top_k=-1)
    straight, _ = train(epochs=2, callbacks=[saving], **quiet)
    (path,) = tmp_path.glob("*step=50.ckpt")
    state = torch.load(path, weights_only=True)["sampler"]
    assert 0 < state["batches_done"] < len(straight.sampler)
    resumed, _ = train(epochs=2, resume=str(path), enable_checkpointing=False, **quiet)
    for left, right in zip(straight.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(left, right)


def test_the_linear_model_on_w8a_is_as_good_as_logistic_regression() -> None:
    folder = data_folder()
    if folder is None or not (folder / "libsvm" / "w8a.xz").is_file():
        pytest.skip("needs w8a: set APMAX_DATA")
    assert example("linear_w8a")["train"](folder / "libsvm") > 0.785


def test_a_linear_model_of_digits_learns_by_the_example_of_w8a(tmp_path: Path) -> None:
    X, digit = load_digits(return_X_y=True)
    for name, rows in (("w8a", slice(None, None, 2)), ("w8a.t", slice(1, None, 2))):
        dump_svmlight_file(X[rows] / 16, np.where(digit[rows] == 8, 1, -1), str(tmp_path / name))
    assert example("linear_w8a")["train"](tmp_path, epochs=8) > 0.6


def test_molecules_are_ranked_by_both_losses(tmp_path: Path) -> None:
    """On molecules that are made up: those with bit 0 are active."""
    rng = np.random.default_rng(0)
    bits = rng.random((3000, 1024)) < 0.005
    bits[:, 0] = rng.random(3000) < 0.06
    X = sp.csr_matrix(bits)
    y = bits[:, :1].astype(np.int8)
    split = np.repeat([0, 1, 2], [2000, 500, 500])
    path = tmp_path / "molecules.npz"
    np.savez(path, indptr=X.indptr, indices=X.indices, y=y, scaffold_split=split)
    found = example("molecules")["main"](path, seeds=1, epochs=8)
    assert min(found["cross-entropy"] + found["ADAP"]) > 0.6
