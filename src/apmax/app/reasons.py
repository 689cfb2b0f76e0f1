"""Reasons for the scores of rows: the columns that contribute most to their log-odds."""

from __future__ import annotations

from typing import Any

import numpy as np


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
