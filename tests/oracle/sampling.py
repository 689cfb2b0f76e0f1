"""Mini-batches: which positives get a step, and which examples estimate their ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from apmax.errors import ParameterError
from numpy.typing import NDArray

from apmax.registry import Registry
from apmax.validation import check_count


Rows = NDArray[np.int64]


class Batch(NamedTuple):
    """Examples of each class, counted within their class, all distinct."""

    positives: Rows
    negatives: Rows


class Draw(NamedTuple):
    """One round: the rows of 𝓑_t, a batch for g̃ and a batch for ∇g̃."""

    rows: Rows
    values: Batch
    slopes: Batch


SAMPLING = Registry("sampling", {"shared": True, "independent": False})
"""Whether one batch serves as rows, for g̃ and for ∇g̃; the theory wants three."""


def draw_batches(
    rng: np.random.Generator,
    *,
    positives: int,
    negatives: int,
    positives_per_batch: int,
    negatives_per_batch: int,
    sampling: str = "shared",
) -> Iterator[Draw]:
    """Endless draws without replacement from `positives` and `negatives` examples.

    ``sampling="shared"`` uses one batch for everything, as practice does.
    ``"independent"`` draws afresh for 𝓑_t, for g̃ and for ∇g̃, as the theorems assume.
    """
    shared = SAMPLING.choose(sampling)
    _check_size(positives_per_batch, "positives_per_batch", positives, min(positives, 2))
    _check_size(negatives_per_batch, "negatives_per_batch", negatives, min(negatives, 1))

    def batch() -> Batch:
        return Batch(
            rng.choice(positives, positives_per_batch, replace=False),
            rng.choice(negatives, negatives_per_batch, replace=False)
            if negatives
            else np.empty(0, dtype=np.int64),
        )

    def endless() -> Iterator[Draw]:
        while True:
            first = batch()
            if shared:
                yield Draw(first.positives, first, first)
            else:
                yield Draw(first.positives, batch(), batch())

    return endless()


def _check_size(value: int, name: str, available: int, at_least: int) -> None:
    why = "a batch needs at least 2 positives and 1 negative, where the data have them"
    check_count(value, name, at_least=at_least, why=why)
    if value > available:
        raise ParameterError(
            f"`{name}` = {value} is more than the {available} examples of that class: "
            "draws are without replacement; ask for fewer"
        )
