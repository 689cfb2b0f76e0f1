"""One row for each way to go wrong: the class, and the words that tell what to do."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from apmax import (
    ApmaxError,
    average_precision,
    errors,
    operating_point,
    surrogate_ap,
)
from apmax.app.io import load
from apmax.app.model import load_model
from apmax.binary_target import binary_target
from apmax.linear.stochastic import check_method
from apmax.methods import METHODS, Direction, Method, check_beta, register, resolve_method
from apmax.objective.surrogates import SQUARED_HINGE, Surrogate
from apmax.objective.surrogates import register as register_surrogate
from apmax.validation import check_count

Y = [0, 1, 0]
S = [0.1, 0.9, 0.2]

SCORE_ROWS: list[tuple[str, Any, Any, dict[str, Any], type[Exception], str]] = [
    # what is wrong, y, scores, options, the error, what its message must say
    ("NaN score", Y, [0.1, np.nan, 0.2], {}, errors.NonFiniteError, r"nan at position 1 .*drop or"),
    ("infinite score", Y, [0.1, 1, np.inf], {}, errors.NonFiniteError, r"inf at position 2"),
    ("-infinite score", Y, [-np.inf, 1, 1], {}, errors.NonFiniteError, r"-inf at position 0"),
    ("text scores", Y, ["a", "b", "c"], {}, errors.NotNumericError, r"predict_proba"),
    ("object scores", Y, [None, 1, 2], {}, errors.NotNumericError, r"real numbers"),
    ("complex scores", Y, [1j, 1, 2], {}, errors.NotNumericError, r"complex"),
    ("two columns", Y, [[0.1, 0.9]] * 3, {}, errors.ShapeError, r"shape \(3, 2\).*predict_proba"),
    ("a single number", 1, 0.5, {}, errors.ShapeError, r"one-dimensional"),
    ("empty", [], [], {}, errors.ShapeError, r"is empty"),
    ("lengths differ", Y, S[:2], {}, errors.ShapeError, r"3 elements.*2|2 elements.*3"),
    ("no positive", [0, 0, 0], S, {}, errors.NoPositiveError, r"no positive.*pos_label"),
    ("no positive, -1", [-1, -1, -1], S, {}, errors.NoPositiveError, r"no positive"),
    ("no positive, bool", [False] * 3, S, {}, errors.NoPositiveError, r"no positive"),
    ("three classes", [0, 1, 2], S, {}, errors.LabelError, r"3 classes \(0, 1, 2\).*two"),
    ("swapped", S, Y, {}, errors.LabelError, r"swap the arguments"),
    ("labels 1 and 2", [1, 2, 1], S, {}, errors.LabelError, r"holds 1, 2.*pos_label="),
    ("text labels", ["a", "b", "a"], S, {}, errors.LabelError, r"'a', 'b'.*pos_label="),
    ("NaN label", [0, 1, np.nan], S, {}, errors.LabelError, r"1 missing labels .*position 2.*drop"),
    ("-1 and 0 and 1", [-1, 0, 1], S, {}, errors.LabelError, r"3 classes"),
    ("pos_label absent", Y, S, {"pos_label": 7}, errors.NoPositiveError, r"equals 7"),
    ("negative weight", Y, S, {"sample_weight": [1, -2, 1]}, errors.WeightError, r"-2.0 at position 1"),
    ("NaN weight", Y, S, {"sample_weight": [1, np.nan, 1]}, errors.NonFiniteError, r"sample_weight"),
    ("short weight", Y, S, {"sample_weight": [1, 2]}, errors.ShapeError, r"`sample_weight` has 2"),
    ("weights too far apart", Y, S, {"sample_weight": [1e300, 1e-300, 1]}, errors.WeightError, r"1e-300 to 1e\+300"),
    ("None among labels", [0, 1, None], S, {"pos_label": 1}, errors.LabelError, r"missing labels .*position 2"),
    ("NaN among text labels", np.array(["a", np.nan, "b"], dtype=object), S, {"pos_label": "a"}, errors.LabelError, r"missing labels .*position 1"),
    ("pos_label of another case", ["fraud", "ok", "ok"], S, {"pos_label": "Fraud"}, errors.NoPositiveError, r"labels are 'fraud', 'ok'"),
    ("pos_label a list", Y, S, {"pos_label": [1, 2, 3]}, errors.LabelError, r"one label"),
    ("ragged scores", Y, [[1], [2, 3], [4]], {}, errors.ShapeError, r"flat list"),
    ("integers beyond doubles", Y, [2**60, 2**60 + 1, 0], {}, errors.NotNumericError, r"2⁵³"),
    ("positives weigh 0", Y, S, {"sample_weight": [1, 0, 1]}, errors.WeightError, r"every positive"),
]  # fmt: skip


@pytest.mark.parametrize(
    "function",
    [
        lambda y, s, **options: surrogate_ap(s, y, **options),
        average_precision,
        lambda y, s, **options: operating_point(y, s, recall=0.5, **options),
    ],
    ids=["surrogate_ap", "average_precision", "operating_point"],
)
@pytest.mark.parametrize(
    ("y", "scores", "options", "error", "message"),
    [row[1:] for row in SCORE_ROWS],
    ids=[row[0] for row in SCORE_ROWS],
)
def test_bad_labels_scores_and_weights(
    function: Callable[..., Any],
    y: Any,
    scores: Any,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message) as caught:
        function(y, scores, **options)
    assert isinstance(caught.value, ApmaxError)
    assert isinstance(caught.value, ValueError)


def gather_in_vain() -> None:
    torch = pytest.importorskip("torch")
    from apmax.torch.distributed import _all_gather

    with (
        mock.patch("torch.distributed.all_gather", side_effect=RuntimeError("Timed out")),
        mock.patch("torch.distributed.get_rank", return_value=1),
    ):
        _all_gather([torch.zeros(1)] * 2, torch.zeros(1), None)


def broken_file() -> str:
    path = Path(FOLDER.name) / "broken.csv"
    path.write_bytes(b"y,x\n1,\0\n")
    return str(path)


FOLDER = tempfile.TemporaryDirectory()
FRAUD = ["ok", "fraud", "ok"]


def read_deadly_partition() -> None:
    pytest.importorskip("distributed")
    from apmax.scale.cluster import _partition_error

    raise _partition_error("apmax-log_loss-ab12-17", [])


def wait_for_workers() -> None:
    pytest.importorskip("distributed")
    from apmax.scale.cluster import result_of

    with mock.patch("apmax.scale.cluster.wait", side_effect=TimeoutError):
        result_of(mock.MagicMock(**{"nthreads.return_value": {}}), None, timeout=1e-3)


def load_damaged_checkpoint() -> None:
    from apmax.scale.blocks import MemoryBlocks
    from apmax.scale.checkpoint import Checkpoint
    from apmax.scale.sums import merge_statistics, statistics

    found = MemoryBlocks(np.eye(2), np.array([True, False])).fold(statistics, merge_statistics)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(b"{}\n")
        file.flush()
        Checkpoint(file.name).load({}, found)


OPTION_ROWS: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("γ = 0", lambda: surrogate_ap(S, Y, gamma=0), errors.ParameterError, r"`gamma` must be a finite number and > 0 .*, got 0: .*start with 0.1"),
    ("γ < 0", lambda: surrogate_ap(S, Y, gamma=-1.0), errors.ParameterError, r"got -1.0"),
    ("γ NaN", lambda: surrogate_ap(S, Y, gamma=np.nan), errors.ParameterError, r"got nan"),
    ("γ text", lambda: surrogate_ap(S, Y, gamma="x"), errors.ParameterError, r"got 'x'"),
    ("surrogate misspelt", lambda: surrogate_ap(S, Y, surrogate="logistc"), errors.UnknownNameError, r"did you mean 'logistic'\?"),
    ("surrogate unlike any", lambda: surrogate_ap(S, Y, surrogate="zzz"), errors.UnknownNameError, r"choose from 'logistic', 'squared_hinge'"),
    ("surrogate None", lambda: surrogate_ap(S, Y, surrogate=None), errors.UnknownNameError, r"None"),
    ("squares overflow", lambda: surrogate_ap([1e200, -1e200], [1, 0]), errors.NonFiniteError, r"common factor"),
    ("squares underflow", lambda: surrogate_ap(S, Y, gamma=1e-160), errors.ParameterError, r"≥ 1e-150"),
    ("squares of weights underflow", lambda: surrogate_ap(S, Y, gamma=1e-120, sample_weight=[1, 1e-90, 1]), errors.NonFiniteError, r"common factor"),
    ("γ too large", lambda: surrogate_ap(S, Y, gamma=1e200), errors.ParameterError, r"≤ 1e\+150"),
    ("γ too large for a double", lambda: surrogate_ap(S, Y, gamma=10**400), errors.ParameterError, r"finite"),
    ("γ True", lambda: surrogate_ap(S, Y, gamma=True), errors.ParameterError, r"got True"),
    ("recall as text", lambda: operating_point(Y, S, recall="0.7"), errors.ParameterError, r"got '0.7'"),
    ("surrogate flat, given", lambda: surrogate_ap(S, Y, surrogate=Surrogate("flat", lambda x, g: 0 * x, lambda x, g: 0 * x)), errors.ParameterError, r"must be positive"),
    ("surrogate of a wrong shape", lambda: surrogate_ap(S, Y, surrogate=Surrogate("one", lambda x, g: np.ones(1), lambda x, g: np.ones(1))), errors.ParameterError, r"one number per difference"),
    ("surrogate with a wrong slope", lambda: surrogate_ap(S, Y, surrogate=Surrogate("w", lambda x, g: np.exp(x), lambda x, g: -x)), errors.ParameterError, r"slope must be the derivative"),
    ("second moment misspelt", lambda: Direction("d", second_moment="runing"), errors.UnknownNameError, r"'running'"),
    ("direction that is no direction", lambda: Method("a", "A", "none", 42, "constant"), errors.UnknownNameError, r"42"),
    ("surrogate that is no function", lambda: surrogate_ap(S, Y, surrogate=Surrogate("z", 1, 2)), errors.ParameterError, r"cannot be called"),
    ("batch ranks projected", lambda: Method("a", "A", "none", "plain", "constant", True, pairs="batch"), errors.ParameterError, r"projected=False"),
    ("no target", lambda: operating_point(Y, S), errors.ParameterError, r"give one of .* got none"),
    ("two targets", lambda: operating_point(Y, S, precision=0.5, recall=0.5), errors.ParameterError, r"got `precision` and `recall`"),
    ("one cost", lambda: operating_point(Y, S, cost=20), errors.ParameterError, r"such as \(1, 20\)"),
    ("cost 0", lambda: operating_point(Y, S, cost=(0, 20)), errors.ParameterError, r"`cost`.* > 0"),
    ("precision > 1", lambda: operating_point(Y, S, precision=1.5), errors.ParameterError, r"≤ 1, got 1.5"),
    ("recall 0", lambda: operating_point(Y, S, recall=0), errors.ParameterError, r"> 0 and ≤ 1"),
    ("unreachable", lambda: operating_point([1, 0], [0, 1], precision=0.9), errors.UnreachableTargetError, r"highest is 0.5, at threshold 0; ask for less"),
    ("surrogate twice", lambda: register_surrogate(SQUARED_HINGE), errors.ParameterError, r"already registered"),
    ("surrogate flat at 0", lambda: register_surrogate(Surrogate("flat", lambda x, g: 0 * x, lambda x, g: 0 * x)), errors.ParameterError, r"must be positive"),
    ("method misspelt", lambda: resolve_method("adap-adm"), errors.UnknownNameError, r"did you mean 'adap-adam'"),
    ("method twice", lambda: register(METHODS["sox"]), errors.ParameterError, r"already registered"),
    ("tracker misspelt", lambda: Method("a", "A", "moving_avrage", "plain", "constant", False), errors.UnknownNameError, r"'moving_average'"),
    ("direction misspelt", lambda: Method("a", "A", "none", "adamm", "constant", False), errors.UnknownNameError, r"'adam'"),
    ("schedule misspelt", lambda: Method("a", "A", "none", "plain", "sqrt", False), errors.UnknownNameError, r"'inverse_sqrt'"),
    ("β = 0", lambda: check_beta(0.0, "beta1"), errors.ParameterError, r"`beta1`.*one minus torch's"),
    ("a tracker that the linear loop lacks", lambda: check_method(Method("a", "A", "msvr", "plain", "constant")), errors.BackendError, r"'msvr' needs .*previous parameters"),
    ("pairs misspelt", lambda: Method("a", "A", "none", "plain", "constant", False, pairs="batches"), errors.UnknownNameError, r"'batch'"),
    ("pos_label of another case, fit", lambda: binary_target(FRAUD, pos_label="Fraud"), errors.LabelError, r"'Fraud' is not a class of `y`: choose 'fraud' or 'ok'$"),
    ("pos_label a number for text", lambda: binary_target(FRAUD, pos_label=1), errors.LabelError, r"1 is not a class of `y`"),
    ("pos_label text for numbers", lambda: binary_target([1, 2, 1], pos_label="1"), errors.LabelError, r"'1' is not .*: choose 1 or 2$"),
    ("pos_label of three classes", lambda: binary_target([0, 1, 2], pos_label=1, estimator="APClassifier"), errors.LabelError, r"3 classes.* write OneVsRestClassifier\(APClassifier\(\)\)\.fit\(X, y\)"),
    ("pos_label a list, fit", lambda: binary_target(FRAUD, pos_label=["fraud"]), errors.LabelError, r"\['fraud'\] is not a class"),
    ("labels encoded by scikit-learn", lambda: binary_target(Y, pos_label="fraud"), errors.LabelError, r"cross_val_predict.*give them y == 'fraud'"),
    ("labels of mixed types", lambda: binary_target(np.array(["ok", 1, "ok"], dtype=object)), errors.LabelError, r"mixes labels of different types"),
    ("one class", lambda: binary_target([1, 1]), errors.LabelError, r"one class only \(1\)"),
    ("negatives weigh 0", lambda: binary_target(Y, Y), errors.WeightError, r"every negative"),
    ("a missing file", lambda: load("no-such-file.csv"), errors.FileError, r"no-such-file.csv"),
    ("a file of another format", lambda: load(broken_file(), target="y"), errors.FileFormatError, r"zero byte"),
    ("a file that is not a model", lambda: load_model(__file__), errors.ModelFileError, r"apmax train"),
    ("a count that is no integer", lambda: check_count(2.5, "k", why="it counts"), errors.ParameterError, r"integer ≥ 1, got 2.5: it counts"),
    ("a partition that ends its workers", read_deadly_partition, errors.PartitionError, r"partition 17 ended repeatedly.*smaller partitions"),
    ("a cluster without workers", wait_for_workers, errors.NoWorkerError, r"no worker for 0\.001 seconds: start workers"),
    ("not a checkpoint", load_damaged_checkpoint, errors.CheckpointError, r"not a checkpoint.*delete it"),
    ("a rank that hangs", gather_in_vain, errors.RankError, r"rank 1 waited .* did not answer \(Timed out\).*`timeout`"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [row[1:] for row in OPTION_ROWS],
    ids=[row[0] for row in OPTION_ROWS],
)
def test_bad_options(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_every_error_class_is_raised_by_some_row() -> None:
    raised = {row[4] for row in SCORE_ROWS} | {row[2] for row in OPTION_ROWS}
    leaves = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value not in (errors.ApmaxError, errors.InputError)
    }
    assert leaves <= raised


def test_the_tree_in_the_docstring_names_every_class() -> None:
    assert errors.__doc__ is not None
    for name, value in vars(errors).items():
        if isinstance(value, type):
            assert name in errors.__doc__


def test_nothing_passed_in_is_modified() -> None:
    y, s, w = np.array([0, 1, 0]), np.array([0.1, 0.9, 0.2]), np.array([1.0, 2.0, 0.0])
    before = [part.copy() for part in (y, s, w)]
    for part in (y, s, w):
        part.setflags(write=False)
    surrogate_ap(s, y, sample_weight=w)
    surrogate_ap(s, y, sample_weight=w, surrogate="logistic")
    average_precision(y, s, sample_weight=w)
    operating_point(y, s, sample_weight=w, recall=1)
    for part, original in zip((y, s, w), before, strict=True):
        np.testing.assert_array_equal(part, original)


@pytest.mark.parametrize(
    ("y", "options"),
    [
        ([True, False, True], {}),
        ([1, 0, 1], {}),
        ([1.0, -1.0, 1.0], {}),
        (np.array([1, -1, 1], dtype=np.int8), {}),
        (np.array([1, 0, 1], dtype=object), {}),
        ([[1], [0], [1]], {}),
        ([2, 1, 2], {"pos_label": 2}),
        (["yes", "no", "yes"], {"pos_label": "yes"}),
        (np.array(["yes", 3, "yes"], dtype=object), {"pos_label": "yes"}),
    ],
)
def test_labels_of_every_kind_mean_the_same(y: Any, options: dict[str, Any]) -> None:
    s = np.array([0.5, 0.6, 0.9], dtype=np.float32)
    assert average_precision(y, s, **options) == pytest.approx((1 + 2 / 3) / 2, abs=1e-15)
    expected = surrogate_ap(s, [True, False, True])
    actual = surrogate_ap(s, y, **options)
    assert actual.value == expected.value
    np.testing.assert_array_equal(actual.gradient, expected.gradient)


def test_labels_of_pandas_mean_the_same() -> None:
    pd = pytest.importorskip("pandas")
    for dtype in ("int64", "Int64", "boolean", "category"):
        y = pd.Series([1, 0, 1]).astype(dtype)
        assert average_precision(y, pd.Series([0.5, 0.6, 0.9])) == pytest.approx(5 / 6)
