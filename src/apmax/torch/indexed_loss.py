"""Compositional losses of scores and positions, ``loss(scores, index)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from apmax.errors import ShapeError
from apmax.methods import TRACKERS, Schedule, Tracker
from apmax.objective.surrogates import Surrogate
from apmax.torch.checked_settings import CheckedSettings
from apmax.torch.checks import check_finite, check_floating, check_index, check_rows
from apmax.torch.compositional import CompositionalLoss, with_gradient
from apmax.torch.distributed import gather_checked
from apmax.torch.score_scale import check_spread, resolve_scale
from apmax.torch.skipped_batches import SkippingLoss
from apmax.torch.tensor_surrogates import pair_losses


def usual_schedule(tracker: str | Tracker) -> str:
    """Return the schedule of β₀ that suits a tracker: 1/√t for those that decay."""
    chosen = tracker if isinstance(tracker, Tracker) else TRACKERS.choose(tracker)
    return "inverse_sqrt" if chosen.decays else "constant"


class IndexedLoss(CheckedSettings, CompositionalLoss, SkippingLoss):
    """Base of losses ``loss(scores, index)`` of examples whose labels the loss has.

    Parameters
    ----------
    outer, num_rows, num_values
        See :class:`CompositionalLoss`.
    examples : int
        n, the number of examples.
    surrogate, gamma, from_logits, spread, tracker, beta0, schedule, poor_batch, process_group
        See :class:`APLoss`.
    """

    def __init__(
        self,
        outer: Callable[[Tensor], Tensor],
        num_rows: int,
        num_values: int,
        examples: int,
        *,
        surrogate: str | Surrogate,
        gamma: float | None,
        from_logits: bool,
        spread: float | None,
        tracker: str | Tracker,
        beta0: float,
        schedule: str | Schedule | None,
        poor_batch: str,
        process_group: Any,
    ) -> None:
        chosen, gamma, spread = resolve_scale(surrogate, gamma, spread, from_logits)
        super().__init__(
            outer,
            num_rows,
            num_values,
            tracker=tracker,
            beta0=beta0,
            schedule=usual_schedule(tracker) if schedule is None else schedule,
            process_group=process_group,
        )
        self._count_skips(poor_batch)
        self.examples = examples
        self.gamma, self.spread = gamma, spread
        self.surrogate = chosen.name
        self._pairs = pair_losses(chosen, gamma)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, scores: Tensor, index: Tensor) -> Tensor:
        """Update U and return the loss of the batch.

        Parameters
        ----------
        scores : Tensor of shape (B,)
            Scores of the batch: probabilities, or logits with ``from_logits=True``.
        index : Tensor of shape (B,)
            Positions of the examples in the labels of the loss, each once.
        """

        def check() -> tuple[Tensor, ...]:
            check_floating(scores, "scores")
            if scores.ndim != 1:
                raise ShapeError(
                    f"`scores` must have shape (B,), got {tuple(scores.shape)}: one score per "
                    "example; try scores.squeeze(-1)"
                )
            return scores, check_index(index, scores.shape[0], scores.device)

        values, rows = gather_checked(check, self.rounds.device, self.process_group)
        check_rows(rows, self.examples)
        check_finite(values, "a score")
        values = values.to(torch.promote_types(values.dtype, self.U.dtype))
        check_spread(values, self.spread)
        return self._of_batch(values, rows)

    def _of_batch(self, scores: Tensor, index: Tensor) -> Tensor:
        """Return the loss of valid scores and positions."""
        raise NotImplementedError

    def _tracked_value(
        self, inner: Tensor, rows: Tensor, scale: Tensor | float, weight: Tensor | float
    ) -> Tensor:
        """Update U and return Σ weight · f(U) with its gradient in `inner`."""
        value, pulls = self._track(inner, rows, scale, weight)
        self._count(False)
        return with_gradient(inner, value.to(inner.dtype), pulls)

    def _settings(self) -> dict[str, Any]:
        return {"surrogate": self.surrogate, "gamma": self.gamma}
