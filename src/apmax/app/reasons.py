"""Reasons for the scores of rows: the columns that contribute most to their log-odds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from apmax.app.io import Dataset
    from apmax.app.model import Model

BLOCK_CELLS = 1 << 24
"""Contributions that are computed at a time, which bounds the memory for wide data."""


def reasons_of(model: Model, dataset: Dataset, count: int) -> dict[str, list[str]]:
    """Return the strongest reasons for the scores of a data set, as columns of text."""
    rows, found = dataset.X.shape[0], dict[str, list[str]]()
    block = max(1, BLOCK_CELLS // max(len(model.feature_names()), 1))
    for start in range(0, rows, block):
        part = dataset.rows(np.arange(start, min(start + block, rows)))
        for name, texts in strongest_reasons(model.explain(part.X), count).items():
            found.setdefault(name, []).extend(texts)
    return found


def strongest_reasons(contributions: Any, count: int) -> dict[str, list[str]]:
    """Return columns reason_1, reason_2, … with texts such as "income: +0.83".

    `contributions` is a frame with a row per row and a column per column of the table. Reasons are
    ordered by size; contributions of 0 are left out.
    """
    names, values = list(contributions.columns), contributions.to_numpy()
    count = min(count, len(names))
    order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :count]
    strongest = np.take_along_axis(values, order, axis=1)
    return {
        f"reason_{k + 1}": [
            f"{names[place]}: {value:+.2f}" if value else ""
            for place, value in zip(order[:, k].tolist(), strongest[:, k].tolist(), strict=True)
        ]
        for k in range(count)
    }
