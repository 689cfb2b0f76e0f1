r"""The update of U for every tracker of :data:`apmax.methods.TRACKERS`, on tensors.

MSVR (Jiang et al., 2022) also needs g̃′, the estimate of the same samples at the previous
parameters. Its correction has the weight θ = (m−B) / (B (1−β₀)) + 1 − β₀.
"""

from __future__ import annotations

from torch import Tensor

from apmax.methods import Tracker


def update_rows(
    tracker: Tracker,
    old: Tensor,
    estimate: Tensor,
    previous: Tensor | None,
    *,
    beta0: float,
    scale: Tensor | float,
) -> Tensor:
    """Return (1−β₀) U + β₀ s g̃ + θ (g̃ − g̃′), before the projection.

    Parameters
    ----------
    tracker : Tracker
        Switches: s = m/B if `decays`, otherwise 1; θ = 0 unless `needs_previous`.
    old : Tensor of shape (B, k)
        Rows of U, with the decay of past rounds applied.
    estimate, previous : Tensor of shape (B, k)
        g̃ and g̃′.
    beta0 : float
        Weight of the new estimate.
    scale : Tensor of shape (B, 1) or float
        m/B.
    """
    keep = 1.0 - beta0
    rows = keep * old + (beta0 * scale if tracker.decays else beta0) * estimate
    if tracker.needs_previous and previous is not None and keep > 0:  # β₀ = 1 discards U
        rows = rows + ((scale - 1.0) / keep + keep) * (estimate - previous)
    return rows
