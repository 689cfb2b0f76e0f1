"""Rankings within queries: AP, NDCG and listwise losses, and their sampler."""

from __future__ import annotations

import io
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import ndcg_score

from apmax.errors import LabelError, NoPositiveError, ParameterError, ShapeError
from apmax.torch import ListwiseLoss, NDCGLoss, QueryAPLoss, QueryBatchSampler
from tests.torch.nine_positives import assert_same_state, saved

RNG = np.random.default_rng(0)
SIZES = [8, 5, 12, 30, 2, 3]
GROUPS = np.repeat([f"q{k}" for k in range(6)], SIZES)
RELEVANCE = RNG.choice([0, 0, 0, 1, 2, 3], GROUPS.size)
RELEVANCE[GROUPS == "q4"] = [1, 1]  # all relevant
RELEVANCE[GROUPS == "q5"] = 0  # none relevant: not ranked
RANKED = [f"q{k}" for k in range(5)]
N = GROUPS.size
SCORES = torch.from_numpy(RNG.random(N))


def within(query: str, s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows = torch.from_numpy(query == GROUPS)
    return s[rows], torch.from_numpy(RELEVANCE[query == GROUPS]).double()


def query_ap(s: torch.Tensor) -> torch.Tensor:
    terms = []
    for query in RANKED:
        z, y = within(query, s)
        pairs = torch.sigmoid(20.0 * (z[None, :] - z[y > 0, None]))
        terms.append((pairs[:, y > 0].sum(1) / pairs.sum(1)).mean())
    return -torch.stack(terms).mean()


def ndcg(s: torch.Tensor, k: int | None = None) -> torch.Tensor:
    terms = []
    for query in RANKED:
        z, y = within(query, s)
        rank = 1.0 + torch.sigmoid(20.0 * (z[None, :] - z[:, None])).sum(1) - 0.5
        gain = 2.0**y - 1.0
        ideal = gain.sort(descending=True).values / torch.log2(torch.arange(len(y)).double() + 2)
        counted = (
            torch.ones(len(y)).double() if k is None else torch.sigmoid(2 * (k - 0.5 - (rank - 1)))
        )
        terms.append((gain / torch.log2(1 + rank) * counted).sum() / ideal[:k].sum())
    return -torch.stack(terms).mean()


def listwise(s: torch.Tensor) -> torch.Tensor:
    terms = []
    for query in RANKED:
        z, y = within(query, s)
        terms.append(-(y / y.sum() * torch.log_softmax(z / 0.5, 0)).sum())
    return torch.stack(terms).mean()


CASES: dict[str, tuple[Any, Any]] = {
    "AP": (query_ap, lambda **k: QueryAPLoss(RELEVANCE, GROUPS, **k)),
    "NDCG": (ndcg, lambda **k: NDCGLoss(RELEVANCE, GROUPS, **k)),
    "NDCG@3": (lambda s: ndcg(s, 3), lambda **k: NDCGLoss(RELEVANCE, GROUPS, k=3, **k)),
    "listwise": (listwise, lambda **k: ListwiseLoss(RELEVANCE, GROUPS, temperature=0.5, **k)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_full_batch_is_the_formula(name: str) -> None:
    formula, make = CASES[name]
    scores, at = (SCORES.clone().requires_grad_() for _ in range(2))
    value = make().double()(scores, torch.arange(N))
    value.backward()
    expected = formula(at)
    expected.backward()
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    torch.testing.assert_close(scores.grad, at.grad, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", CASES)
def test_labels_of_a_batch_reveal_a_wrong_index(name: str) -> None:
    loss, relevance = CASES[name][1](), torch.from_numpy(RELEVANCE)
    before, index = saved(loss), torch.arange(1, N)
    wrong = int((relevance[1:] != relevance[:-1]).sum())
    with pytest.raises(LabelError, match=f"disagree for {wrong} of {N - 1} items"):
        loss(SCORES[index], index, relevance[:-1])
    assert_same_state(loss, before)
    assert loss(SCORES[index], index, relevance[1:]) == CASES[name][1]()(SCORES[index], index)


def test_the_listwise_loss_has_no_surrogate() -> None:
    with pytest.raises(ParameterError, match="has no `gamma`"):
        ListwiseLoss(RELEVANCE, GROUPS, gamma=2.0)


@pytest.mark.parametrize("name", CASES)
def test_batches_of_a_fixed_model_track_the_formula(name: str) -> None:
    formula, make = CASES[name]
    loss = make(tracker="moving_average", beta0=0.02).double()
    sampler = QueryBatchSampler(RELEVANCE, GROUPS, 2, 2, 4)
    values = []
    for number in range(1000):
        for batch in sampler:
            value = loss(SCORES[batch], torch.tensor(batch)).item()
            if number >= 300:
                values.append(value * len(set(GROUPS[batch])))
    per_query = np.sum(values) / (700 * len(RANKED))
    assert per_query == pytest.approx(formula(SCORES).item(), rel=0.03)


def test_a_steep_surrogate_is_the_metric_of_scikit_learn() -> None:
    value = NDCGLoss(RELEVANCE, GROUPS, gamma=1e5).double()(SCORES, torch.arange(N))
    exact = [
        ndcg_score([2.0 ** RELEVANCE[q == GROUPS] - 1], [SCORES.numpy()[q == GROUPS]])
        for q in RANKED
    ]
    assert -value.item() == pytest.approx(np.mean(exact), rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_brings_back_the_same_run(name: str) -> None:
    _, make = CASES[name]
    first, second = make(), make()
    sampler = QueryBatchSampler(RELEVANCE, GROUPS, 2, 2, 4)
    for batch in sampler:
        first(SCORES[batch], torch.tensor(batch))
    second.load_state_dict(saved(first))
    for batch in sampler:
        index = torch.tensor(batch)
        assert first(SCORES[batch], index) == second(SCORES[batch], index)
    assert_same_state(second, saved(first))


@pytest.mark.parametrize("name", CASES)
def test_batches_without_a_ranking_are_skipped(name: str) -> None:
    _, make = CASES[name]
    loss = make()
    for query, skipped in (("q5", 1), ("q0", 1), ("q4", 1)):
        index = torch.from_numpy(np.flatnonzero(query == GROUPS))
        loss(SCORES[index], index)
        assert int(loss.skipped) == skipped
    with pytest.raises(NoPositiveError, match="no query"):
        make(poor_batch="error")(SCORES[-3:], torch.arange(N - 3, N))


def test_scores_of_other_queries_do_not_overflow() -> None:
    scores = torch.zeros(N)
    scores[GROUPS == "q1"] = 1000.0
    scores.requires_grad_()
    value = ListwiseLoss(RELEVANCE, GROUPS)(scores, torch.arange(N))
    value.backward()
    assert math.isfinite(value.item())
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize(
    ("labels", "groups", "error"),
    [
        ([1, 0], [1], ShapeError),
        ([-1, 1], [1, 1], LabelError),
        ([0, 0], [1, 1], NoPositiveError),
    ],
)
def test_items_that_cannot_be_ranked_are_refused(labels: Any, groups: Any, error: Any) -> None:
    with pytest.raises(error):
        QueryAPLoss(labels, groups)


def sampler(**options: Any) -> QueryBatchSampler:
    return QueryBatchSampler(RELEVANCE, GROUPS, **({"queries_per_batch": 2} | options))


def test_a_pass_shows_every_query_once_with_items_of_both_kinds() -> None:
    seen: Counter[str] = Counter()
    for batch in sampler(relevant_per_query=2, irrelevant_per_query=3):
        assert len(set(batch)) == len(batch)
        for query in set(GROUPS[batch]):
            own = [i for i in batch if GROUPS[i] == query]
            relevant = int((RELEVANCE[query == GROUPS] > 0).sum())
            others = int((RELEVANCE[query == GROUPS] == 0).sum())
            assert (RELEVANCE[own] > 0).sum() == min(2, relevant)
            assert (RELEVANCE[own] == 0).sum() == min(3, others)
            seen[query] += 1
    assert seen == Counter(RANKED)


def test_replicas_share_the_queries_of_one_process() -> None:
    whole = sampler(queries_per_batch=4)
    halves = [sampler(num_replicas=2, rank=rank) for rank in (0, 1)]
    for one, first, second in zip(whole, *halves, strict=True):
        assert sorted(one) == sorted(first + second)


def test_a_pass_resumes_from_a_checkpoint() -> None:
    straight, broken = sampler(), sampler()
    expected = [*straight, *straight]
    stream = iter(broken)
    done = [next(stream)]
    file = io.BytesIO()
    torch.save(broken.state_dict(), file)
    file.seek(0)
    resumed = sampler(generator=torch.Generator().manual_seed(7))
    resumed.load_state_dict(torch.load(file, weights_only=True))
    while len(done) < len(expected):
        done.extend(resumed)
    assert done == expected
    with pytest.raises(ParameterError, match="other data"):
        sampler(queries_per_batch=3).load_state_dict(broken.state_dict())


@pytest.mark.parametrize(
    "name", ["queries_per_batch", "relevant_per_query", "irrelevant_per_query"]
)
def test_bad_options_are_named(name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        sampler(**{name: 0})
