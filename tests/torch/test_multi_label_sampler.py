"""MultiLabelBatchSampler: every batch ranks several labels, rare ones as often as others."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch

from apmax.errors import ParameterError
from apmax.torch import APLoss, MultiLabelBatchSampler

RNG = np.random.default_rng(0)
SHARES = np.array([0.4, 0.1, 0.02, 0.01, 0.005, 0.0])
LABELS = (RNG.random((1000, 6)) < SHARES).astype(float)
LABELS[:3, 4] = 1.0  # rare, with at least three positives
LABELS[RNG.random(LABELS.shape) < 0.05] = np.nan


def sampler(**options: Any) -> MultiLabelBatchSampler:
    return MultiLabelBatchSampler(LABELS, **({"batch_size": 64} | options))


def test_every_batch_has_positives_of_several_labels() -> None:
    ours = sampler(labels_per_batch=3, positives_per_label=4)
    available = np.nansum(LABELS, axis=0)
    for batch in ours:
        assert len(set(batch)) == len(batch) <= 64
        ranked = np.nansum(LABELS[batch], axis=0) >= np.minimum(4, available)
        assert ranked[available >= 2].sum() >= 3


def test_a_pass_shows_every_example() -> None:
    ours = sampler()
    shown = [i for batch in ours for i in batch]
    assert set(shown) == set(range(1000))
    assert len(ours) == len(list(ours)) == -(-1000 // (64 - 4 * 4))


def test_labels_take_turns() -> None:
    """Every label with two positives is ranked in the same number of batches, or in more."""
    ours = sampler(labels_per_batch=2, positives_per_label=2, batch_size=6)
    counts = np.zeros(6)
    for batch in ours:
        counts += np.nansum(LABELS[batch], axis=0) >= 2
    usable = np.nansum(LABELS, axis=0) >= 2
    assert counts[usable].min() >= len(ours) * 2 // usable.sum()


def test_the_loss_ranks_rare_labels_that_shuffled_batches_miss() -> None:
    loss, shuffled = APLoss(LABELS), APLoss(LABELS)
    scores = torch.rand(1000, 6)
    for batch in sampler():
        loss(scores[batch], torch.tensor(batch))
        index = torch.from_numpy(RNG.choice(1000, len(batch), replace=False))
        shuffled(scores[index], index)
    usable = np.nansum(LABELS, axis=0) >= 2
    assert loss.skipped[:-1][usable[:-1]].sum() < shuffled.skipped[:-1][usable[:-1]].sum() / 2


def test_replicas_share_the_batch_of_one_process() -> None:
    whole = sampler(batch_size=64)
    halves = [sampler(batch_size=32, num_replicas=2, rank=rank) for rank in (0, 1)]
    for one, first, second in zip(whole, *halves, strict=True):
        assert sorted(one) == sorted(first + second)


@pytest.mark.parametrize("stop", [1, 9, 21])
def test_a_checkpoint_in_the_middle_of_a_pass_goes_on_there(stop: int) -> None:
    straight, broken = sampler(), sampler()
    expected = [*straight, *straight]
    stream = iter(broken)
    done = [next(stream) for _ in range(stop)]
    file = io.BytesIO()
    torch.save(broken.state_dict(), file)
    file.seek(0)
    resumed = sampler(generator=torch.Generator().manual_seed(9))
    resumed.load_state_dict(torch.load(file, weights_only=True))
    while len(done) < len(expected):
        done.extend(resumed)
    assert done == expected
    with pytest.raises(ParameterError, match="other data"):
        sampler(batch_size=65).load_state_dict(broken.state_dict())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 16}, "batch_size"),
        ({"labels_per_batch": 0}, "labels_per_batch"),
        ({"positives_per_label": 1}, "positives_per_label"),
        ({"rank": 1}, "rank"),
        ({"sampling_rate": 0.5}, "sampling_rate"),
    ],
)
def test_bad_options_are_named(options: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        sampler(**options)


def test_labels_without_two_positives_are_refused() -> None:
    with pytest.raises(ParameterError, match="two positives"):
        MultiLabelBatchSampler(np.eye(3), 3)
