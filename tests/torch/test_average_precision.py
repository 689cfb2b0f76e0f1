"""APLoss: what it tracks, what it refuses, and what survives a checkpoint."""

from __future__ import annotations

import copy
import io
import math
import time
from typing import Any

import numpy as np
import pytest
import torch

from apmax import surrogate_ap
from apmax.errors import (
    ApmaxError,
    LabelError,
    NonFiniteError,
    NoPositiveError,
    NotNumericError,
    ParameterError,
    ShapeError,
    UnknownNameError,
)
from apmax.torch import APLoss, SmoothAPLoss
from apmax.torch.pairs import Cells, PairWeights, pair_sums
from apmax.torch.surrogates import PAIR_TERMS

RNG = np.random.default_rng(0)
N = 300
POSITIVE = np.arange(N) < 9  # 3 % positives
SCORES = torch.from_numpy(RNG.random(N) * 0.5 + 0.3 * POSITIVE)


def batch(rng: np.random.Generator, plus: int = 4, minus: int = 8) -> Any:
    chosen = [rng.choice(9, plus, replace=False), 9 + rng.choice(N - 9, minus, replace=False)]
    return torch.from_numpy(np.concatenate(chosen))


def both_ways(labels: Any, **options: Any) -> list[APLoss]:
    """The compiled loop, and the same in torch operations."""
    losses = [APLoss(labels, **options).double() for _ in range(2)]
    losses[1].fused = False
    return losses


@pytest.mark.parametrize("surrogate", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_pair_sums_are_unbiased_for_all_data(surrogate: str, which: int) -> None:
    loss = both_ways(POSITIVE, surrogate=surrogate, tracker="moving_average")[which]
    rng = np.random.default_rng(1)
    estimates = []
    for _ in range(3000):
        loss.written_at.fill_(math.nan)
        index = batch(rng)
        loss(SCORES[index], index)
        estimates.append(loss.tracked().numpy())
    mean = np.nanmean(estimates, axis=0)
    terms = PAIR_TERMS[surrogate]
    own = loss.own / N
    pairs = terms(SCORES[None, :] - SCORES[:9, None], loss.gamma)[0].numpy()
    expected = np.stack([pairs[:, :9].sum(1), pairs.sum(1)], axis=1) / N
    error = np.nanstd(estimates, axis=0) / np.sqrt(3000 * 4 / 9)
    assert (np.abs(mean - expected) < 5 * error + 1e-12).all()
    assert (mean[:, 0] > own * 0.999).all()


@pytest.mark.parametrize("surrogate", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_what_is_tracked_is_the_average_precision_of_the_data(surrogate: str, which: int) -> None:
    loss = both_ways(POSITIVE, surrogate=surrogate, tracker="moving_average", beta0=0.02)[which]
    rng = np.random.default_rng(2)
    for _ in range(1000):
        index = batch(rng, plus=6, minus=60)
        loss(SCORES[index], index)
    exact = surrogate_ap(SCORES.numpy(), POSITIVE, surrogate=surrogate, gamma=loss.gamma).value
    assert loss.average_precision() == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_what_is_tracked_does_not_fade_where_positives_are_seen_rarely(which: int) -> None:
    rng = np.random.default_rng(20)
    m, n = 20_000, 60_000
    scores = torch.from_numpy(rng.random(n) * 0.6 + 0.3 * (np.arange(n) < m))
    loss = both_ways(np.arange(n) < m)[which]
    for _ in range(300):
        drawn = np.concatenate([rng.choice(m, 16), m + rng.choice(n - m, 48)])
        index = torch.from_numpy(np.unique(drawn))
        loss(scores[index], index)
    exact = surrogate_ap(scores.numpy(), np.arange(n) < m, gamma=0.1).value
    assert loss.average_precision() == pytest.approx(exact, rel=0.05)


def test_the_average_precision_is_unknown_before_the_first_batch() -> None:
    assert math.isnan(APLoss(POSITIVE).average_precision())


@pytest.mark.parametrize("tracker", ["none", "moving_average", "randomized_coordinate"])
@pytest.mark.parametrize("surrogate", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("first_visit", ["estimate", "zero"])
def test_the_compiled_loop_equals_the_torch_operations(
    tracker: str, surrogate: str, first_visit: str
) -> None:
    options = {"tracker": tracker, "surrogate": surrogate, "first_visit": first_visit}
    compiled, plain = both_ways(POSITIVE, **options)
    rng = np.random.default_rng(3)
    for _ in range(40):
        index = batch(rng)
        scores = [SCORES[index].clone().requires_grad_() for _ in range(2)]
        values = [loss(s, index) for loss, s in zip((compiled, plain), scores, strict=True)]
        for value in values:
            value.backward()
        torch.testing.assert_close(values[0], values[1], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(scores[0].grad, scores[1].grad, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(compiled.tracked(), plain.tracked(), equal_nan=True)


def test_the_value_and_the_gradient_of_a_full_batch_are_those_of_the_exact_objective() -> None:
    for loss in both_ways(POSITIVE):
        scores = SCORES.clone().requires_grad_()
        value = loss(scores, torch.arange(N))
        value.backward()
        exact = surrogate_ap(SCORES.numpy(), POSITIVE, gamma=0.1)
        assert value.item() == pytest.approx(-exact.value, rel=1e-12)
        np.testing.assert_allclose(scores.grad.numpy(), -exact.gradient, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("surrogate", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("names", [1, 3])
def test_the_gradient_of_the_pair_sums_passes_gradcheck(surrogate: str, names: int) -> None:
    rng = np.random.default_rng(4)
    scores = torch.from_numpy(rng.random((names, 7))).requires_grad_()
    if names == 1:
        cells = Cells(None, torch.tensor([1, 4, 6]))
        own: Any = 0.2
    else:
        cells = Cells(torch.tensor([0, 0, 2]), torch.tensor([1, 3, 3]))
        own = torch.from_numpy(rng.random(3))
    plus, minus = (torch.from_numpy(rng.random((names, 7))) for _ in range(2))
    weights = PairWeights(own, plus, minus)
    gamma = 0.3 if surrogate == "squared_hinge" else 7.0
    assert torch.autograd.gradcheck(
        lambda s: pair_sums(s, cells, weights, PAIR_TERMS[surrogate], gamma), (scores,)
    )


# ---------------------------------------------------------------- several labels


def many_labels() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    labels = (rng.random((60, 3)) < 0.3).astype(float)
    scores = torch.from_numpy(rng.random((60, 3)))
    return labels, scores


def test_several_labels_are_the_mean_of_single_ones() -> None:
    labels, scores = many_labels()
    together = APLoss(labels).double()
    alone = [APLoss(labels[:, k]).double() for k in range(3)]
    rng = np.random.default_rng(6)
    for _ in range(15):
        index = torch.from_numpy(rng.choice(60, 30, replace=False))
        s = scores[index].clone().requires_grad_()
        value = together(s, index)
        value.backward()
        singles, gradients = [], []
        for k, loss in enumerate(alone):
            column = scores[index, k].clone().requires_grad_()
            single = loss(column, index)
            single.backward()
            singles.append(single.item())
            gradients.append(column.grad / 3)
        assert value.item() == pytest.approx(np.mean(singles), rel=1e-12)
        torch.testing.assert_close(s.grad, torch.stack(gradients, dim=1))
    expected = np.mean([loss.average_precision() for loss in alone])
    assert together.average_precision() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("missing", [math.nan, -1.0])
def test_missing_labels_are_as_if_the_example_were_not_there(missing: float) -> None:
    labels, scores = many_labels()
    holes = np.random.default_rng(7).random(labels.shape) < 0.3
    with_holes = np.where(holes, missing, labels)
    loss = APLoss(with_holes).double()
    s = scores.clone().requires_grad_()
    value = loss(s, torch.arange(60))
    value.backward()
    singles = []
    for k in range(3):
        known = ~holes[:, k]
        exact = surrogate_ap(scores[known, k].numpy(), labels[known, k], gamma=0.1)
        singles.append(-exact.value)
        np.testing.assert_allclose(s.grad[known, k], -exact.gradient / 3, rtol=1e-9, atol=1e-15)
        assert (s.grad[holes[:, k], k] == 0).all()
    assert value.item() == pytest.approx(np.mean(singles), rel=1e-12)


def test_a_label_that_the_batch_lacks_is_left_out() -> None:
    labels = np.zeros((20, 2))
    labels[:4, 0] = 1
    labels[10:14, 1] = 1
    loss = APLoss(labels).double()
    scores = torch.rand(10, 2, dtype=torch.float64, requires_grad=True)
    loss(scores, torch.arange(10)).backward()
    assert scores.grad[:, 0].any()
    assert not scores.grad[:, 1].any()
    assert int(loss.skipped) == 0


def test_minus_one_without_zero_is_refused_for_several_labels() -> None:
    with pytest.raises(LabelError, match="write negatives as 0"):
        APLoss(np.where(many_labels()[0] > 0, 1, -1))


# ---------------------------------------------------------------- what it costs


def test_the_state_is_at_most_24_bytes_per_positive() -> None:
    loss = APLoss(np.arange(100_000) < 10_000)
    state = loss.state_dict()
    total = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    assert total <= 24 * 10_000 + 200


def test_a_million_positives_of_thirty_three_million_are_read_in_a_second() -> None:
    labels = np.zeros(33_000_000, dtype=bool)
    labels[::33] = True
    start = time.perf_counter()
    loss = APLoss(labels)
    seconds = time.perf_counter() - start
    assert loss.num_rows == 1_000_000
    assert seconds < 1


# ---------------------------------------------------------------- precision and devices


def test_state_follows_to_and_double_but_never_below_single_precision() -> None:
    loss = APLoss(POSITIVE)
    assert loss.U.dtype == torch.float32
    assert loss.double().U.dtype == torch.float64
    for half in (torch.bfloat16, torch.float16):
        loss.to(half)
        assert loss.U.dtype == torch.float64
        assert APLoss(POSITIVE).to(half).U.dtype == torch.float32
    assert loss.float().U.dtype == torch.float32
    assert loss.written_at.dtype == loss.lows.dtype == torch.float64
    assert loss.to("meta").labels.cells.device.type == "meta"


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_bfloat16_scores_under_autocast(which: int) -> None:
    loss = APLoss(POSITIVE)
    loss.fused = which == 0
    model = torch.nn.Linear(4, 1)
    index = batch(np.random.default_rng(8))
    x = torch.randn(index.numel(), 4, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = torch.sigmoid(model(x))[:, 0]
        assert scores.dtype == torch.bfloat16
        value = loss(scores, index)
    value.backward()
    assert value.dtype == torch.float32
    assert model.weight.grad.isfinite().all()
    assert model.weight.grad.any()
    assert loss.U.dtype == torch.float32


def test_float32_agrees_with_float64() -> None:
    single, double = APLoss(POSITIVE), APLoss(POSITIVE).double()
    rng = np.random.default_rng(9)
    for _ in range(50):
        index = batch(rng)
        value = single(SCORES[index].float(), index)
        expected = double(SCORES[index], index)
        assert value.item() == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_a_compiled_step_gives_the_same_numbers(which: int) -> None:
    model = torch.nn.Linear(4, 1).double()
    x = torch.randn(N, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    losses = both_ways(POSITIVE)[which], both_ways(POSITIVE)[which]

    def step(loss: APLoss, index: Any) -> Any:
        return loss(torch.sigmoid(model(x[index]))[:, 0], index)

    compiled = torch.compile(step, backend="aot_eager")
    rng = np.random.default_rng(10)
    for _ in range(12):  # more often than torch recompiles before it gives up
        index = batch(rng)
        results = []
        for run, loss in ((step, losses[0]), (compiled, losses[1])):
            model.zero_grad()
            value = run(loss, index)
            value.backward()
            results.append((value.item(), model.weight.grad.clone()))
        assert results[0][0] == results[1][0]
        torch.testing.assert_close(results[0][1], results[1][1])
    torch.testing.assert_close(losses[0].U, losses[1].U)


# ---------------------------------------------------------------- checkpoints


def saved(module: Any) -> Any:
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def test_a_checkpoint_brings_back_the_same_run() -> None:
    first, rng = APLoss(POSITIVE), np.random.default_rng(11)
    for _ in range(10):
        index = batch(rng)
        first(SCORES[index], index)
    second = APLoss(POSITIVE)
    second.load_state_dict(saved(first))
    for _ in range(10):
        index = batch(rng)
        assert first(SCORES[index], index) == second(SCORES[index], index)
    for name, tensor in first.state_dict().items():
        torch.testing.assert_close(
            second.state_dict()[name], tensor, rtol=0, atol=0, equal_nan=True
        )


@pytest.mark.parametrize(
    "labels", [POSITIVE[::-1].copy(), np.append(POSITIVE, [False] * 50)], ids=["places", "n"]
)
def test_a_checkpoint_of_other_data_is_refused(labels: Any) -> None:
    state = saved(APLoss(POSITIVE))
    other = APLoss(labels)
    before = saved(other)
    with pytest.raises(RuntimeError, match="other labels"):
        other.load_state_dict(state)
    for name, tensor in saved(other).items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, equal_nan=True)


# ---------------------------------------------------------------- bad input

GOOD = batch(np.random.default_rng(12))
NO_POSITIVES, NO_NEGATIVES, ONE_POSITIVE = (
    torch.arange(20, 30),
    torch.arange(9),
    torch.arange(8, 30),
)


def bad_batches() -> dict[str, tuple[Any, Any, Any]]:
    scores = SCORES[GOOD]
    broken = scores.clone()
    broken[3] = math.nan
    endless = scores.clone()
    endless[0] = -math.inf
    outside, negative, twice = GOOD.clone(), GOOD.clone(), GOOD.clone()
    outside[2], negative[2], twice[2] = N, -1, GOOD[3]
    return {
        "NaN scores": (broken, GOOD, NonFiniteError),
        "infinite scores": (endless, GOOD, NonFiniteError),
        "logits": (scores * 50, GOOD, ParameterError),
        "a column": (scores[:, None].expand(-1, 2), GOOD, ShapeError),
        "too few indices": (scores, GOOD[1:], ShapeError),
        "an index outside": (scores, outside, ParameterError),
        "a negative index": (scores, negative, ParameterError),
        "an index twice": (scores, twice, ParameterError),
        "no index": (scores[:0], GOOD[:0], ShapeError),
        "float indices": (scores, GOOD.double(), NotNumericError),
        "a list of indices": (scores, GOOD.tolist(), NotNumericError),
        "an index on another device": (scores, GOOD.to("meta"), ParameterError),
        "integer scores": (scores.long(), GOOD, NotNumericError),
    }


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
@pytest.mark.parametrize("name", bad_batches())
def test_a_bad_batch_is_refused_and_changes_nothing(name: str, which: int) -> None:
    loss = both_ways(POSITIVE)[which]
    loss(SCORES[GOOD], GOOD)
    before = saved(loss)
    scores, index, error = bad_batches()[name]
    with pytest.raises(error):
        loss(scores, index)
    after = saved(loss)
    for key, tensor in before.items():
        torch.testing.assert_close(after[key], tensor, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
@pytest.mark.parametrize(
    "index", [NO_POSITIVES, NO_NEGATIVES, ONE_POSITIVE], ids=["no +", "no -", "one +"]
)
def test_a_poor_batch_is_skipped_and_counted_or_an_error(index: Any, which: int) -> None:
    loss = both_ways(POSITIVE)[which]
    loss(SCORES[GOOD], GOOD)
    before = saved(loss)
    scores = SCORES[index].clone().requires_grad_()
    value = loss(scores, index)
    value.backward()
    assert value.item() == 0
    assert not scores.grad.any()
    after = saved(loss)
    assert int(after.pop("skipped")) == int(before.pop("skipped")) + 1
    for key, tensor in before.items():
        torch.testing.assert_close(after[key], tensor, rtol=0, atol=0, equal_nan=True)
    strict = both_ways(POSITIVE, poor_batch="error")[which]
    with pytest.raises(NoPositiveError, match="PositiveNegativeBatchSampler"):
        strict(SCORES[index], index)


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_a_single_positive_in_the_data_works(which: int) -> None:
    one = np.arange(20) == 7
    loss = both_ways(one)[which]
    scores = torch.linspace(0, 1, 20, dtype=torch.float64).requires_grad_()
    loss(scores, torch.arange(20)).backward()
    assert scores.grad[7] < 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"gamma": 0}, ParameterError),
        ({"gamma": -1.0}, ParameterError),
        ({"gamma": math.nan}, ParameterError),
        ({"beta0": 0.0}, ParameterError),
        ({"beta0": 1.5}, ParameterError),
        ({"surrogate": "squared_hing"}, UnknownNameError),
        ({"tracker": "moving_averag"}, UnknownNameError),
        ({"schedule": "sqrt"}, UnknownNameError),
        ({"first_visit": "one"}, UnknownNameError),
        ({"poor_batch": "ignore"}, UnknownNameError),
        ({"spread": 0}, ParameterError),
    ],
)
def test_bad_options_are_named(options: Any, error: Any) -> None:
    with pytest.raises(error, match=next(iter(options))):
        APLoss(POSITIVE, **options)


def test_a_misspelt_keyword_is_not_swallowed() -> None:
    with pytest.raises(TypeError, match="gama"):
        APLoss(POSITIVE, gama=0.1)


@pytest.mark.parametrize(
    "labels",
    [
        np.ones(5),
        np.zeros(5),
        np.array([0, 1, 2]),
        np.array([]),
        np.zeros((2, 2, 2)),
        [0, math.nan],
    ],
)
def test_labels_of_one_class_or_three_are_refused(labels: Any) -> None:
    with pytest.raises(ApmaxError):
        APLoss(labels)


@pytest.mark.parametrize(
    "labels",
    [
        POSITIVE,
        POSITIVE.astype(int),
        np.where(POSITIVE, 1, -1),
        torch.from_numpy(POSITIVE),
        torch.from_numpy(POSITIVE).float()[:, None],
        POSITIVE.tolist(),
    ],
    ids=["bool", "0/1", "-1/1", "tensor", "column", "list"],
)
def test_labels_of_any_kind(labels: Any) -> None:
    assert APLoss(labels).labels.cells.tolist() == list(range(9))


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_evaluating_changes_nothing(which: int) -> None:
    loss = both_ways(POSITIVE)[which]
    loss(SCORES[GOOD], GOOD)
    before = saved(loss)
    loss.eval()
    value = loss(SCORES[GOOD], GOOD)
    loss(SCORES[NO_POSITIVES], NO_POSITIVES)
    for key, tensor in before.items():
        torch.testing.assert_close(saved(loss)[key], tensor, rtol=0, atol=0, equal_nan=True)
    loss.train()
    assert loss(SCORES[GOOD], GOOD).item() == pytest.approx(value.item(), rel=1e-12)


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_the_value_is_a_tensor_of_its_own(which: int) -> None:
    scores = SCORES[GOOD].clone().requires_grad_()
    value = both_ways(POSITIVE)[which](scores, GOOD)
    value /= 4
    value += scores.sum() * 0
    value.backward()
    whole = SCORES[GOOD].clone().requires_grad_()
    both_ways(POSITIVE)[which](whole, GOOD).backward()
    torch.testing.assert_close(scores.grad, whole.grad / 4)


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
@pytest.mark.parametrize(("double", "size"), [(True, 1e200), (False, 1e25)])
def test_numbers_that_do_not_fit_are_refused(which: int, double: bool, size: float) -> None:
    loss = APLoss(POSITIVE, spread=None)
    loss = loss.double() if double else loss
    loss.fused = which == 0
    before = saved(loss)
    with pytest.raises(NonFiniteError, match="nothing has changed"):
        loss(SCORES[GOOD] * size, GOOD)
    for key, tensor in before.items():
        torch.testing.assert_close(saved(loss)[key], tensor, rtol=0, atol=0, equal_nan=True)


def test_copies_can_be_printed_and_go_on() -> None:
    loss = APLoss(POSITIVE)
    loss(SCORES[GOOD], GOOD)
    twin = copy.deepcopy(loss)
    assert repr(twin) == repr(loss)
    assert twin(SCORES[GOOD], GOOD) == loss(SCORES[GOOD], GOOD)


def test_what_u_was_tracked_with_cannot_be_changed() -> None:
    loss = APLoss(POSITIVE)
    for name in ("gamma", "surrogate", "spread"):
        with pytest.raises(AttributeError):
            setattr(loss, name, 1.0)


def test_a_tracker_that_needs_two_estimates_is_refused() -> None:
    with pytest.raises(ParameterError, match="CompositionalLoss"):
        APLoss(POSITIVE, tracker="msvr")


def test_several_labels_under_autocast_keep_single_precision() -> None:
    labels, scores = many_labels()
    loss, exact = APLoss(labels), APLoss(labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(scores.float(), torch.arange(60))
    assert value.dtype == torch.float32
    assert value.item() == exact(scores.float(), torch.arange(60)).item()


def test_any_torch_optimizer_trains_with_it() -> None:
    rng = np.random.default_rng(13)
    X = torch.from_numpy(rng.normal(size=(N, 5))).float()
    X[:9, 0] += 2.0
    for make in (torch.optim.SGD, torch.optim.AdamW, torch.optim.LBFGS):
        torch.manual_seed(0)
        model, loss = torch.nn.Linear(5, 1), APLoss(POSITIVE, tracker="moving_average")
        optimizer = make(model.parameters(), lr=0.5 if make is not torch.optim.AdamW else 0.05)

        def closure(model: Any = model, optimizer: Any = optimizer, loss: Any = loss) -> Any:
            optimizer.zero_grad()
            value = loss(torch.sigmoid(model(X))[:, 0], torch.arange(N))
            value.backward()
            return value

        first = closure().item()
        for _ in range(30):
            optimizer.step(closure)
        assert closure().item() < first - 0.05


def test_smooth_ap_is_not_in_the_table_of_tracked_methods() -> None:
    from apmax.torch import from_table

    with pytest.raises(ParameterError, match=SmoothAPLoss.__name__):
        from_table("smoothap", POSITIVE, [torch.nn.Parameter(torch.zeros(1))], lr=0.1)
