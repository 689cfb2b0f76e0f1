"""A fit that was stopped goes on from its checkpoint and ends with the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from apmax import APClassifier
from apmax.errors import CheckpointError, FileError, ParameterError
from apmax.linear import checkpoint as checkpoints
from apmax.linear import settings
from apmax.methods import METHODS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = X[:, 0] + RNG.normal(size=400) > 1.5
OPTIONS: dict[str, Any] = {"max_iter": 4000, "batch_size": 12, "random_state": 3}


class KilledError(Exception):
    pass


@pytest.fixture(autouse=True)
def written_after_every_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", np.inf)


def killed(model: APClassifier, at: int, data: Any = X, y: Any = Y, **fit: Any) -> None:
    def on_progress(stage: str, done: int, of: int, ap: float) -> None:
        if done >= at:
            raise KilledError

    model.on_progress = on_progress
    with pytest.raises(KilledError):
        model.fit(data, y, **fit)
    model.on_progress = None


def steps_of(model: APClassifier, data: Any = X, y: Any = Y) -> list[int]:
    """The rounds after which it told its progress while it was fitted."""
    seen: list[int] = []
    model.on_progress = lambda stage, done, of, ap: seen.append(done)
    model.fit(data, y)
    return seen


def assert_same_fit(left: APClassifier, right: APClassifier) -> None:
    np.testing.assert_array_equal(left.coef_, right.coef_)
    np.testing.assert_array_equal(left.intercept_, right.intercept_)
    assert (left.n_iter_, left.status_) == (right.n_iter_, right.status_)
    for name, column in left.history_.items():
        if name != "seconds":
            np.testing.assert_array_equal(column, right.history_[name])


@pytest.mark.parametrize("solver", list(METHODS))
def test_every_solver_goes_on_to_the_same_bits(solver: str, tmp_path: Path) -> None:
    options = {**OPTIONS, "max_iter": 2200}
    never = APClassifier(solver, **options).fit(X, Y)
    for at in (1000, 1500, 2200):
        killed(APClassifier(solver, checkpoint=tmp_path, **options), at)
    again = APClassifier(solver, checkpoint=tmp_path, **options)
    assert steps_of(again) == [2200]
    assert_same_fit(again, never)


CASES: dict[str, dict[str, Any]] = {
    "early stopping": {"early_stopping": True, "n_iter_no_change": 3, "max_iter": 20_000},
    "independent draws": {"sampling": "independent"},
    "an anchor": {"anchor": "logistic", "alpha": 0.1},
    "no intercept": {"fit_intercept": False},
    "a Mersenne twister": {"random_state": "MT19937"},
    "a Philox": {"random_state": "Philox"},
    "an SFC64": {"random_state": "SFC64"},
    "a RandomState": {"random_state": "RandomState"},
}


@pytest.mark.parametrize("name", CASES)
def test_every_option_goes_on_to_the_same_bits(name: str, tmp_path: Path) -> None:
    def model(**more: Any) -> APClassifier:
        options = {**OPTIONS, **CASES[name], **more}
        source = options["random_state"]
        if source == "RandomState":
            options["random_state"] = np.random.RandomState(1)
        elif isinstance(source, str):
            bits = getattr(np.random, source)(1)
            options["random_state"] = np.random.Generator(bits)
        return APClassifier("adap-adam", **options)

    killed(model(checkpoint=tmp_path), 1500)
    assert_same_fit(model(checkpoint=tmp_path).fit(X, Y), model().fit(X, Y))


@pytest.mark.parametrize("form", [sp.csr_matrix, np.float32], ids=["csr", "float32"])
def test_sparse_and_weighted_data_go_on_to_the_same_bits(form: Any, tmp_path: Path) -> None:
    weight = RNG.uniform(0, 2, 400)
    data = form(X)
    model = APClassifier("moap-v2", checkpoint=tmp_path, **OPTIONS)
    killed(model, 1500, data, sample_weight=weight)
    model.fit(data, Y, sample_weight=weight)
    never = APClassifier("moap-v2", **OPTIONS).fit(data, Y, sample_weight=weight)
    assert_same_fit(model, never)


def test_a_fit_that_has_ended_returns_at_once(tmp_path: Path) -> None:
    first = APClassifier("sox", checkpoint=tmp_path, **OPTIONS).fit(X, Y)
    second = APClassifier("sox", checkpoint=str(tmp_path), **OPTIONS)
    assert steps_of(second) == []
    assert_same_fit(second, first)
    np.testing.assert_array_equal(second.history_["seconds"], first.history_["seconds"])


def test_ctrl_c_keeps_the_model_and_the_next_fit_goes_on(tmp_path: Path) -> None:
    model = APClassifier("sox", checkpoint=tmp_path, **OPTIONS)

    def on_progress(stage: str, done: int, of: int, ap: float) -> None:
        if done == 2000:
            raise KeyboardInterrupt

    model.on_progress = on_progress
    with pytest.warns(match="interrupted"):
        model.fit(X, Y)
    again = APClassifier("sox", checkpoint=tmp_path, **OPTIONS)
    assert steps_of(again)[0] == 2000
    assert_same_fit(again, APClassifier("sox", **OPTIONS).fit(X, Y))


def test_a_warm_start_is_another_fit_than_a_cold_one(tmp_path: Path) -> None:
    warm = {**OPTIONS, "warm_start": True, "learning_rate": 0.01}
    model = APClassifier("sox", checkpoint=tmp_path, **warm).fit(X, Y)
    killed(model, 1500)
    model.fit(X, Y)
    twice = APClassifier("sox", **warm).fit(X, Y).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, twice.coef_)


OTHERS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "another rate": ({"learning_rate": 0.5}, X, r"learning_rate was 0\.4 and is 0\.5"),
    "another solver": ({"solver": "moap-v1"}, X, r"solver was sox and is moap-v1"),
    "another seed": ({"random_state": 4}, X, "random_state is another"),
    "other data": ({}, X + 1e-12, "data is another"),
    "other types": ({}, X.astype(np.float32), "data is another"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_unfinished_checkpoint_of_another_fit_is_refused(name: str, tmp_path: Path) -> None:
    changes, data, told = OTHERS[name]
    killed(APClassifier("sox", checkpoint=tmp_path, **OPTIONS), 1500)
    before = (tmp_path / checkpoints.FILE).read_bytes()
    other = APClassifier(**{"solver": "sox", "checkpoint": tmp_path, **OPTIONS, **changes})
    with pytest.raises(CheckpointError, match=f"{told}.*another folder, or delete"):
        other.fit(data, Y)
    assert (tmp_path / checkpoints.FILE).read_bytes() == before


def test_a_fit_goes_on_between_two_records_of_its_history(tmp_path: Path) -> None:
    options = {**OPTIONS, "batch_size": 3, "max_iter": 700}
    many = np.tile(X, (3, 1)), np.tile(Y, 3)
    never = APClassifier("sox", **options).fit(*many)
    assert never.history_["step"].tolist() == [0, 700]  # three passes are 1,200 rounds
    model = APClassifier("sox", checkpoint=tmp_path, **options)
    killed(model, 700, *many)
    assert steps_of(model, *many) == [700]
    assert_same_fit(model, never)


def test_other_defaults_are_another_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = APClassifier("sox", checkpoint=tmp_path, **OPTIONS)
    killed(model, 1500)
    monkeypatch.setitem(settings.STOCHASTIC_GAMMA, "logistic", 30.0)
    with pytest.raises(CheckpointError, match=r"gamma was 40\.0 and is 30\.0"):
        model.fit(X, Y)


def test_the_checkpoint_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = APClassifier("sox", checkpoint=tmp_path, **OPTIONS)
    killed(model, 1500)
    monkeypatch.setattr(checkpoints, "__version__", "9.9")
    with pytest.raises(CheckpointError, match=r"versions was apmax .* and is apmax 9\.9"):
        model.fit(X, Y)
    monkeypatch.setattr(checkpoints, "SCHEMA", checkpoints.SCHEMA + 1)
    with pytest.raises(CheckpointError, match=r"written by apmax .*, and this is apmax 9\.9"):
        model.fit(X, Y)


def test_once_a_fit_has_ended_its_folder_is_free_for_another(tmp_path: Path) -> None:
    APClassifier("sox", checkpoint=tmp_path, **OPTIONS).fit(X, Y)
    other = APClassifier("moap-v1", checkpoint=tmp_path, **OPTIONS).fit(X, Y)
    assert_same_fit(other, APClassifier("moap-v1", **OPTIONS).fit(X, Y))


def test_two_fits_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    model = APClassifier("sox", checkpoint=tmp_path, **OPTIONS)
    refused: list[str] = []

    def on_progress(stage: str, done: int, of: int, ap: float) -> None:
        with pytest.raises(CheckpointError, match="in use by another fit") as error:
            APClassifier("sox", checkpoint=tmp_path, **OPTIONS).fit(X, Y)
        refused.append(str(error.value))

    model.on_progress = on_progress
    model.fit(X, Y)
    assert len(refused) == 9
    assert_same_fit(model, APClassifier("sox", **OPTIONS).fit(X, Y))


def test_a_damaged_checkpoint_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    model = APClassifier("sox", checkpoint=tmp_path, **OPTIONS)
    killed(model, 1500)
    path = tmp_path / checkpoints.FILE
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    damaged = [whole[:size] for size in rng.integers(0, len(whole), 30)]
    for place in rng.integers(0, len(whole), 30):
        changed = bytearray(whole)
        changed[place] ^= 1 << int(rng.integers(0, 8))
        damaged.append(bytes(changed))
    for content in (*damaged, b"", b"[" * 100_000, b"\xff\n", b"{}\n", b"3\n"):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="delete"):
            model.fit(X, Y)
        assert path.read_bytes() == content


FORGED: dict[str, Any] = {
    "a row of U from the future": ("written_at", lambda a: a + 10**9),
    "a short w": ("w", lambda a: a[:-1]),
    "a decay of another length": ("log_decay", lambda a: a[:-5]),
    "no history": ("history", lambda a: a[:0]),
    "a long best": ("best", lambda a: np.append(a, 1.0)),
    "w of words": ("w", lambda a: a.astype("S8")),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_checkpoint_with_a_right_digest_is_refused(name: str, tmp_path: Path) -> None:
    model = APClassifier("adap-adam", checkpoint=tmp_path, **OPTIONS)
    killed(model, 1500)
    path = tmp_path / checkpoints.FILE
    line, _, blob = path.read_bytes().partition(b"\n")
    body = json.loads(line)["body"]
    array, change = FORGED[name]
    arrays = checkpoints._arrays_of(body["arrays"], blob)
    arrays[array] = change(arrays[array])
    forged = checkpoints.Checkpoint(path, body["identity"])
    forged.write(checkpoints.Saved(arrays, body["facts"]))
    with pytest.raises(CheckpointError, match="no usable state"):
        model.fit(X, Y)


def test_what_cannot_be_kept_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"for the stochastic solvers.*'auto' is none"):
        APClassifier(checkpoint=tmp_path, random_state=0).fit(X, Y)
    with pytest.raises(ParameterError, match="needs a `random_state`"):
        APClassifier("sox", checkpoint=tmp_path).fit(X, Y)
    with pytest.raises(ParameterError, match="must be a folder, got 3"):
        APClassifier("sox", checkpoint=3, random_state=0).fit(X, Y)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot make the folder"):
        APClassifier("sox", checkpoint=tmp_path / "file", random_state=0).fit(X, Y)


def test_it_is_written_no_more_often_than_it_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SECONDS", 1.0)
    written: list[Path] = []
    monkeypatch.setattr(checkpoints, "write_aside", lambda path, content: written.append(path))
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    model = APClassifier("sox", checkpoint=tmp_path, **{**OPTIONS, "max_iter": 5000})

    def on_progress(stage: str, done: int, of: int, ap: float) -> None:
        clock[0] += 0.3  # a chunk takes 0.3 s

    model.on_progress = on_progress
    model.fit(X, Y)
    assert len(written) == 3  # after 1.2 s, 2.4 s and the end, of eleven records and 3.3 s
