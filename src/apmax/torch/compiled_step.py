"""APLoss's step for one label on a CPU: the compiled loop with the settings of a loss."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor

from apmax.objective.omega import Omega
from apmax.torch.compositional import Tick
from apmax.torch.score_scale import TOLERANCE

if TYPE_CHECKING:
    from apmax.torch.average_precision import APLoss


class Outcome(NamedTuple):
    """What happened to a batch; if it was taken, −ÂP and its gradient."""

    taken: bool
    unranked: bool
    value: float
    gradient: Tensor


class CompiledStep:
    """The settings of a loss as the compiled loop reads them, made once per precision of U."""

    def __init__(self) -> None:
        self._rules: dict[torch.dtype, tuple[Any, Any]] = {}

    def track(
        self, loss: APLoss, tick: Tick, scores: Tensor, index: Tensor, given: list[Tensor]
    ) -> Outcome:
        """Take a batch: update U, unless the batch is invalid or has no ranking."""
        from apmax.torch._fused import NO_LABELS, TAKEN, UNINFORMATIVE, track_batch

        state, labels = loss._buffers, loss.labels
        # Buffers by name: attributes of a module are looked up slowly.
        u, written_at = cast(Tensor, state["U"]), cast(Tensor, state["written_at"])
        cells = cast(Tensor, labels._buffers["cells"])
        gradient = torch.empty(scores.shape, dtype=torch.float64)
        outcome, value = track_batch(
            scores.detach().double().contiguous().numpy(),  # one type: the loop compiles once
            index.contiguous().numpy(),
            (given[0] == 1).numpy() if given else NO_LABELS,
            labels.examples,
            cells.numpy(),
            u.numpy(),
            written_at.numpy(),
            *self._rules_of(loss, u.dtype),
            tick,
            gradient.numpy(),
        )
        return Outcome(outcome == TAKEN, outcome == UNINFORMATIVE, value, gradient)

    def _rules_of(self, loss: APLoss, dtype: torch.dtype) -> tuple[Any, Any]:
        """Surrogate and tracker in numbers."""
        if dtype not in self._rules:
            from apmax.objective._batch import LOGISTIC, SQUARED_HINGE, PairRules
            from apmax.torch._fused import TrackingRules

            (bottom1, bottom2), (top1, top2) = loss.low[0].tolist(), loss.high[0].tolist()
            kind = SQUARED_HINGE if loss.surrogate == "squared_hinge" else LOGISTIC
            spread = math.inf if loss.spread is None else loss.spread * (1.0 + TOLERANCE)
            bounded = loss.spread == 1.0
            self._rules[dtype] = (
                PairRules(kind, loss.gamma, loss.least_pair, True),
                TrackingRules(
                    remembers=loss.tracker.remembers,
                    decays=loss.tracker.decays,
                    normalised=loss.tracker.normalised,
                    omega=Omega(bottom1, top1, bottom2, top2),
                    lowest=-TOLERANCE if bounded else -math.inf,
                    highest=1.0 + TOLERANCE if bounded else math.inf,
                    spread=spread,
                    largest=torch.finfo(dtype).max,
                ),
            )
        return self._rules[dtype]
