"""Batches: what a pass shows, who gets which part, and where it goes on."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from apmax.errors import ParameterError
from apmax.torch import APLoss, IndexedDataset, PositiveNegativeBatchSampler
from apmax.torch.permutation import LARGEST_ARRAY, Permutation

LABELS = np.isin(np.arange(203), np.random.default_rng(0).choice(203, 17, replace=False))


def sampler(**options: Any) -> PositiveNegativeBatchSampler:
    settings: dict[str, Any] = {"batch_size": 16, "positives_per_batch": 5}
    return PositiveNegativeBatchSampler(LABELS, **(settings | options))


@given(
    m=st.integers(2, 30), n=st.integers(1, 80), plus=st.integers(1, 8), minus=st.integers(1, 9),
    replicas=st.integers(1, 3), seed=st.integers(0, 5),
)  # fmt: skip
def test_a_pass_shows_all_negatives_once_and_positives_equally_often(
    m: int, n: int, plus: int, minus: int, replicas: int, seed: int
) -> None:
    labels = np.arange(m + n) < m
    assume(2 <= plus * replicas <= m)
    parts = [
        PositiveNegativeBatchSampler(
            labels, plus + minus, plus, num_replicas=replicas, rank=rank,
            generator=torch.Generator().manual_seed(seed),
        )
        for rank in range(replicas)
    ]  # fmt: skip
    for _ in range(2):
        seen: Counter[int] = Counter()
        for together in zip(*parts, strict=True):
            joined = [i for batch in together for i in batch]
            assert len(set(joined)) == len(joined)
            assert sum(i < m for i in joined) == plus * replicas
            seen.update(joined)
        assert {seen[i] for i in range(m, m + n)} == {1}
        shown = [seen[i] for i in range(m)]
        assert max(shown) - min(shown) <= 1


def test_replicas_share_the_batch_of_one_process() -> None:
    whole = sampler(batch_size=16, positives_per_batch=4)
    halves = [
        sampler(batch_size=8, positives_per_batch=2, num_replicas=2, rank=rank) for rank in (0, 1)
    ]
    for one, first, second in zip(whole, *halves, strict=True):
        assert sorted(one) == sorted(first + second)


def test_every_pass_is_another_one_and_the_same_seed_gives_the_same() -> None:
    first, second = sampler(), sampler()
    passes = [list(first), list(first)]
    assert passes[0] != passes[1]
    assert passes == [list(second), list(second)]


def test_nothing_global_is_seeded_or_read() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    list(sampler())
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("stop", [0, 1, 7, 17, 18])
def test_a_checkpoint_in_the_middle_of_a_pass_goes_on_there(stop: int) -> None:
    straight = sampler()
    assert len(straight) == 17
    expected = [batch for _ in range(3) for batch in straight]
    broken = sampler()
    done: list[list[int]] = []
    while len(done) < stop:
        for batch in broken:
            done.append(batch)
            if len(done) == stop:
                break
    file = io.BytesIO()
    torch.save(broken.state_dict(), file)
    file.seek(0)
    resumed = sampler(generator=torch.Generator().manual_seed(99))
    resumed.load_state_dict(torch.load(file, weights_only=True))
    while len(done) < len(expected):
        done.extend(resumed)
    assert done == expected


def test_a_loader_that_reads_ahead_says_how_far_training_is() -> None:
    data = IndexedDataset(TensorDataset(torch.arange(203.0), torch.from_numpy(LABELS)))
    ahead = sampler()
    loader = DataLoader(data, batch_sampler=ahead, num_workers=1, prefetch_factor=3)
    stream = iter(loader)
    trained = [next(stream)[2].tolist() for _ in range(4)]
    state = ahead.state_dict(batches_done=4)
    del stream
    resumed = sampler()
    resumed.load_state_dict(state)
    assert trained + list(resumed) == list(sampler())


def test_leaving_a_pass_early_does_not_shorten_the_next_one() -> None:
    ours, expected = sampler(), sampler()
    first, second = list(expected), list(expected)
    for number, batch in enumerate(ours):
        assert batch == first[number]
        if number == 3:
            break
    assert list(ours) == second


def test_workers_that_read_ahead_do_not_lose_batches_when_a_pass_is_left() -> None:
    data = IndexedDataset(TensorDataset(torch.arange(203.0)))
    loader = DataLoader(data, batch_sampler=sampler(), num_workers=1, prefetch_factor=3)
    stream = iter(loader)
    next(stream)
    del stream
    assert [index.tolist() for _, index in loader] == [*sampler_passes(2)][1]


def sampler_passes(count: int) -> list[list[list[int]]]:
    straight = sampler()
    return [list(straight) for _ in range(count)]


def test_two_iterators_at_once_are_two_passes() -> None:
    ours = sampler()
    one, other = iter(ours), iter(ours)
    pairs = [(next(one), next(other)) for _ in range(17)]
    assert [[pair[k] for pair in pairs] for k in (0, 1)] == sampler_passes(2)


def test_a_loaded_pass_is_resumed_once() -> None:
    saved = sampler()
    stream = iter(saved)
    done = [next(stream) for _ in range(5)]
    resumed = sampler()
    resumed.load_state_dict(saved.state_dict())
    first, second = sampler_passes(2)
    assert done + list(resumed) == first
    assert list(resumed) == second


@pytest.mark.parametrize("size", [1, 2, 1000, LARGEST_ARRAY, LARGEST_ARRAY + 1, 300_000, 524_289])
def test_a_permutation_holds_every_number_once(size: int) -> None:
    order = Permutation(size, torch.Generator().manual_seed(3))
    whole = np.concatenate([order(k, k + 70_000) for k in range(0, size, 70_000)])
    assert whole.size == size
    assert (np.bincount(whole, minlength=size) == 1).all()


def test_a_computed_permutation_looks_random() -> None:
    """Neighbours, fixed points and runs are those of a random order, within five deviations."""
    size = 400_000
    order = Permutation(size, torch.Generator().manual_seed(1))
    x = order(0, size).astype(float) / size
    assert abs(np.corrcoef(np.arange(size), x)[0, 1]) < 5 / np.sqrt(size)
    for lag in (1, 2, 64, 632, 633, 1024):
        assert abs(np.corrcoef(x[lag:], x[:-lag])[0, 1]) < 5 / np.sqrt(size)
    rises = (np.diff(x) > 0).mean()
    assert abs(rises - 0.5) < 5 / np.sqrt(12 * size)
    counts, _, _ = np.histogram2d(np.arange(size), x, bins=40)
    expected = size / 1600
    assert ((counts - expected) ** 2 / expected).sum() < 1521 + 5 * np.sqrt(2 * 1521)
    another = Permutation(size, torch.Generator().manual_seed(2))
    assert (order(0, size) == another(0, size)).sum() < 10


def test_a_pass_over_many_negatives_computes_their_order_as_needed() -> None:
    labels = np.zeros(LARGEST_ARRAY + 5000, bool)
    labels[::1000] = True
    ours = PositiveNegativeBatchSampler(labels, 4096, 64)
    seen = np.bincount(np.concatenate([np.array(batch) for batch in ours]), minlength=labels.size)
    assert (seen[~labels] == 1).all()
    assert seen[labels].max() - seen[labels].min() <= 1


def test_a_batch_sampler_passed_as_sampler_is_explained() -> None:
    data = IndexedDataset(TensorDataset(torch.arange(203.0)))
    with pytest.raises(ParameterError, match="batch_sampler="):
        next(iter(DataLoader(data, sampler=sampler())))


def test_a_sampler_with_replacement_is_explained() -> None:
    weighted = WeightedRandomSampler([1.0] * 203, 64, generator=torch.Generator().manual_seed(0))
    index = torch.tensor(list(weighted))
    with pytest.raises(ParameterError, match=r"twice: .* instead of WeightedRandomSampler"):
        APLoss(LABELS)(torch.rand(64), index)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 1},
        {"positives_per_batch": 0},
        {"positives_per_batch": 16},
        {"positives_per_batch": 15, "num_replicas": 2},
        {"num_replicas": 0},
        {"rank": 1},
        {"batch_size": 8.0},
    ],
)
def test_bad_options_are_named(options: Any) -> None:
    with pytest.raises(ParameterError, match="|".join(options)):
        sampler(**options)


@pytest.mark.parametrize(
    "other",
    [
        sampler(batch_size=12),
        sampler(positives_per_batch=6),
        PositiveNegativeBatchSampler(LABELS[::-1].copy(), 16, 5),
        PositiveNegativeBatchSampler(np.append(LABELS, False), 16, 5),
    ],
    ids=["batch size", "positives", "places", "n"],
)
def test_a_checkpoint_of_other_data_is_refused(other: Any) -> None:
    one = sampler()
    with pytest.raises(ParameterError, match="other data"):
        one.load_state_dict(other.state_dict())
    assert list(one) == list(sampler())
    for done in (-1, 10**6):
        with pytest.raises(ParameterError, match="batches_done"):
            one.state_dict(batches_done=done)


def test_the_default_share_of_positives_fits_the_data() -> None:
    few = np.arange(100) < 10
    for rank in (0, 1):
        ours = PositiveNegativeBatchSampler(few, 64, num_replicas=2, rank=rank)
        assert sum(i < 10 for i in next(iter(ours))) == 5
    with pytest.raises(ParameterError, match="at least 2"):
        PositiveNegativeBatchSampler(few, 2)


def test_indexed_datasets_yield_the_index_last() -> None:
    data = IndexedDataset(TensorDataset(torch.arange(3.0), torch.arange(3)))
    assert len(data) == 3
    assert [part.item() if torch.is_tensor(part) else part for part in data[-1]] == [2.0, 2, 2]
    assert IndexedDataset(["a", "b"])[1] == ("b", 1)
    assert IndexedDataset([["a", 1], ["b", 2]])[0] == ("a", 1, 0)
    with pytest.raises(IndexError):
        data[3]
    with pytest.raises(ParameterError, match="iterable"):
        IndexedDataset(iter([1, 2]))
    batch = next(iter(DataLoader(data, batch_size=2)))
    assert batch[2].tolist() == [0, 1]
    assert IndexedDataset([{"x": 5}])[0] == {"x": 5, "index": 0}
