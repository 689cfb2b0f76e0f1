r"""APLoss: minus the average precision of the whole data set, from one batch at a time."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apmax.errors import BackendError, NonFiniteError, WeightError
from apmax.methods import TRACKERS, Schedule, Tracker
from apmax.objective.omega import Omega
from apmax.objective.surrogates import LOGISTIC, Surrogate
from apmax.torch.compiled_step import CompiledStep
from apmax.torch.compositional import with_gradient
from apmax.torch.foreign_keywords import explains_foreign_keywords
from apmax.torch.indexed_loss import IndexedLoss, minus_precision
from apmax.torch.labels import LabelTable
from apmax.torch.pairs import pair_sums, pair_sums_vjp, rank_batch
from apmax.torch.tensor_surrogates import BUILT_IN
from apmax.validation import check_switch

LEAST_SLOPE = 2.0
"""Slope of the logistic surrogate below which probabilities are hardly told apart."""
NO_RANKING = "has no negatives or fewer than two positives"


class APLoss(IndexedLoss):
    r"""−ÂP over all training data, from batches; U tracks the rank of every positive.

    .. math:: F(w) = \frac1m \sum_{y_i = 1} f(g_i(w)), \quad f(u) = -u_1/u_2, \quad
              g_i(w) = \frac1n \sum_j \ell\big(s_w(x_j) - s_w(x_i)\big)
              \begin{pmatrix} \mathbb 1(y_j = 1) \\ 1 \end{pmatrix}

    ``loss(scores, index, labels)`` takes the scores of a batch and the positions of its examples
    in the data set. It updates U and returns −ÂP as tracked for the positives of the batch. The
    gradient of that scalar is the paper's estimate. The labels are optional and only checked.

    Parameters
    ----------
    labels : array-like or Tensor of shape (n,) or (n, L)
        Labels of all training examples: bool, {0, 1} or {-1, 1}. With L > 1 columns: 1, 0, and
        NaN or -1 for a missing label. Scores then have shape (B, L), and the loss is the mean
        over the labels.
    from_logits : bool, default=False
        Whether scores are logits. Recommended: they are not saturated, as probabilities of rare
        positives are.
    surrogate : str or Surrogate, default="logistic"
        "logistic", "squared_hinge" (the paper's), or any other
        :class:`~apmax.objective.surrogates.Surrogate`. One without a tensor version runs in NumPy:
        score differences are copied to host memory at each step.
    gamma : float, default=None
        Slope or margin of the surrogate, in units of the scores. None is 20 for the logistic
        surrogate (2 for logits), 0.1 for the squared hinge (1 for logits) and 1 for others.
    tracker : str or Tracker, default="elapsed_average"
        "elapsed_average", "randomized_coordinate" (MOAP-V2, ADAP), "moving_average" (SOAP,
        MOAP-V1, SOX) or "none"; see :mod:`apmax.methods`. The default follows the model equally
        fast for any number of positives per batch.
    beta0 : float, default=0.9
        Weight of the new estimate in U, in (0, 1].
    schedule : str or Schedule, default=None
        "constant" or "inverse_sqrt" for beta0. None is "inverse_sqrt" for "elapsed_average" and
        "randomized_coordinate", otherwise "constant".
    first_visit : {"estimate", "zero"}, default="estimate"
        Initial value of a row of U.
    spread : float or None, default=1.0
        Largest difference of two scores; a larger one raises an error. If it is 1, scores must
        also lie in [0, 1], which catches a missing sigmoid. None sets no bound. Ignored with
        ``from_logits=True``.
    projected : bool, default=True
        Whether U is projected on the bounds Ω of Assumption 1 of Wang et al. (2022).
    label_weights : array-like of shape (L,), default=None
        Weights of the labels in the loss; None is equal weights.
    poor_batch : {"skip", "error"}, default="skip"
        What to do with a batch without negatives or with fewer than two positives. "skip"
        returns 0 and counts the batch in ``loss.skipped``, which has one entry per label if
        there are several; "error" raises.
    process_group : ProcessGroup, None or False, default=None
        Processes that train together; see :class:`CompositionalLoss`.

    Notes
    -----
    The state takes 24 bytes per positive, and the cost of a step does not depend on n or m.
    To validate, use ``apmax.average_precision`` on the scores of held-out data. After
    ``loss.eval()`` no call changes the state. A checkpoint loads only with the same labels,
    surrogate and gamma; tracker, beta0 and schedule may differ. With ``strict=False`` a checkpoint
    of other data loads, too: U then starts empty, with a warning.

    Differs from the paper: each class of a batch is weighted by its own sampling rate, a row of U
    starts at its first estimate, and "elapsed_average" is not part of the paper.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import APLoss
    >>> labels = torch.tensor([1, 0, 0, 1, 0, 0])
    >>> loss = APLoss(labels, from_logits=True)
    >>> logits = torch.tensor([2.2, -1.4, -0.4, 0.4, -0.8, -2.2], requires_grad=True)
    >>> value = loss(logits, torch.arange(6), labels)
    >>> value.backward()
    >>> print(f"{value:.3f}, tracked AP {loss.average_precision():.3f}")
    -0.911, tracked AP 0.911
    """

    labels: LabelTable

    @explains_foreign_keywords
    def __init__(
        self,
        labels: Any,
        *,
        from_logits: bool = False,
        surrogate: str | Surrogate = "logistic",
        gamma: float | None = None,
        tracker: str | Tracker = "elapsed_average",
        beta0: float = 0.9,
        schedule: str | Schedule | None = None,
        first_visit: str = "estimate",
        spread: float | None = 1.0,
        projected: bool = True,
        label_weights: Any = None,
        poor_batch: str = "skip",
        process_group: Any = None,
    ) -> None:
        tracker = tracker if isinstance(tracker, Tracker) else TRACKERS.choose(tracker)
        if tracker.needs_previous:
            raise BackendError(
                f"`tracker` = {tracker.name!r} needs estimates at the previous parameters, which "
                "apmax.torch.APLoss does not have: use CompositionalLoss, or another tracker"
            )
        table = LabelTable(labels)
        super().__init__(
            minus_precision,
            table.cells.numel(),
            2,
            table,
            surrogate=surrogate,
            gamma=gamma,
            from_logits=from_logits,
            spread=spread,
            tracker=tracker,
            beta0=beta0,
            schedule=schedule,
            first_visit=first_visit,
            poor_batch=poor_batch,
            process_group=process_group,
        )
        if self._surrogate == LOGISTIC and self.spread == 1.0 and self.gamma < LEAST_SLOPE:
            message = (
                f"`gamma` = {self.gamma:g} is a very flat slope for probabilities; the default is "
                "20. The weight of a moving average, which LibAUC calls gamma, is beta0"
            )
            warnings.warn(message, UserWarning, stacklevel=3)
        self._set_label_weights(label_weights)
        self.least_pair = self._surrogate.lower_bound(self.gamma)
        self._compiled = CompiledStep()
        self.fused = table.num_labels == 1 and self._surrogate in BUILT_IN
        if check_switch(projected, "projected"):
            self.low, self.high = self._edges()

    def _of_parts(self, scores: Tensor, index: Tensor, given: list[Tensor]) -> Tensor:
        if self.fused and self.training and scores.is_cpu:
            return self._compiled_step(scores, index, given)
        return super()._of_parts(scores, index, given)

    def _of_batch(self, scores: Tensor, index: Tensor) -> Tensor:
        """Return the loss in torch operations, for any number of labels and any device."""
        columns = scores[:, None] if scores.ndim == 1 else scores
        batch = rank_batch(self.labels, index, self.least_pair, self.U.dtype, self.label_weights)
        if batch is None:
            return self._skip(columns, NO_RANKING)
        with torch.no_grad():
            inner, slopes = pair_sums(columns.detach(), batch, self._terms, self._gamma)
            value, pulls = self._track(inner, batch.rows, batch.scale, batch.share)
            gradient = pair_sums_vjp(pulls, slopes, batch, columns.shape[1])
        self._count(~batch.usable if self.skipped.ndim else False)
        return with_gradient(columns, value, gradient)

    @torch.no_grad()
    def average_precision(self) -> float:
        """Return the tracked ÂP, averaged over the labels with visited positives.

        This is the surrogate AP, and each positive counts with the value of its last visit. With
        few examples per batch it is usually above AP, because precision is a ratio of two noisy
        sums. Use it to monitor training, and measure AP on held-out data.
        """
        per_label = self.average_precision_per_label()
        return float(per_label.nanmean())

    @torch.no_grad()
    def average_precision_per_label(self) -> Tensor:
        """Return the tracked ÂP of each label, (L,); NaN if none of its positives was visited."""
        seen = ~self.written_at.isnan() & (self.U[:, 1] > 0)  # rows that start at 0 are unseen
        u = self.U[seen].double()  # a pending decay of both values cancels in their quotient
        label = self.labels.cells[: seen.numel()][seen] // self.labels.examples
        counts = torch.bincount(label, minlength=self.labels.num_labels)
        sums = torch.zeros(self.labels.num_labels, dtype=torch.float64, device=u.device)
        return sums.index_add_(0, label, u[:, 0] / u[:, 1]) / counts

    def _compiled_step(self, values: Tensor, index: Tensor, given: list[Tensor]) -> Tensor:
        """One label on a CPU, as one compiled loop without torch's overhead per operation."""
        tick = self._next_tick()
        outcome = self._compiled.track(self, tick, values, index, given)
        if outcome.taken:
            self._set_clock(tick)
            self._count(False)
            wide = values.to(torch.promote_types(values.dtype, outcome.dtype))
            return with_gradient(wide, outcome.value, outcome.gradient)
        if outcome.unranked:
            return self._skip(values, NO_RANKING)
        self._check_values(values, index, given)  # raises if something is invalid
        largest = float(values.detach().abs().max())
        raise NonFiniteError(
            f"pair sums of scores up to {largest:.3g} overflow U; the state is unchanged: pass "
            "probabilities, or use loss.double()"
        )

    def _edges(self) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of Ω for every label, (L, 2)."""
        reach = math.inf if self.spread is None else self.spread
        with np.errstate(all="ignore"):  # ℓ(∞) of a custom surrogate may be NaN: no upper bound
            boxes = [
                Omega.of(self._surrogate, self._gamma, m=m, n=max(n, 1), spread=reach)
                for m, n in torch.stack([self.labels.positives, self.labels.known], 1).tolist()
            ]
        low = torch.tensor([[0.0, box.bottom2] for box in boxes], dtype=torch.float64)
        high = torch.tensor([[box.top1, box.top2] for box in boxes], dtype=torch.float64)
        return low, torch.where(high.isnan(), math.inf, high)

    def _outer_terms(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """f(u) and ∇f(u) = (−1/u₂, u₁/u₂²), in fewer operations than autograd needs."""
        inverse = u[:, 1].reciprocal()
        precision = u[:, 0] * inverse
        return -precision, torch.stack([-inverse, precision * inverse], dim=1)

    def _boxes_of(self, rows: Tensor | None) -> Any:
        """Label of each row: every label has its own Ω."""
        if self.low.shape[0] == 1:
            return 0
        cells = self.labels.cells if rows is None else self.labels.cells[rows]
        return cells // self.labels.examples

    def _set_label_weights(self, weights: Any) -> None:
        """Store the weights of the labels; none is equal weights."""
        count = self.labels.num_labels
        self.label_weights: Tensor | None
        self.register_buffer("label_weights", None, persistent=False)
        if weights is None:
            return
        values = torch.as_tensor(weights, dtype=torch.float64).clone()
        valid = values.shape == (count,) and bool((values.isfinite() & (values >= 0)).all())
        if not valid or not bool(values.any()):
            raise WeightError(
                f"`label_weights` must be {count} finite numbers ≥ 0, not all 0, got {weights!r}: "
                "one weight per column of the labels"
            )
        self.label_weights = values
