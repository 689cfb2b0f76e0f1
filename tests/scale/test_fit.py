"""Fits over blocks equal fits in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from apmax import APClassifier
from apmax.binary_target import binary_target
from apmax.errors import CheckpointError
from apmax.lbfgs import minimise
from apmax.linear.base import TrainingSet
from apmax.linear.design import make_design
from apmax.linear.full_batch import ap_objective, fit_logistic, relative_penalty
from apmax.objective.surrogates import LOGISTIC
from apmax.scale import fit as scale_fit
from apmax.scale import sums
from apmax.scale.blocks import Block, MemoryBlocks
from apmax.scale.checkpoint import Checkpoint
from apmax.scale.fit import LinearFit, Settings, fit
from apmax.validation import Floats

RNG = np.random.default_rng(3)
N, D = 4000, 7
X = RNG.normal(size=(N, D)) * [1, 10, 0.1, 1, 1, 1, 0] + [0, 50, 0, 0, -3, 0, 2]
Y = X[:, 0] + X[:, 4] + RNG.logistic(size=N) > 1.5
WEIGHT = np.where(RNG.random(N) < 0.2, 0.0, RNG.uniform(0.1, 3, N))
SETTINGS = Settings(gamma=20.0, alpha=0.3, max_iter=200, tol=1e-4, C=1.0)


def coefficients(found: LinearFit) -> Floats:
    out = found.calibration.slope * found.design.unscaled(found.w)
    out[-1] += found.calibration.offset
    return out


def in_memory(X: Any, y: Any, weight: Floats | None) -> Floats:
    """Return w of the full-batch fit in memory with `SETTINGS`."""
    data = TrainingSet(X, binary_target(y, weight)).without_zero_weights()
    design = make_design(data.X, "maximum" if sp.issparse(X) else "deviation", data.weight)
    anchor = fit_logistic(design, data.positive, data.weight, C=1.0, total=data.total).w
    objective = ap_objective(
        design,
        data.positive,
        data.weight,
        surrogate=LOGISTIC,
        gamma=20.0,
        penalty=relative_penalty(0.3, anchor),
        anchor=anchor,
    )
    return minimise(objective, anchor, max_iter=200, tol=1e-4).w


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("rows", [97, 1024, 10**6])
def test_w_equals_that_of_the_fit_in_memory(rows: int, weight: Floats | None) -> None:
    found = fit(MemoryBlocks(X, Y, weight, rows=rows), SETTINGS)
    np.testing.assert_allclose(found.w, in_memory(X, Y, weight), rtol=0, atol=1e-8)
    assert found.result.converged
    model = APClassifier(alpha=0.3).fit(X, Y, weight)
    expected = np.append(model.coef_[0], model.intercept_)
    np.testing.assert_allclose(coefficients(found), expected, rtol=1e-5, atol=1e-6)


def test_sparse_and_wide_features_take_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = sp.csr_matrix(np.where(RNG.random(X.shape) < 0.3, X, 0.0))
    found = fit(MemoryBlocks(sparse, Y, None, rows=500), SETTINGS)
    np.testing.assert_allclose(found.w, in_memory(sparse, Y, None), rtol=0, atol=1e-8)
    one_pass = fit(MemoryBlocks(X, Y, None, rows=500), SETTINGS)
    for module in (scale_fit, sums):
        monkeypatch.setattr(module, "ONE_PASS_FEATURES", 3)
    two_passes = fit(MemoryBlocks(X, Y, None, rows=500), SETTINGS)
    np.testing.assert_allclose(two_passes.w, one_pass.w, rtol=0, atol=1e-8)


def test_single_precision_features_are_read_as_they_are() -> None:
    single = X.astype(np.float32)
    found = fit(MemoryBlocks(single, Y, None, rows=500), SETTINGS)
    np.testing.assert_allclose(found.w, in_memory(single, Y, None), rtol=0, atol=1e-6)


def test_gradients_are_those_of_finite_differences() -> None:
    engine = MemoryBlocks(X, Y, WEIGHT, rows=700)
    found = engine.fold(sums.statistics, sums.merge_statistics)
    scaling = scale_fit.scaling_of(found, sparse=False)
    w, step = RNG.normal(size=D + 1) * 0.3, 1e-6
    for objective in (
        scale_fit.logistic_objective(engine, scaling, found.weight.sum(), 0.01),
        scale_fit.ap_objective(engine, scaling, 20.0, 0.2, np.zeros(D + 1)),
    ):
        _, gradient = objective(w)
        for k in range(D + 1):
            there = step * (np.arange(D + 1) == k)
            slope = (objective(w + there)[0] - objective(w - there)[0]) / (2 * step)
            assert slope == pytest.approx(gradient[k], abs=1e-8)


def test_statistics_equal_those_of_all_rows_at_once() -> None:
    found = MemoryBlocks(X, Y, WEIGHT, rows=333).fold(sums.statistics, sums.merge_statistics)
    counted = WEIGHT > 0
    rows, v = X[counted], WEIGHT[counted]
    mean = np.average(rows, axis=0, weights=v)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-13)
    squares = v @ (rows - mean) ** 2
    np.testing.assert_allclose(found.squares, squares, rtol=1e-12, atol=1e-20)
    np.testing.assert_array_equal(found.lowest, rows.min(axis=0))
    np.testing.assert_array_equal(found.highest, rows.max(axis=0))
    positive = Y[counted]
    np.testing.assert_array_equal(found.rows, [(~positive).sum(), positive.sum()])
    np.testing.assert_allclose(found.weight, [v[~positive].sum(), v[positive].sum()])


def test_outliers_do_not_spoil_the_calibration() -> None:
    """Margins up to 1e6 leave the histogram of the others few bins at first."""
    far = X.copy()
    far[0, 0], far[1, 0] = 1e7, -1e7
    found = fit(MemoryBlocks(far, Y, None, rows=500), SETTINGS)
    model = APClassifier(alpha=0.3).fit(far, Y)
    expected = np.append(model.coef_[0], model.intercept_)
    np.testing.assert_allclose(coefficients(found), expected, rtol=1e-4, atol=1e-6)


class Stopped(Exception):
    """The process ends."""


class Breaking(MemoryBlocks):
    """An engine that fails at a given pass."""

    def __init__(self, left: int) -> None:
        super().__init__(X, Y, None, rows=500)
        self.left, self.evaluations = left, 0

    def fold(self, function: Any, merge: Any, *arguments: Any, finish: Any = None) -> Any:
        self.left -= 1
        self.evaluations += function in (sums.log_loss, sums.vector_moments)
        if self.left == 0:
            raise Stopped
        return super().fold(function, merge, *arguments, finish=finish)


def test_a_fit_that_is_stopped_at_any_pass_resumes_with_the_same_bits(tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    engine = Breaking(0)
    whole = fit(engine, SETTINGS)
    passes, evaluations = -engine.left, engine.evaluations
    for at in range(2, passes + 1):
        with pytest.raises(Stopped):
            fit(Breaking(at), SETTINGS, checkpoint=Checkpoint(path))
        if at % 2:
            with path.open("ab") as file:  # the process was killed while it wrote a line
                file.write(b'{"seconds": 1.5, "w": [0.')
        engine = Breaking(0)
        resumed = fit(engine, SETTINGS, checkpoint=Checkpoint(path))
        assert not path.exists()
        assert engine.evaluations == max(0, evaluations - (at - 2))  # the others were stored
        for name in ("w", "anchor"):
            np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
        assert resumed.calibration == whole.calibration
        for name in ("step", "surrogate_ap", "gradient_norm"):
            np.testing.assert_array_equal(resumed.history[name], whole.history[name])
        assert (np.diff(resumed.history["seconds"]) >= 0).all()


def test_a_checkpoint_keeps_only_the_result_of_the_logistic_regression(tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    engine = Breaking(0)
    whole = fit(engine, SETTINGS)
    last = -engine.left - 2  # the last evaluation; two passes calibrate
    with pytest.raises(Stopped):
        fit(Breaking(last), SETTINGS, checkpoint=Checkpoint(path))
    head, anchor, *evaluations = map(json.loads, path.read_text().splitlines())
    assert set(head) == {"format", "fit"}
    np.testing.assert_array_equal(anchor["anchor"], whole.anchor)
    assert 0 < len(evaluations) < engine.evaluations
    np.testing.assert_array_equal(evaluations[0]["w"], whole.anchor)
    assert [one.name for one in tmp_path.iterdir()] == ["fit.json"]
    path.write_text(path.read_text() + json.dumps(anchor) + "\n")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        fit(Breaking(0), SETTINGS, checkpoint=Checkpoint(path))


def test_a_checkpoint_whose_steps_differ_is_used_up_to_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another version of SciPy may take other steps."""
    path = tmp_path / "fit.json"
    with pytest.raises(Stopped):
        fit(Breaking(9), SETTINGS, checkpoint=Checkpoint(path))
    lines = path.read_text().splitlines()
    other = json.loads(lines[4])
    lines[4] = json.dumps({**other, "w": [2 * one for one in other["w"]]})
    path.write_text("\n".join(lines) + "\n")
    with caplog.at_level("WARNING", logger="apmax"):
        resumed = fit(Breaking(0), SETTINGS, checkpoint=Checkpoint(path))
    assert "4 evaluations are repeated" in caplog.text
    np.testing.assert_array_equal(resumed.w, fit(Breaking(0), SETTINGS).w)


def test_a_logistic_regression_that_ends_earlier_than_the_stored_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another version of SciPy may end it."""
    path = tmp_path / "fit.json"
    with pytest.raises(Stopped):
        fit(Breaking(8), SETTINGS, checkpoint=Checkpoint(path))
    monkeypatch.setattr("apmax.scale.fit.LOGISTIC_ITERATIONS", 2)
    resumed = fit(Breaking(0), SETTINGS, checkpoint=Checkpoint(path))
    np.testing.assert_array_equal(resumed.w, fit(Breaking(0), SETTINGS).w)


@pytest.mark.parametrize("name", ["w", "gradient", "value"])
def test_a_checkpoint_with_huge_numbers_is_refused(name: str, tmp_path: Path) -> None:
    """Scores that are not finite would be outside of the tables of compiled sums."""
    path = tmp_path / "fit.json"
    with pytest.raises(Stopped):
        fit(Breaking(6), SETTINGS, checkpoint=Checkpoint(path))
    *lines, last = path.read_text().splitlines()
    damaged = json.loads(last)
    damaged[name] = 1e300 if name == "value" else [1e300] * len(damaged[name])
    path.write_text("\n".join([*lines, json.dumps(damaged)]) + "\n")
    with pytest.raises(CheckpointError, match="numbers of at most 1e\\+100"):
        fit(Breaking(0), SETTINGS, checkpoint=Checkpoint(path))


def test_rows_whose_score_is_not_a_number_are_counted_inside_the_tables() -> None:
    """An index outside would write to other memory."""
    block = Block(X, Y, np.empty(0))
    scaling, w = sums.Scaling(np.zeros(D), np.ones(D)), np.full(D + 1, np.nan)
    of_scores = (
        sums.vector_moments(block, scaling, w, 2.0)[:2],
        sums.moments(block, scaling, w, 2.0),
    )
    for minus, plus in of_scores:
        assert (minus[:, 0].sum(), plus[:, 0].sum()) == ((~Y).sum(), Y.sum())
    count, _ = sums.histogram(block, scaling, w, -1.0, 1.0, 10)
    assert count.sum(axis=1).tolist() == [(~Y).sum(), Y.sum()]


def test_steps_of_a_damaged_checkpoint_stay_finite(tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    found = MemoryBlocks(X, Y, None).fold(sums.statistics, sums.merge_statistics)
    checkpoint = Checkpoint(path)
    checkpoint.load({}, found)
    for w in (np.full(D + 1, 1e200), np.full(D + 1, np.nan)):
        with pytest.raises(CheckpointError, match="is damaged"):
            checkpoint.recorded(lambda w: (0.0, w))(w)


def test_a_checkpoint_that_is_refused_stays_as_it_is(tmp_path: Path) -> None:
    found = MemoryBlocks(X, Y, None).fold(sums.statistics, sums.merge_statistics)
    path = tmp_path / "fit.json"
    Checkpoint(path).load({"alpha": 1.0}, found)
    with path.open("ab") as file:  # another process is writing
        file.write(b'{"seconds": 1.5, "w": [0.')
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match="belongs to another fit"):
        Checkpoint(path).load({"alpha": 2.0}, found)
    assert path.read_bytes() == before


def test_a_checkpoint_of_another_fit_is_refused(tmp_path: Path) -> None:
    engine = MemoryBlocks(X, Y, None, rows=500)
    found = engine.fold(sums.statistics, sums.merge_statistics)
    path = tmp_path / "fit.json"
    checkpoint = Checkpoint(path)
    checkpoint.load({"alpha": 1.0}, found)
    checkpoint.recorded(lambda w: (1.0, w))(np.zeros(D + 1))
    Checkpoint(path).load({"alpha": 1.0}, found)
    with pytest.raises(CheckpointError, match=r"alpha 1.0 instead of 2.0"):
        Checkpoint(path).load({"alpha": 2.0}, found)
    other = MemoryBlocks(X[1:], Y[1:], None).fold(sums.statistics, sums.merge_statistics)
    with pytest.raises(CheckpointError, match=r"rows 4000\.0 instead of 3999\.0"):
        Checkpoint(path).load({"alpha": 1.0}, other)
    head, line = path.read_text().splitlines()
    good = json.loads(line)
    wrong: list[dict[str, Any]] = [{"w": good["w"]}]
    for name, values in (
        ("seconds", ["1", None, [], -1, float("nan")]),
        ("value", ["x", None, [], float("inf")]),
        ("w", [[], [0.0], "x"]),
        ("gradient", [None, [float("nan")] * (D + 1)]),
    ):
        wrong += [{**good, name: value} for value in values]
    heads = ["{", "[]", "{}", '{"format": 1}', json.dumps({**json.loads(head), "fit": []})]
    texts = [f"{one}\n{line}\n" for one in heads]
    for content in [head, *texts, *(f"{head}\n{json.dumps(one)}\n" for one in wrong)]:
        path.write_text(content)
        with pytest.raises(CheckpointError, match="not a checkpoint"):
            Checkpoint(path).load({"alpha": 1.0}, found)


@pytest.mark.parametrize("weight", [None, np.arange(X.shape[0]) % 3.0])
@pytest.mark.parametrize("make", [np.asarray, np.float32, sp.csr_matrix])
def test_a_checkpoint_of_other_labels_is_refused(make: Any, weight: Any, tmp_path: Path) -> None:
    features, path = make(X), tmp_path / "fit.json"

    def found(y: Any) -> sums.Statistics:
        engine = MemoryBlocks(features, y, weight, rows=500)
        return engine.fold(sums.statistics, sums.merge_statistics)

    v = np.ones(Y.size) if weight is None else weight
    np.testing.assert_allclose(found(Y).of_positives, (X[Y] * v[Y, None]).sum(0), rtol=1e-4)
    for _ in range(2):
        Checkpoint(path).load({}, found(Y))
    permuted = Y.copy()
    counted = np.flatnonzero(v == 1)  # the classes keep their counts and weights
    permuted[counted] = np.random.default_rng(0).permutation(Y[counted])
    with pytest.raises(CheckpointError, match="data"):
        Checkpoint(path).load({}, found(permuted))
