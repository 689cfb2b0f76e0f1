"""Paired differences of methods, and their standard errors."""

import numpy as np
import pytest

from apmax.metrics import average_precision
from experiments.deep.comparison import paired_differences, resampled_aps


def test_differences_are_taken_on_common_seeds_and_the_error_of_the_mean_is_over_seeds():
    aps = {"adap": {0: 0.7, 1: 0.8, 2: 0.9}, "cross-entropy-resampled": {0: 0.69, 1: 0.83, 3: 0.1}}
    rng = np.random.default_rng(0)
    drawn = {name: {seed: rng.random(50) for seed in of} for name, of in aps.items()}
    (found,) = paired_differences(aps, drawn)
    assert (found["method"], found["baseline"]) == ("adap", "cross-entropy-resampled")
    assert found["seeds"] == [0, 1]
    assert found["differences"] == pytest.approx([0.01, -0.03])
    assert found["mean"] == pytest.approx(-0.01)
    assert found["error"] == pytest.approx(0.02)  # half of the range, for two seeds
    pairs = [drawn["adap"][seed] - drawn["cross-entropy-resampled"][seed] for seed in (0, 1)]
    assert found["errors"] == pytest.approx([np.std(pair, ddof=1) for pair in pairs])


def test_methods_without_a_common_seed_are_not_compared():
    aps = {"adap": {0: 0.7}, "soap": {1: 0.6}}
    assert paired_differences(aps, {name: {} for name in aps}) == []


def test_bootstrap_samples_are_shared_so_that_equal_rankings_do_not_differ():
    rng = np.random.default_rng(1)
    y = rng.random(400) < 0.3
    scores = rng.normal(size=400) + y
    first, again = resampled_aps(y, scores, 30), resampled_aps(y, 5 * scores - 1, 30)
    np.testing.assert_array_equal(first, again)
    assert first.std() > 0
    assert first.mean() == pytest.approx(average_precision(y, scores), abs=3 * first.std())
