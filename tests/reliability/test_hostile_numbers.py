"""Functions × inputs: the result of the plain input, or an error of ours; nothing is modified."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from sklearn.exceptions import ConvergenceWarning

from apmax import (
    APClassifier,
    APClassifierCV,
    SurrogateAP,
    average_precision,
    operating_point,
    precision_recall_curve,
    surrogate_ap,
)
from apmax.data.files import Dataset
from apmax.errors import ApmaxError
from apmax.pipeline.training import train
from apmax.report import Report, Scored, write_report
from apmax.report.alerts import count_alerts, operating_points
from apmax.report.bootstrap import bootstrap_band
from apmax.report.calibration import reliability
from apmax.torch import (
    ADAP,
    MOAP,
    SOAP,
    APLoss,
    BlackboxAPLoss,
    ExactAPLoss,
    FastAPLoss,
    PositiveNegativeBatchSampler,
    SmoothAPLoss,
)

RNG = np.random.default_rng(0)
N = 60
Y = RNG.random(N) < 0.3
S = np.round(RNG.normal(size=N) + Y, 2).astype(np.float32).astype(np.float64)
"""Scores that float32 holds exactly, with ties."""


def frozen(values: Any) -> Any:
    values = np.array(values)
    values.flags.writeable = False
    return values


def unaligned(values: Any) -> Any:
    values = np.asarray(values)
    raw = np.frombuffer(b"\0" + values.tobytes(), np.uint8)[1:]
    return raw.view(values.dtype)


# --- scores and labels


def both(result: SurrogateAP) -> tuple[float, Any]:
    return result.value, result.gradient


SCORE_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "average_precision": average_precision,
    "precision_recall_curve": precision_recall_curve,
    "operating_point": lambda y, s: operating_point(y, s, recall=0.5),
    "surrogate_ap, hinge": lambda y, s: both(surrogate_ap(s, y)),
    "surrogate_ap, logistic": lambda y, s: both(
        surrogate_ap(s, y, surrogate="logistic", gamma=2.0)
    ),
    "count_alerts": lambda y, s: count_alerts(Scored("a", y, s)).true,
    "operating_points": lambda y, s: list(operating_points(Scored("a", y, s)).values()),
    "bootstrap_band": lambda y, s: bootstrap_band(Scored("a", y, s), resamples=5).precision,
    "reliability": lambda y, s: reliability(Scored("a", y, s)).observed,
}

SAME: dict[str, Callable[[], tuple[Any, Any]]] = {
    # all of these mean the plain Y and S
    "labels 0 and 1": lambda: (Y.astype(int), S),
    "labels -1 and 1": lambda: (np.where(Y, 1, -1), S),
    "labels as floats": lambda: (Y.astype(np.float32), S),
    "labels as uint8": lambda: (Y.astype(np.uint8), S),
    "lists": lambda: (Y.tolist(), S.tolist()),
    "a column": lambda: (Y[:, None], S[:, None]),
    "float32": lambda: (Y, S.astype(np.float32)),
    "longdouble": lambda: (Y, S.astype(np.longdouble)),
    "big-endian": lambda: (Y.astype(">i4"), S.astype(">f8")),
    "read-only": lambda: (frozen(Y), frozen(S)),
    "not contiguous": lambda: (np.repeat(Y, 2)[::2], np.repeat(S, 3)[::3]),
    "backwards in memory": lambda: (Y[::-1].copy()[::-1], S[::-1].copy()[::-1]),
    "not aligned": lambda: (Y, unaligned(S)),
    "pandas": lambda: (pd.Series(Y, index=range(9, N + 9)), pd.Series(S)),
    "nullable pandas": lambda: (pd.Series(Y).astype("boolean"), pd.Series(S).astype("Float64")),
    "nullable integers": lambda: (pd.Series(Y).astype("Int8"), pd.Series(S)),
    "polars": lambda: (pl.Series(Y), pl.Series(S)),
    "tensors": lambda: (torch.tensor(Y), torch.tensor(S)),
    "objects": lambda: (Y.astype(object), S.astype(object)),
}

REFUSED: dict[str, Callable[[], tuple[Any, Any]]] = {
    "NaN": lambda: (Y, np.where(np.arange(N) == 7, np.nan, S)),
    "infinity": lambda: (Y, np.where(np.arange(N) == 7, np.inf, S)),
    "minus infinity": lambda: (Y, np.where(np.arange(N) == 7, -np.inf, S)),
    "text": lambda: (Y, S.astype(str)),
    "dates": lambda: (Y, S.astype("M8[D]")),
    "complex": lambda: (Y, S + 0j),
    "empty": lambda: (Y[:0], S[:0]),
    "two columns": lambda: (Y, np.stack([S, S], 1)),
    "no positives": lambda: (np.zeros(N, bool), S),
    "labels 1 and 2": lambda: (Y + 1, S),
    "labels of text": lambda: (np.where(Y, "a", "b"), S),
    "categories": lambda: (pd.Series(np.where(Y, "a", "b")).astype("category"), S),
    "missing labels": lambda: (pd.Series(Y).astype("boolean").mask(Y), S),
    "a sparse vector": lambda: (Y, sp.csr_matrix(S)),
    "None": lambda: (None, None),
    "a dictionary": lambda: (Y, {"a": 1}),
    "lengths": lambda: (Y, S[1:]),
}


def contents(values: Any) -> bytes | None:
    """What must not change."""
    return values.tobytes() if isinstance(values, np.ndarray) else None


def equal(found: Any, expected: Any, **how: Any) -> None:
    if isinstance(expected, (tuple, list)):
        for one, other in zip(found, expected, strict=True):
            equal(one, other, **how)
    elif expected is not None:
        np.testing.assert_allclose(found, expected, **{"rtol": 1e-12, "atol": 1e-12, **how})


@pytest.mark.parametrize("function", SCORE_FUNCTIONS)
@pytest.mark.parametrize("given", SAME)
def test_scores_of_every_kind_give_what_plain_ones_give(function: str, given: str) -> None:
    call = SCORE_FUNCTIONS[function]
    y, s = SAME[given]()
    before = contents(y), contents(s)
    equal(call(y, s), call(Y.copy(), S.copy()))
    assert (contents(y), contents(s)) == before


@pytest.mark.parametrize("function", SCORE_FUNCTIONS)
@pytest.mark.parametrize("given", REFUSED)
def test_scores_that_mean_nothing_are_refused(function: str, given: str) -> None:
    y, s = REFUSED[given]()
    with pytest.raises(ApmaxError):
        SCORE_FUNCTIONS[function](y, s)


EXTREME: dict[str, Any] = {
    "subnormals": S * 5e-324 * 2**20,
    "float16": S.astype(np.float16),
    "integers": np.arange(N) % 7,
    "bool": S > 0,
    "all tied": np.zeros(N),
    "±700": np.where(Y, 700.0, -700.0),
    "±1e5": np.where(np.arange(N) % 2, 1e5, -1e5) + S,
    "perfectly separated": np.where(Y, 1.0, 0.0) + S * 1e-3,
    "one far away": np.where(np.arange(N) == 3, 1e9, S),
}


@pytest.mark.parametrize("function", SCORE_FUNCTIONS)
@pytest.mark.parametrize("given", EXTREME)
def test_extreme_scores_give_what_their_doubles_give(function: str, given: str) -> None:
    call, s = SCORE_FUNCTIONS[function], EXTREME[given]
    before = s.tobytes()
    found = call(Y, s)
    equal(found, call(Y, s.astype(np.float64)))
    for part in found if isinstance(found, (tuple, list)) else [found]:
        assert part is None or np.isfinite(np.asarray(part, dtype=float)).all()
    assert s.tobytes() == before


@pytest.mark.parametrize("scale", [1e300, 1e308], ids=["1e300", "1e308"])
def test_huge_scores_keep_their_ranking_or_are_refused(scale: float) -> None:
    s = np.clip(S / np.abs(S).max(), -1, 1) * scale
    assert average_precision(Y, s) == pytest.approx(average_precision(Y, S))
    with pytest.raises(ApmaxError, match="squares that double precision cannot hold"):
        surrogate_ap(s, Y)


SHAPES: dict[str, tuple[Any, Any]] = {
    "one row": (np.array([True]), np.array([0.5])),
    "one positive": (np.arange(N) == 3, S),
    "all positive": (np.ones(N, bool), S),
    "duplicated rows": (np.repeat(Y, 3), np.repeat(S, 3)),
}


@pytest.mark.parametrize("given", SHAPES)
def test_few_and_many_positives_agree_with_the_definition(given: str) -> None:
    y, s = SHAPES[given]
    at_least = s[None, :] >= s[y][:, None]
    assert average_precision(y, s) == pytest.approx(
        (at_least[:, y].sum(1) / at_least.sum(1)).mean()
    )
    result = surrogate_ap(s, y, surrogate="logistic", gamma=2.0)
    pairs = 1 / (1 + np.exp(-2.0 * (s[None, :] - s[y][:, None])))
    assert result.value == pytest.approx((pairs[:, y].sum(1) / pairs.sum(1)).mean(), rel=1e-6)
    assert np.isfinite(result.gradient).all()


# --- estimators

X = RNG.normal(size=(N, 4)) + Y[:, None] * [1.0, 0.5, 0.0, 0.0]
X[RNG.random(X.shape) < 0.3] = 0.0
X = X.astype(np.float32).astype(np.float64)


class Fit(NamedTuple):
    """What fits, and how near its results must be when the input is stored in another way."""

    make: Callable[[], Any]
    near: float


ESTIMATORS: dict[str, Fit] = {
    "lbfgs": Fit(lambda: APClassifier(max_iter=20), 1e-6),
    "adap-adam": Fit(lambda: APClassifier("adap-adam", max_iter=30, random_state=0), 1e-9),
    "cv": Fit(lambda: APClassifierCV(cv=2, alphas=[1.0, 0.1], max_iter=5), 1e-6),
}


def int64_csr(X: Any) -> Any:
    matrix = sp.csr_matrix(X)
    matrix.indices, matrix.indptr = (
        matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    )  # fmt: skip
    return matrix


def unsorted_csr(X: Any) -> Any:
    matrix = sp.csr_matrix(X)
    for row in range(matrix.shape[0]):
        span = slice(matrix.indptr[row], matrix.indptr[row + 1])
        matrix.indices[span], matrix.data[span] = (
            matrix.indices[span][::-1].copy(), matrix.data[span][::-1].copy()
        )  # fmt: skip
    matrix.has_sorted_indices = False
    matrix.has_canonical_format = False
    return matrix


def doubled_csr(X: Any) -> Any:
    """Every entry twice, each of half its size."""
    plain = sp.csr_matrix(X)
    return sp.csr_matrix(
        (np.repeat(plain.data, 2) / 2, np.repeat(plain.indices, 2), plain.indptr * 2), plain.shape
    )


DENSE: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    "Fortran order": lambda _: (np.asfortranarray(X), Y),
    "not contiguous": lambda _: (np.repeat(X, 2, axis=1)[:, ::2], Y),
    "read-only": lambda _: (frozen(X), frozen(Y)),
    "memory-mapped": lambda folder: (mapped(X, folder), Y),
    "big-endian": lambda _: (X.astype(">f8"), Y),
    "pandas": lambda _: (pd.DataFrame(X, columns=list("abcd")), pd.Series(Y)),
    "nullable pandas": lambda _: (pd.DataFrame(X).astype("Float64"), Y),
    "polars": lambda _: (pl.DataFrame(X), pl.Series(Y)),
    "lists": lambda _: (X.tolist(), Y.tolist()),
    "labels 0 and 1": lambda _: (X, Y.astype(int)),
    "labels -1 and 1": lambda _: (X, np.where(Y, 1, -1)),
    "labels 1 and 2": lambda _: (X, Y + 1),
    "labels of text": lambda _: (X, np.where(Y, "yes", "no")),
    "labels of objects": lambda _: (X, np.where(Y, "yes", "no").astype(object)),
    "categories": lambda _: (X, pd.Series(np.where(Y, "yes", "no")).astype("category")),
    "nullable labels": lambda _: (X, pd.Series(Y).astype("Int64")),
}
SPARSE: dict[str, Callable[[], Any]] = {
    "int64 indices": lambda: int64_csr(X),
    "unsorted indices": lambda: unsorted_csr(X),
    "doubled entries": lambda: doubled_csr(X),
    "CSC": lambda: sp.csc_matrix(X),
    "COO": lambda: sp.coo_matrix(X),
    "sparse array": lambda: sp.csr_array(X),
}


def mapped(values: Any, folder: Path) -> Any:
    np.save(folder / "x.npy", values)
    return np.load(folder / "x.npy", mmap_mode="r")


def fitted(name: str, X: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "invalid value encountered in reduce")  # scikit-learn's
        return ESTIMATORS[name].make().fit(X, y)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_data_of_every_kind_give_the_same_model(name: str, tmp_path: Path) -> None:
    plain = fitted(name, X, Y)
    scores = plain.decision_function(X)
    for given, make in DENSE.items():
        X_given, y = make(tmp_path)
        before = contents(X_given), contents(y)
        model = fitted(name, X_given, y)
        equal(model.decision_function(X_given), scores, rtol=ESTIMATORS[name].near, err_msg=given)
        assert model.predict_proba(X_given).shape == (N, 2)
        assert set(model.predict(X_given)) <= set(np.unique(np.asarray(y)))
        assert (contents(X_given), contents(y)) == before, given


def parts(matrix: Any) -> list[bytes]:
    names = ("data", "indices", "indptr", "row", "col")
    return [getattr(matrix, name).tobytes() for name in names if hasattr(matrix, name)]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_sparse_data_of_every_kind_give_the_same_model(name: str) -> None:
    scores = fitted(name, sp.csr_matrix(X), Y).decision_function(sp.csr_matrix(X))
    for given, make in SPARSE.items():
        matrix = make()
        before = parts(matrix)
        model = fitted(name, matrix, Y)
        equal(model.decision_function(matrix), scores, rtol=1e-5, atol=1e-7, err_msg=given)
        assert parts(matrix) == before, given


HARD: dict[str, tuple[Any, Any]] = {
    "one feature": (X[:, :1], Y),
    "one positive": (X, np.arange(N) == 3),
    "one negative": (X, np.arange(N) != 3),
    "two rows": (X[:2], np.array([True, False])),
    "perfectly separated": (np.where(Y, 1.0, -1.0)[:, None] + 0.1 * X, Y),
    "all rows alike": (np.ones((N, 3)), Y),
    "duplicated rows": (np.repeat(X, 3, axis=0), np.repeat(Y, 3)),
    "duplicated features": (np.tile(X, 3), Y),
    "a constant feature": (np.column_stack([X, np.full(N, 1e9)]), Y),
    "subnormal features": (X * 1e-310, Y),
    "tiny features": (X * 1e-150, Y),
    "huge features": (X * 1e140, Y),
    "integers": ((X * 10).astype(int), Y),
    "float16": (X.astype(np.float16), Y),
    "bool": (X > 0, Y),
    "more features than rows": (RNG.normal(size=(20, 100)), Y[:20]),
    "an empty sparse matrix": (sp.csr_matrix((N, 4)), Y),
}


@pytest.mark.parametrize("name", ["lbfgs", "adap-adam"])
@pytest.mark.parametrize("given", HARD)
def test_hard_data_give_a_finite_model_or_a_named_error(name: str, given: str) -> None:
    X_given, y = HARD[given]
    try:
        model = fitted(name, X_given, y)
    except ValueError:  # of ours, or of scikit-learn's checks
        return
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.decision_function(X_given)).all()


NO_DATA: dict[str, tuple[Any, Any]] = {
    "NaN": (np.where(X == 0, np.nan, X), Y),
    "infinity": (np.where(X == 0, np.inf, X), Y),
    "1e160, whose squares overflow": (X * 1e160, Y),
    "1e308, whose differences overflow": (np.where(X > 0, 1.7e308, -1.7e308), Y),
    "text": (X.astype(str).astype(object) + "x", Y),
    "objects": (np.full((N, 2), None), Y),
    "no rows": (X[:0], Y[:0]),
    "no columns": (X[:, :0], Y),
    "one class": (X, np.ones(N, bool)),
    "three classes": (X, np.arange(N) % 3),
    "missing labels": (X, np.where(Y, np.nan, 0.0)),
    "lengths": (X, Y[1:]),
    "three dimensions": (X[:, :, None], Y),
    "complex": (X + 0j, Y),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("given", NO_DATA)
def test_data_that_mean_nothing_are_refused(name: str, given: str) -> None:
    with pytest.raises(ValueError, match=r"\w+ \w+ \w+"):
        fitted(name, *NO_DATA[given])


# --- torch

LOSSES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "APLoss": lambda s: APLoss(Y)(s, torch.arange(N)),
    "APLoss, moving average": lambda s: APLoss(Y, tracker="moving_average")(s, torch.arange(N)),
    "APLoss, logistic": lambda s: APLoss(Y, surrogate="logistic")(s, torch.arange(N)),
    "SmoothAPLoss": lambda s: SmoothAPLoss()(s, torch.tensor(Y)),
    "FastAPLoss": lambda s: FastAPLoss()(s, torch.tensor(Y)),
    "BlackboxAPLoss": lambda s: BlackboxAPLoss()(s, torch.tensor(Y)),
    "ExactAPLoss": lambda s: ExactAPLoss()(s, torch.tensor(Y)),
}
P = torch.tensor(S).sigmoid()
TENSORS: dict[str, torch.Tensor] = {
    "not contiguous": P.repeat_interleave(2)[::2],
    "float32": P.float(),
    "float16": P.half(),
    "bfloat16": P.bfloat16(),
    "all tied": torch.full((N,), 0.5),
    "perfectly separated": torch.tensor(Y).double(),
    "σ(±700)": torch.where(torch.tensor(Y), 700.0, -700.0).sigmoid(),
    "subnormals": P * 1e-310,
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("given", TENSORS)
def test_losses_of_every_kind_of_scores_are_finite_and_near_those_of_doubles(
    loss: str, given: str
) -> None:
    scores = TENSORS[given].clone().requires_grad_()
    before = scores.detach().clone()
    value = LOSSES[loss](scores)
    value.backward()
    assert scores.grad is not None
    assert torch.isfinite(value)
    assert torch.isfinite(scores.grad).all()
    torch.testing.assert_close(scores.detach(), before, rtol=0, atol=0)
    wide = LOSSES[loss](TENSORS[given].double())
    assert value.item() == pytest.approx(wide.item(), abs=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf], ids=["NaN", "inf", "-inf"])
def test_losses_refuse_scores_that_are_not_finite(loss: str, bad: float) -> None:
    scores = P.clone()
    scores[5] = bad
    with pytest.raises(ApmaxError):
        LOSSES[loss](scores)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_refuse_what_are_no_floats_of_one_batch(loss: str) -> None:
    for bad in (torch.arange(N), torch.zeros(N, 2, 2), P[:-1], P + 0j, [0.5] * N):
        with pytest.raises(ApmaxError):
            LOSSES[loss](bad)


@pytest.mark.parametrize("given", SAME)
def test_the_sampler_reads_labels_of_every_kind(given: str) -> None:
    y, _ = SAME[given]()
    found = list(PositiveNegativeBatchSampler(y, batch_size=10))
    assert found == list(PositiveNegativeBatchSampler(Y, batch_size=10))


@pytest.mark.parametrize("optimizer", [SOAP, MOAP, ADAP], ids=["SOAP", "MOAP", "ADAP"])
@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-30, 1e18], ids=str)
def test_steps_along_extreme_gradients_are_finite(optimizer: Any, size: float) -> None:
    w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    steps = optimizer([w], lr=1e-3)
    for _ in range(5):
        w.grad = torch.tensor([size, -size, 0.0], dtype=torch.float64)
        steps.step()
    assert torch.isfinite(w).all()
    assert w[2] == 0


# --- the pipeline

FRAMES: dict[str, Any] = {
    "infinities": pd.DataFrame({"a": np.where(Y, np.inf, S), "b": S}),
    "a column of nothing": pd.DataFrame({"a": [None] * N, "b": S}),
    "subnormals and 1e308": pd.DataFrame({"a": S * 1e-310, "b": np.sign(S) * 1e308, "c": S}),
    "nullable": pd.DataFrame({"a": pd.Series(S).mask(Y).astype("Float64"), "b": S}),
    "categories": pd.DataFrame({"a": pd.Series(np.where(S > 0, "x", "y")).astype("category")}),
    "names that are numbers": pd.DataFrame({0: S, 1: -S}),
    "times with a zone": pd.DataFrame(
        {"a": pd.date_range("2020", periods=N, tz="UTC"), "b": S}
    ),
    "bytes": pd.DataFrame({"a": [b"\xff", b"a"] * (N // 2), "b": S}),
    "lists": pd.DataFrame({"a": [[1], [2]] * (N // 2), "b": S}),
    "huge integers": pd.DataFrame({"a": [2**63, -1] * (N // 2), "b": S}),
}  # fmt: skip


@pytest.mark.parametrize("given", FRAMES)
def test_a_frame_of_any_columns_is_trained_on_or_refused(given: str) -> None:
    frame = FRAMES[given].copy()
    data = Dataset(frame, Y, "yes", "no", list(map(str, frame.columns)), "y", Path("frame"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "invalid value encountered in reduce")  # scikit-learn's
        try:
            model = train(data, solver="lbfgs").model
        except ApmaxError:
            return
    assert np.isfinite(model.log_odds(frame)).all()
    pd.testing.assert_frame_equal(frame, FRAMES[given])


def test_a_report_of_extreme_scores_is_written(tmp_path: Path) -> None:
    for name, s in EXTREME.items():
        write_report(Report(f"<{name}>", [Scored("a", Y, s)]), tmp_path / "report.html")
        text = (tmp_path / "report.html").read_text()
        assert "NaN" not in text.split("<script")[0]
