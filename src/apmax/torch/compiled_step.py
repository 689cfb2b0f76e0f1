"""APLoss's step for one label on a CPU: the compiled loop with the settings of a loss."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from apmax.torch.compositional import Tick
from apmax.torch.score_scale import TOLERANCE

if TYPE_CHECKING:
    from apmax.torch.average_precision import APLoss


@cache
def _loops() -> Any:
    """Return the module of the loop at its first use, because Numba is slow to import."""
    from apmax.torch import _fused

    return _fused


class Outcome(NamedTuple):
    """What happened to a batch; if it was taken, −ÂP and its gradient."""

    taken: bool
    unranked: bool
    value: float
    gradient: Tensor
    dtype: torch.dtype
    """Precision of U."""


class CompiledStep:
    """The settings of a loss as the compiled loop reads them, made once per precision of U."""

    def __init__(self) -> None:
        self._settings: dict[torch.dtype, Any] = {}

    def track(
        self, loss: APLoss, tick: Tick, scores: Tensor, index: Tensor, given: list[Tensor]
    ) -> Outcome:
        """Take a batch: update U, unless the batch is invalid or has no ranking."""
        loops, labels = _loops(), loss.labels
        state = loss._buffers  # attributes of a module are looked up slowly
        u, written_at = cast(Tensor, state["U"]), cast(Tensor, state["written_at"])
        cells = cast(Tensor, labels._buffers["cells"])
        gradient = torch.empty(scores.shape, dtype=torch.float64)
        outcome, value = loops.track_batch(
            scores.detach().double().contiguous().numpy(),  # one type: the loop compiles once
            index.contiguous().numpy(),
            given[0].double().contiguous().numpy() if given else loops.NO_LABELS,
            labels.examples,
            cells.numpy(),
            u.numpy(),
            written_at.numpy(),
            self._settings_of(loss, u.dtype),
            tick.beta0,
            tick.decay,
            tick.next_decay,
            gradient.numpy(),
        )
        taken, unranked = outcome == loops.TAKEN, outcome == loops.UNINFORMATIVE
        return Outcome(taken, unranked, value, gradient, u.dtype)

    def _settings_of(self, loss: APLoss, dtype: torch.dtype) -> Any:
        """Return surrogate and tracker as the record that the loop reads."""
        if dtype not in self._settings:
            from apmax.objective._batch import LOGISTIC, SQUARED_HINGE

            (bottom1, bottom2), (top1, top2) = loss.low[0].tolist(), loss.high[0].tolist()
            bounded = loss.spread == 1.0
            record = np.zeros(1, _loops().SETTINGS)
            for name, value in (
                ("kind", SQUARED_HINGE if loss.surrogate == "squared_hinge" else LOGISTIC),
                ("gamma", loss.gamma),
                ("own", loss.least_pair),
                ("remembers", loss.tracker.remembers),
                ("decays", loss.tracker.decays),
                ("normalised", loss.tracker.normalised),
                ("omega", (bottom1, top1, bottom2, top2)),
                ("lowest", -TOLERANCE if bounded else -math.inf),
                ("highest", 1.0 + TOLERANCE if bounded else math.inf),
                ("spread", math.inf if loss.spread is None else loss.spread * (1.0 + TOLERANCE)),
                ("largest", torch.finfo(dtype).max),
            ):
                record[name] = value
            self._settings[dtype] = record
        return self._settings[dtype]
