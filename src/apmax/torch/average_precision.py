r"""APLoss: minus the average precision of the whole data set, from one batch at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apmax.errors import BackendError, NonFiniteError, ParameterError, ShapeError
from apmax.methods import TRACKERS, Schedule, Tracker
from apmax.objective.omega import Omega
from apmax.objective.surrogates import Surrogate, resolve_with_gamma
from apmax.torch.batch_losses import SkippingLoss
from apmax.torch.checks import check_finite, check_floating, check_index, check_rows
from apmax.torch.compositional import CompositionalLoss, with_gradient
from apmax.torch.distributed import gather_checked
from apmax.torch.labels import LabelTable
from apmax.torch.pairs import pair_sums, pair_sums_vjp, rank_batch
from apmax.torch.tensor_surrogates import BUILT_IN, pair_terms
from apmax.validation import check_real, check_switch

NO_RANKING = "has no negatives or fewer than two positives"


def minus_precision(u: Tensor) -> Tensor:
    """f(u) = −u₁/u₂, row by row."""
    return -u[:, 0] / u[:, 1]


class APLoss(CompositionalLoss, SkippingLoss):
    r"""−ÂP over all training data, from batches; U tracks the rank of every positive.

    .. math:: F(w) = \frac1m \sum_{y_i = 1} f(g_i(w)), \quad f(u) = -u_1/u_2, \quad
              g_i(w) = \frac1n \sum_j \ell\big(s_w(x_j) - s_w(x_i)\big)
              \begin{pmatrix} \mathbb 1(y_j = 1) \\ 1 \end{pmatrix}

    ``loss(scores, index)`` takes the scores of a batch and the positions of its examples in the
    data set. It updates U and returns −ÂP as tracked for the positives of the batch. The
    gradient of that scalar is the paper's estimate.

    Parameters
    ----------
    labels : array-like or Tensor of shape (n,) or (n, L)
        Labels of all training examples: bool, {0, 1} or {-1, 1}. With L > 1 columns: 1, 0, and
        NaN or -1 for a missing label. Scores then have shape (B, L), and the loss is the mean
        over the labels.
    surrogate : str or Surrogate, default="logistic"
        "logistic", "squared_hinge" (the paper's), or any other
        :class:`~apmax.objective.surrogates.Surrogate`. One without a tensor version runs in NumPy:
        score differences are copied to host memory at each step.
    gamma : float, default=None
        Slope or margin of the surrogate, in units of the scores. None is 20 for the logistic
        surrogate, 0.1 for the squared hinge and 1 for others.
    tracker : str or Tracker, default="randomized_coordinate"
        "randomized_coordinate" (MOAP-V2, ADAP), "moving_average" (SOAP, MOAP-V1, SOX) or "none".
        The first is the paper's. The second is more stable if a positive is seen rarely (m/B of
        100 or more, for m positives and B positives per batch).
    beta0 : float, default=0.9
        Weight of the new estimate in U, in (0, 1].
    schedule : str or Schedule, default=None
        "constant" or "inverse_sqrt" for beta0. None is the paper's: the second for trackers that
        decay.
    first_visit : {"estimate", "zero"}, default="estimate"
        Initial value of a row of U.
    spread : float or None, default=1.0
        Largest difference of two scores: 1 for probabilities. Scores that differ by more raise
        an error, which catches a missing sigmoid. None accepts any scores.
    projected : bool, default=True
        Whether U is projected on the bounds Ω of Assumption 1.
    poor_batch : {"skip", "error"}, default="skip"
        What to do with a batch without negatives or with fewer than two positives. "skip"
        returns 0 and counts the batch in ``loss.skipped``; "error" raises.
    process_group : ProcessGroup, None or False, default=None
        Processes that train together; see :class:`CompositionalLoss`.

    Notes
    -----
    The state takes 24 bytes per positive, and the cost of a step does not depend on n or m.
    To validate, use ``apmax.average_precision`` on the scores of held-out data. After
    ``loss.eval()`` no call changes the state. A checkpoint loads only with the same labels,
    surrogate and gamma; tracker, beta0 and schedule may differ.

    Differs from the paper: see :mod:`apmax.torch.pairs` (each class has its own sampling rate)
    and :mod:`apmax.methods` (first visits).

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import APLoss
    >>> labels = torch.tensor([1, 0, 0, 1, 0, 0])
    >>> loss = APLoss(labels)
    >>> scores = torch.tensor([0.9, 0.2, 0.4, 0.6, 0.3, 0.1], requires_grad=True)
    >>> value = loss(scores, torch.arange(6))
    >>> value.backward()
    >>> print(f"{value:.3f}, tracked AP {loss.average_precision():.3f}")
    -0.993, tracked AP 0.993
    """

    def __init__(
        self,
        labels: Any,
        *,
        surrogate: str | Surrogate = "logistic",
        gamma: float | None = None,
        tracker: str | Tracker = "randomized_coordinate",
        beta0: float = 0.9,
        schedule: str | Schedule | None = None,
        first_visit: str = "estimate",
        spread: float | None = 1.0,
        projected: bool = True,
        poor_batch: str = "skip",
        process_group: Any = None,
    ) -> None:
        chosen, gamma = resolve_with_gamma(surrogate, gamma)
        if spread is not None:
            why = "it is the largest difference of two scores; None sets no bound"
            check_real(spread, "spread", above=0, why=why)
        tracker = tracker if isinstance(tracker, Tracker) else TRACKERS.choose(tracker)
        if tracker.needs_previous:
            raise BackendError(
                f"`tracker` = {tracker.name!r} needs estimates at the previous parameters, which "
                "apmax.torch.APLoss does not have: use CompositionalLoss, or another tracker"
            )
        if schedule is None:
            schedule = "inverse_sqrt" if tracker.decays else "constant"
        table = LabelTable(labels)
        super().__init__(
            minus_precision,
            table.cells.numel(),
            2,
            tracker=tracker,
            beta0=beta0,
            schedule=schedule,
            first_visit=first_visit,
            process_group=process_group,
        )
        self._count_skips(poor_batch)
        self.labels = table
        self._terms, self._surrogate = pair_terms(chosen), chosen
        self._gamma, self._spread = gamma, spread
        self._own = chosen.lower_bound(gamma)
        self._rules: dict[torch.dtype, tuple[Any, Any]] = {}
        self.fused = table.num_labels == 1 and chosen in BUILT_IN
        self._largest_spread = math.inf if spread is None else spread * (1 + 1e-3)
        if check_switch(projected, "projected"):
            self.low, self.high = self._edges()

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
        """Largest difference of two scores. Read-only, because Ω depends on it."""
        return self._spread

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, scores: Tensor, index: Tensor) -> Tensor:
        """Update U and return −ÂP as tracked for the positives of the batch.

        Parameters
        ----------
        scores : Tensor of shape (B,) or (B, L)
            Scores of the batch, usually ``torch.sigmoid(logits)``.
        index : Tensor of shape (B,)
            Positions of the examples in `labels`, each once.
        """

        def check() -> tuple[Tensor, ...]:
            return self._check_batch(scores, index)

        columns, index = gather_checked(check, self.rounds.device, self.process_group)
        if self.fused and self.training and columns.device.type == "cpu":
            return self._compiled_step(columns[:, 0], index)
        self._check_values(columns, index)
        batch = rank_batch(self.labels, index, self._own, self.U.dtype)
        if batch is None:
            return self._skip(columns, NO_RANKING)
        columns = columns.to(torch.promote_types(columns.dtype, self.U.dtype))
        with torch.no_grad():
            inner, slopes = pair_sums(columns.detach(), batch, self._terms, self._gamma)
            value, pulls = self._track(inner, batch.rows, batch.scale, batch.share)
            gradient = pair_sums_vjp(pulls, slopes, batch, columns.shape[1])
        return with_gradient(columns, value.to(columns.dtype), gradient)

    @torch.no_grad()
    def average_precision(self) -> float:
        """Return the tracked ÂP over the positives visited so far, averaged over the labels.

        This is the surrogate AP, and each positive counts with the value of its last visit. Use
        it to monitor training, and measure AP on held-out data.
        """
        seen = ~self.written_at.isnan() & (self.U[:, 1] > 0)  # rows that start at 0 are unseen
        if not bool(seen.any()):
            return math.nan
        u = self.U[seen].double()  # a pending decay of both values cancels in their quotient
        label = self.labels.cells[seen] // self.labels.examples
        counts = torch.bincount(label, minlength=self.labels.num_labels)
        sums = torch.zeros(self.labels.num_labels, dtype=torch.float64, device=u.device)
        sums.index_add_(0, label, u[:, 0] / u[:, 1])
        return float((sums[counts > 0] / counts[counts > 0]).mean())

    def _compiled_step(self, scores: Tensor, index: Tensor) -> Tensor:
        """One label on a CPU, as one compiled loop without torch's overhead per operation."""
        from apmax.torch._fused import TAKEN, UNINFORMATIVE, track_batch

        tick = self._next_tick()
        gradient = torch.empty(scores.shape, dtype=torch.float64)
        outcome, value = track_batch(
            scores.detach().double().contiguous().numpy(),  # one type: the loop compiles once
            index.contiguous().numpy(),
            self.labels.examples,
            self.labels.cells.numpy(),
            self.U.numpy(),
            self.written_at.numpy(),
            *self._kernel_rules(self.U.dtype),
            tick,
            gradient.numpy(),
        )
        if outcome == TAKEN:
            self._set_clock(tick)
            dtype = torch.promote_types(scores.dtype, self.U.dtype)
            return with_gradient(scores, torch.tensor(value, dtype=dtype), gradient)
        if outcome == UNINFORMATIVE:
            return self._skip(scores, NO_RANKING)
        self._check_values(scores, index)  # raises if scores or index cannot be used
        largest = float(scores.detach().abs().max())
        raise NonFiniteError(
            f"pair sums of scores up to {largest:.3g} overflow U; the state is unchanged: pass "
            "probabilities, or use loss.double()"
        )

    def _kernel_rules(self, dtype: torch.dtype) -> tuple[Any, Any]:
        """Surrogate and tracker as the compiled loop reads them, made once."""
        if dtype not in self._rules:
            from apmax.objective._batch import LOGISTIC, SQUARED_HINGE, PairRules
            from apmax.torch._fused import TrackingRules

            (bottom1, bottom2), (top1, top2) = self.low[0].tolist(), self.high[0].tolist()
            kind = SQUARED_HINGE if self.surrogate == "squared_hinge" else LOGISTIC
            self._rules[dtype] = (
                PairRules(kind, self._gamma, self._own, True),
                TrackingRules(
                    remembers=self.tracker.remembers,
                    decays=self.tracker.decays,
                    omega=Omega(bottom1, top1, bottom2, top2),
                    spread=self._largest_spread,
                    largest=torch.finfo(dtype).max,
                ),
            )
        return self._rules[dtype]

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

    def _check_batch(self, scores: Tensor, index: Tensor) -> tuple[Tensor, ...]:
        """Check shapes, types and devices; return scores of shape (B, L) and their positions."""
        check_floating(scores, "scores")
        count = self.labels.num_labels
        columns = scores[:, None] if scores.ndim == 1 and count == 1 else scores
        if columns.ndim != 2 or columns.shape[1] != count:
            wanted = "(B,)" if count == 1 else f"(B, {count})"
            raise ShapeError(
                f"`scores` must have shape {wanted}, got {tuple(scores.shape)}: one score per "
                "example" + ("; try scores.squeeze(-1)" if count == 1 else " and label")
            )
        positions = check_index(index, columns.shape[0], scores.device)
        if self.labels.cells.device != scores.device:
            raise ParameterError(
                f"the loss is on {self.labels.cells.device} and `scores` on {scores.device}: "
                f"loss.to({str(scores.device)!r})"
            )
        return columns, positions

    def _check_values(self, columns: Tensor, index: Tensor) -> None:
        """Check that scores are finite and within `spread`, and positions valid and distinct."""
        check_rows(index, self.labels.examples)
        check_finite(columns, "a score")
        low, high = (float(edge) for edge in torch.aminmax(columns.detach()))
        if high - low > self._largest_spread:
            raise ParameterError(
                f"`scores` differ by {high - low:.4g}, more than spread = {self.spread:g}: pass "
                "probabilities, torch.sigmoid(logits), or set spread= (None: no bound)"
            )

    def get_extra_state(self) -> dict[str, Any]:
        """Return the settings on which U depends, for checkpoints."""
        labels = self.labels.fingerprint()
        return {"labels": labels, "surrogate": self.surrogate, "gamma": self.gamma}

    def set_extra_state(self, state: Any) -> None:
        """Do nothing: checkpoints with other settings are refused before this call."""

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        own = self.get_extra_state()
        settings = state.get(f"{prefix}_extra_state", own)
        if settings != own:
            rest[4].append(
                f"the checkpoint was tracked with {settings}, but this loss has {own}: create the "
                "loss with the labels, surrogate and gamma of the checkpoint"
            )
        else:
            super()._load_from_state_dict(state, prefix, *rest)

    def _own_buffers(self) -> list[Tensor]:
        return [*super()._own_buffers(), *self.labels.buffers()]
