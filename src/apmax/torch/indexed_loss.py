"""Compositional losses of scores and positions, ``loss(scores, index)``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypedDict

import torch
from torch import Tensor

from apmax.errors import ParameterError, ShapeError
from apmax.methods import TRACKERS, Schedule, Tracker
from apmax.objective.surrogates import Surrogate
from apmax.torch.checks import (
    ONE_COLUMN,
    check_batch_labels,
    check_finite,
    check_floating,
    check_index,
    check_rows,
)
from apmax.torch.compositional import CompositionalLoss, with_gradient
from apmax.torch.distributed import gather_checked
from apmax.torch.foreign_keywords import explains_foreign_keywords
from apmax.torch.labels import LabelTable
from apmax.torch.query_table import QueryTable
from apmax.torch.score_scale import check_spread, resolve_scale
from apmax.torch.skipped_batches import SkippingLoss
from apmax.torch.tensor_surrogates import pair_losses, pair_terms


def minus_precision(u: Tensor) -> Tensor:
    """f(u) = −u₁/u₂, row by row."""
    return -u[:, 0] / u[:, 1]


class TrackerOptions(TypedDict, total=False):
    """Keyword parameters of all losses with a U; see :class:`APLoss`."""

    tracker: str | Tracker
    beta0: float
    schedule: str | Schedule | None
    poor_batch: str
    process_group: Any


class PairOptions(TrackerOptions, total=False):
    """Keyword parameters of losses with a surrogate; see :class:`APLoss`."""

    surrogate: str | Surrogate
    gamma: float | None
    from_logits: bool
    spread: float | None


class IndexedLoss(CompositionalLoss, SkippingLoss):
    """Base of losses ``loss(scores, index)`` of examples whose labels the loss has.

    A checkpoint holds the settings on which U depends, and loads only with the same ones. With
    ``strict=False`` one of other settings loads as well; U then stays as it is, with a warning, so
    that a model can be loaded for other data.

    Parameters
    ----------
    outer, num_rows, num_values, first_visit
        See :class:`CompositionalLoss`.
    labels : LabelTable or QueryTable
        Labels of all examples.
    surrogate, gamma, from_logits, spread, tracker, beta0, schedule, poor_batch, process_group
        See :class:`APLoss`.
    """

    labels: Any  # a table; subclasses name it

    @explains_foreign_keywords
    def __init__(
        self,
        outer: Callable[[Tensor], Tensor],
        num_rows: int,
        num_values: int,
        labels: LabelTable | QueryTable,
        *,
        surrogate: str | Surrogate = "logistic",
        gamma: float | None = None,
        from_logits: bool = False,
        spread: float | None = 1.0,
        tracker: str | Tracker = "elapsed_average",
        beta0: float = 0.9,
        schedule: str | Schedule | None = None,
        first_visit: str = "estimate",
        poor_batch: str = "skip",
        process_group: Any = None,
    ) -> None:
        chosen, gamma, spread = resolve_scale(surrogate, gamma, spread, from_logits)
        tracker = tracker if isinstance(tracker, Tracker) else TRACKERS.choose(tracker)
        if schedule is None:
            schedule = "inverse_sqrt" if tracker.decays else "constant"
        super().__init__(
            outer,
            num_rows,
            num_values,
            tracker=tracker,
            beta0=beta0,
            schedule=schedule,
            first_visit=first_visit,
            process_group=process_group,
        )
        self._count_skips(poor_batch, labels.num_labels)
        self.labels = labels
        self._surrogate, self._gamma, self._spread = chosen, gamma, spread
        self._terms = pair_terms(chosen)

    @property
    def surrogate(self) -> str:
        """Name of the surrogate. Read-only, because U depends on it."""
        return self._surrogate.name

    @property
    def gamma(self) -> float:
        """γ of the surrogate. Read-only, because U depends on it."""
        return self._gamma

    @property
    def spread(self) -> float | None:
        """Largest difference of two scores. Read-only, because U depends on it."""
        return self._spread

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, scores: Tensor, index: Tensor, labels: Any = None) -> Tensor:
        """Update U and return the loss of the batch.

        Parameters
        ----------
        scores : Tensor of shape (B,)
            Scores of the batch: probabilities, or logits if the loss was created with
            ``from_logits=True``; logits for `ListwiseLoss`. The shape is (B, L) for `APLoss` with
            L labels.
        index : Tensor of shape (B,)
            Positions of the examples in the labels of the constructor, each once.
        labels : array-like or Tensor of the shape of the scores, optional
            Labels of the batch. They are only compared with those of the constructor; if they
            differ, `index` is wrong and an error is raised.
        """

        def check() -> tuple[Tensor, ...]:
            return self._check_batch(scores, index, labels)

        values, rows, *given = gather_checked(check, self, self.process_group)
        return self._of_parts(values, rows, given)

    def _of_parts(self, scores: Tensor, index: Tensor, given: list[Tensor]) -> Tensor:
        """Return the loss of the parts of all ranks."""
        self._check_values(scores, index, given)
        return self._of_batch(scores.to(torch.promote_types(scores.dtype, self.U.dtype)), index)

    def _check_batch(self, scores: Tensor, index: Tensor, given: Any) -> tuple[Tensor, ...]:
        """Check shapes, types and devices; return scores of shape (B,) or (B, L), and positions."""
        check_floating(scores, "scores")
        count, device = self.labels.num_labels, scores.device
        columns = scores
        if scores.ndim == 2 and scores.shape[1] == count == 1:
            columns = scores[:, 0]
        elif scores.ndim != (2 if count > 1 else 1) or (count > 1 and scores.shape[1] != count):
            wanted = "(B,)" if count == 1 else f"(B, {count})"
            raise ShapeError(
                f"`scores` must have shape {wanted}, got {tuple(scores.shape)}: one score per "
                "example" + ("; " + ONE_COLUMN if count == 1 else " and label")
            )
        positions = check_index(index, columns.shape[0], device)
        own_device = self._buffers["rounds"].device  # type: ignore[union-attr]
        if own_device != device:
            raise ParameterError(
                f"the loss is on {own_device} and `scores` on {device}: loss.to({str(device)!r})"
            )
        if given is None:
            return columns, positions
        return columns, positions, check_batch_labels(given, columns)

    def _check_values(self, scores: Tensor, index: Tensor, given: list[Tensor]) -> None:
        """Check that scores are finite and within `spread`, and that positions fit the labels."""
        check_rows(index, self.labels.examples)
        check_finite(scores, "a score")
        check_spread(scores, self.spread)
        if given:
            self.labels.check_given(index, given[0])

    def _of_batch(self, scores: Tensor, index: Tensor) -> Tensor:
        """Return the loss of valid scores and positions."""
        raise NotImplementedError

    def _pairs(self, differences: Tensor) -> Tensor:
        """Return ℓ of the differences of scores, with its gradient."""
        return pair_losses(differences, self._terms, self._gamma)

    def _tracked_value(
        self, inner: Tensor, rows: Tensor, scale: Tensor | float, weight: Tensor | float
    ) -> Tensor:
        """Update U and return Σ weight · f(U) with its gradient in `inner`."""
        value, pulls = self._track(inner, rows, scale, weight)
        self._count(False)
        return with_gradient(inner, value, pulls)

    def _own_buffers(self) -> list[Tensor]:
        return [*super()._own_buffers(), *self.labels.buffers()]

    def _settings(self) -> dict[str, Any]:
        """Return the settings on which U depends."""
        labels = self.labels.fingerprint()
        return {"labels": labels, "surrogate": self.surrogate, "gamma": self.gamma}

    def get_extra_state(self) -> dict[str, Any]:
        """Return the settings on which U depends, for checkpoints."""
        return self._settings()

    def set_extra_state(self, state: Any) -> None:
        """Do nothing: checkpoints with other settings are refused before this call."""

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        own = self._settings()
        settings = state.get(f"{prefix}_extra_state", own)
        if settings == own:
            super()._load_from_state_dict(state, prefix, *rest)
            return
        # torch does not say here whether loading is strict; it raises for unexpected keys if so
        message = f"the checkpoint was tracked with {settings}, but this loss has {own}"
        unexpected = rest[3]
        unexpected.append(
            f"{prefix}U ({message}: create the loss with the same {', '.join(own)} as the "
            "checkpoint, or load with strict=False to start with an empty U)"
        )
        warnings.warn(f"{message}: its U is not loaded", UserWarning, stacklevel=2)
