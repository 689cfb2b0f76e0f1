"""U: lazy equals eager, rows stay in Ω, and a row starts where it should."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apmax.errors import NonFiniteError
from apmax.methods import TRACKERS, MovingAverage, NoTracker, RandomizedCoordinate
from apmax.objective.outer import Box
from apmax.validation import Floats

BOX = Box(top1=0.6, bottom2=0.05, top2=1.5)
M = 7


def eager_randomized_coordinate(
    u: Floats, rows: Floats, estimate: Floats, beta0: float, box: Box | None
) -> Floats:
    """Step 5 of Algorithm 2 on every row of U."""
    moved = (1 - beta0) * u
    moved[rows] += beta0 * (len(u) / len(rows)) * estimate
    return moved if box is None else box.project(moved)


def rounds(seed: int, count: int, batch: int = 2) -> list[tuple[Floats, Floats]]:
    rng = np.random.default_rng(seed)
    return [
        (rng.choice(M, batch, replace=False), rng.random((batch, 2)) * [0.5, 1.0] + [0.0, 0.1])
        for _ in range(count)
    ]


@pytest.mark.parametrize("box", [BOX, None], ids=["projected", "free"])
@pytest.mark.parametrize("first_beta", [0.05, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("decreasing", [True, False])
def test_lazy_decay_equals_eager_decay(
    box: Box | None, first_beta: float, decreasing: bool
) -> None:
    lazy = RandomizedCoordinate(M, box=box, first_visit="zero")
    eager = np.zeros((M, 2)) if box is None else box.project(np.zeros((M, 2)))
    clipped = 0
    for t, (rows, estimate) in enumerate(rounds(seed=1, count=500), start=1):
        beta0 = first_beta / math.sqrt(t) if decreasing else first_beta
        eager = eager_randomized_coordinate(eager, rows, estimate, beta0, box)
        fresh = lazy.update(rows, estimate, beta0)
        np.testing.assert_allclose(fresh, eager[rows], rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(lazy.values(), eager, rtol=1e-12, atol=1e-300)
        clipped += int((eager[:, 1] == BOX.bottom2).any() or (eager[:, 0] == BOX.top1).any())
    if box is not None:
        assert clipped > 10  # the test means nothing if the box is never felt


def test_lazy_decay_does_not_drift_over_many_rounds() -> None:
    lazy = RandomizedCoordinate(M, first_visit="zero")
    eager = np.zeros((M, 2))
    for rows, estimate in rounds(seed=2, count=30_000, batch=1):
        eager = eager_randomized_coordinate(eager, rows, estimate, 0.3, None)
        lazy.update(rows, estimate, 0.3)
    assert lazy.log_decay[0] < -1e4
    np.testing.assert_allclose(lazy.values(), eager, rtol=1e-12)


def test_a_round_touches_only_the_rows_of_its_batch() -> None:
    tracker = RandomizedCoordinate(1000, box=BOX)
    tracker.update(np.arange(1000), np.full((1000, 2), 0.4), 0.5)
    stored, written = tracker.u.copy(), tracker.written_at.copy()
    tracker.update(np.array([3, 8]), np.full((2, 2), 0.2), 0.5)
    others = np.delete(np.arange(1000), [3, 8])
    np.testing.assert_array_equal(tracker.u[others], stored[others])
    np.testing.assert_array_equal(tracker.written_at[others], written[others])
    assert (tracker.values()[others] < stored[others]).all()


def test_moving_average_is_its_formula_and_leaves_other_rows_alone() -> None:
    tracker = MovingAverage(3, first_visit="zero")
    tracker.update(np.array([0, 2]), np.array([[0.2, 0.4], [0.6, 0.8]]), 0.5)
    fresh = tracker.update(np.array([2]), np.array([[0.0, 1.0]]), 0.25)
    np.testing.assert_allclose(fresh, [[0.75 * 0.3, 0.75 * 0.4 + 0.25]])
    np.testing.assert_allclose(tracker.values(), [[0.1, 0.2], [0, 0], fresh[0]])


@given(st.integers(0, 10**6), st.floats(0.01, 1.0))
def test_v1_equals_v2_when_the_batch_is_all_positives(seed: int, beta0: float) -> None:
    v1, v2 = MovingAverage(M, box=BOX), RandomizedCoordinate(M, box=BOX)
    for rows, estimate in rounds(seed, count=20, batch=M):
        one = v1.update(rows, estimate, beta0)
        two = v2.update(rows, estimate, beta0)
        np.testing.assert_allclose(one, two, rtol=1e-13)


@pytest.mark.parametrize("name", TRACKERS)
@pytest.mark.parametrize("first_visit", ["estimate", "zero"])
def test_every_row_lies_in_the_box_after_every_round(name: str, first_visit: str) -> None:
    tracker = TRACKERS[name](M, box=BOX, first_visit=first_visit)
    for rows, estimate in rounds(seed=3, count=200):
        fresh = tracker.update(rows, estimate * 3 - 1, 0.9)
        assert BOX.contains(fresh)
        seen = tracker.values()
        assert BOX.contains(seen[~np.isnan(seen).any(axis=1)])


@pytest.mark.parametrize("name", ["moving_average", "randomized_coordinate"])
def test_a_row_starts_at_its_first_estimate(name: str) -> None:
    tracker = TRACKERS[name](M, box=None, first_visit="estimate")
    assert np.isnan(tracker.values()).all()
    estimate = np.array([[0.2, 0.3], [0.4, 0.5]])
    np.testing.assert_array_equal(tracker.update(np.array([4, 1]), estimate, 0.1), estimate)
    assert np.isnan(tracker.values()).any(axis=1).sum() == M - 2


def test_a_zero_start_multiplies_the_first_estimate_by_beta0() -> None:
    tracker = MovingAverage(M, first_visit="zero")
    fresh = tracker.update(np.array([0]), np.array([[0.5, 1.0]]), 0.1)
    np.testing.assert_allclose(fresh, [[0.05, 0.1]])


def test_no_tracker_remembers_nothing() -> None:
    tracker = NoTracker(M)
    tracker.update(np.array([0]), np.array([[0.5, 1.0]]), 0.1)
    fresh = tracker.update(np.array([0]), np.array([[0.1, 0.2]]), 0.1)
    np.testing.assert_array_equal(fresh, [[0.1, 0.2]])
    assert np.isnan(tracker.values()).all()


def test_a_bad_batch_leaves_every_row_as_it_was() -> None:
    tracker = RandomizedCoordinate(M, box=BOX)
    tracker.update(np.arange(M), np.full((M, 2), 0.4), 0.5)
    before = tracker.values()
    with pytest.raises(NonFiniteError):
        tracker.update(np.array([1, 2]), np.array([[0.1, 0.2], [np.inf, 0.3]]), 0.5)
    np.testing.assert_array_equal(tracker.values(), before)
