"""Logistic regression must not lose a comparison for other reasons than its loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from apmax import average_precision
from apmax.app.pipeline.comparison import APMAX, LOGISTIC, _without_offsets

RNG = np.random.default_rng(0)
N = 3000
TIME = RNG.random(N)
WORDS = np.eye(4)[RNG.integers(0, 4, N)]
Y = RNG.random(N) < 1 / (1 + np.exp(-(5 * (TIME - 0.5) - 3)))


@pytest.mark.parametrize("form", [sp.csr_matrix, np.asarray], ids=["CSR", "dense"])
@pytest.mark.parametrize("offset", [0.0, 1.7e9])
def test_a_feature_far_from_zero_is_no_handicap(form: Any, offset: float) -> None:
    X = form(np.column_stack([TIME + offset, WORDS]))
    reached = [
        average_precision(Y[1::2], contender.scores(X[::2], Y[::2], X[1::2]))
        for contender in (LOGISTIC, APMAX)
    ]
    assert reached[0] == pytest.approx(reached[1], abs=0.02)
    assert reached[0] > 1.8 * Y.mean()


def test_only_offsets_are_taken_away() -> None:
    far = np.column_stack([WORDS[:, :1], 2000 + TIME, WORDS[:, 1:]])
    train, test = _without_offsets(sp.csr_matrix(far[::2]), sp.csr_matrix(far[1::2]))
    centre = far[::2, 1].mean()
    for rows, part in ((far[::2], train), (far[1::2], test)):
        np.testing.assert_array_equal(part[:, :4].toarray(), np.delete(rows, 1, axis=1))
        np.testing.assert_allclose(part[:, [4]].toarray()[:, 0], rows[:, 1] - centre)
    near = sp.csr_matrix(WORDS)
    assert _without_offsets(near, near) == (near, near)
