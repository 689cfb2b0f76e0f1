r"""APLoss: minus the average precision of the whole data set, from one batch at a time."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from apmax.errors import NonFiniteError, ParameterError, ShapeError
from apmax.objective.outer import Box
from apmax.objective.surrogates import default_gamma, resolve
from apmax.torch.checks import check_floating, check_index, check_rows
from apmax.torch.compositional import CompositionalLoss
from apmax.torch.distributed import gather_checked
from apmax.torch.gradients import with_gradient
from apmax.torch.labels import LabelTable, Looked
from apmax.torch.pairs import Cells, PairWeights, pair_sums
from apmax.torch.poor_batches import SkipsPoorBatches
from apmax.torch.surrogates import PAIR_TERMS
from apmax.torch.trackers import TRACKERS
from apmax.validation import check_gamma, check_real

COMPILED = ("squared_hinge", "logistic")
"""Surrogates of the compiled loop."""
POOR = "has no negatives or fewer than two positives"


class MinusPrecision:
    """f(u) = −u₁/u₂ and ∇f(u) = (−1/u₂, u₁/u₂²), in fewer steps than autograd takes."""

    def __call__(self, u: Tensor) -> Tensor:
        """f(u), row by row."""
        return -u[:, 0] / u[:, 1]

    def value_and_gradient(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """f(u) and ∇f(u), row by row."""
        inverse = u[:, 1].reciprocal()
        precision = u[:, 0] * inverse
        return -precision, torch.stack([-inverse, precision * inverse], dim=1)


class Weighed(NamedTuple):
    """The positive cells of a batch, their rows of U, and what pairs and rows count."""

    cells: Cells
    rows: Tensor
    weights: PairWeights
    share: Tensor | None  # of each row in the loss; None is alike
    scale: Tensor | float  # m/B


class APLoss(CompositionalLoss, SkipsPoorBatches):
    r"""−ÂP of all data, from batches: U remembers the rank of every positive.

    .. math:: F(w) = \frac1m \sum_{y_i = 1} f(g_i(w)), \quad f(u) = -u_1/u_2, \quad
              g_i(w) = \frac1n \sum_j \ell\big(s_w(x_j) - s_w(x_i)\big)
              \begin{pmatrix} \mathbb 1(y_j = 1) \\ 1 \end{pmatrix}

    ``loss(scores, index)`` takes the scores of a batch and the places of its examples in the
    data set. The labels are known from the constructor. The returned scalar is −ÂP as tracked
    for the positives of the batch; its gradient is the paper's estimate, and U has been updated.

    Parameters
    ----------
    labels : (n,) of bool, {0, 1} or {-1, 1}; or (n, L) of 1, 0, and NaN or -1 where a label is
        missing: then scores are (B, L), and the loss is the mean over the labels.
    surrogate : "logistic", or "squared_hinge", which is the paper's.
    gamma : slope or margin of the surrogate, in units of the scores; None is 20 and 0.1.
    tracker : "randomized_coordinate" (MOAP-V2, ADAP), "moving_average" (SOAP, MOAP-V1, SOX) or
        "none". The first multiplies estimates by m/B and is the paper's; the second is the
        steadier where a positive is seen rarely (m/B of 100 and more).
    beta0 : weight of the NEW estimate in U, in (0, 1].
    schedule : "constant" or "inverse_sqrt"; None is the paper's, the second for
        "randomized_coordinate".
    first_visit : "estimate" or "zero"; where a row of U starts.
    spread : the largest difference of two scores: 1 for probabilities, so give the loss
        ``torch.sigmoid(logits)``. With None there is no upper bound and scores are free.
    poor_batch : a batch without negatives, or with fewer than two positives where the data have
        more, says nothing: "skip" returns 0 and counts it in ``loss.skipped``, "error" raises.
    process_group : the processes that train together; see :class:`CompositionalLoss`.

    Notes
    -----
    The state per positive is 24 bytes (its place, U, and the time of its last visit). The cost
    of a step does not depend on n or m. Betas weigh the NEW value. `index` counts the data that
    the labels belong to: to validate, compute ``apmax.average_precision`` of the scores of other
    data. After ``loss.eval()`` calls change nothing. A checkpoint is refused by a loss with other
    labels, surrogate or gamma; tracker, beta0 and schedule may be others than it was saved with.

    Differs from the paper: see :mod:`apmax.torch.pairs` (each class by its own rate) and
    :mod:`apmax.methods` (first visits).

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import APLoss
    >>> labels = torch.tensor([1, 0, 0, 1, 0, 0])
    >>> loss = APLoss(labels)
    >>> scores = torch.tensor([0.9, 0.2, 0.4, 0.6, 0.3, 0.1], requires_grad=True)
    >>> value = loss(scores, torch.arange(6))
    >>> value.backward()
    >>> print(f"{value:.3f}, AP tracked {loss.average_precision():.3f}")
    -0.993, AP tracked 0.993
    """

    lows: Tensor
    highs: Tensor
    tracked_with: Tensor

    def __init__(
        self,
        labels: Any,
        *,
        surrogate: str = "logistic",
        gamma: float | None = None,
        tracker: str = "randomized_coordinate",
        beta0: float = 0.9,
        schedule: str | None = None,
        first_visit: str = "estimate",
        spread: float | None = 1.0,
        poor_batch: str = "skip",
        process_group: Any = None,
    ) -> None:
        terms = PAIR_TERMS.choose(surrogate)
        chosen = resolve(surrogate)
        gamma = check_gamma(default_gamma(chosen) if gamma is None else gamma)
        if spread is not None:
            why = "it is the largest difference of two scores; None sets no bound"
            check_real(spread, "spread", above=0, why=why)
        if TRACKERS.choose(tracker).needs_previous:
            raise ParameterError(
                f"`tracker` = {tracker!r} needs estimates at two parameters, which APLoss is not "
                "given: use CompositionalLoss, or another tracker"
            )
        if schedule is None:
            schedule = "inverse_sqrt" if tracker == "randomized_coordinate" else "constant"
        table = LabelTable(labels)
        super().__init__(
            MinusPrecision(),
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
        self._terms, self._surrogate = terms, surrogate
        self._gamma, self._spread = gamma, spread
        self.own = chosen.lower_bound(gamma)
        self.fused = table.names == 1 and surrogate in COMPILED
        self._largest_spread = math.inf if spread is None else spread * (1 + 1e-3)
        reach = math.inf if spread is None else spread
        boxes = [Box.of(chosen, gamma, m=m, n=max(n, 1), spread=reach) for m, n in table.counts]
        lows = torch.tensor([[0.0, box.bottom2] for box in boxes], dtype=torch.float64)
        highs = torch.tensor([[box.top1, box.top2] for box in boxes], dtype=torch.float64)
        self.register_buffer("lows", lows, persistent=False)
        self.register_buffer("highs", highs, persistent=False)
        self.register_buffer("tracked_with", _stored(surrogate, gamma))

    @property
    def surrogate(self) -> str:
        """The surrogate's name; fixed, as U was tracked with it."""
        return self._surrogate

    @property
    def gamma(self) -> float:
        """γ of the surrogate; fixed, as U was tracked with it."""
        return self._gamma

    @property
    def spread(self) -> float | None:
        """The largest difference of two scores; fixed, as Ω depends on it."""
        return self._spread

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, scores: Tensor, index: Tensor) -> Tensor:
        """−ÂP of the batch as tracked, to call ``backward()`` on."""

        def checked() -> tuple[Tensor, ...]:
            return self._check_batch(scores, index)

        columns, index = gather_checked(checked, self.rounds.device, self.process_group)
        if self.fused and self.training and columns.device.type == "cpu":
            return self._track_on_cpu(columns[:, 0], index)
        self._check_values(columns, index)
        looked = self.labels.lookup(index)
        in_batch = torch.stack([looked.positive.sum(1), looked.negative.sum(1)], dim=1)
        usable = self._usable(in_batch.tolist())
        if not any(usable):
            return self._skip(columns, POOR)
        cells, rows, weights, share, scale = (
            self._weigh_one(looked, in_batch)
            if len(usable) == 1
            else self._weigh_many(looked, in_batch, torch.tensor(usable, device=index.device))
        )
        by_name = columns.t().to(torch.promote_types(columns.dtype, self.U.dtype))
        inner = pair_sums(by_name, cells, weights, self._terms, self._gamma)
        return self._compose(inner, rows, scale=scale, weight=share)

    @torch.no_grad()
    def average_precision(self) -> float:
        """ÂP as tracked so far, over the positives seen; the mean over the labels.

        It is the surrogate's, which a steep surrogate brings near AP, and it is as old as the
        last visits: watch it, and measure AP on held-out data.
        """
        seen = ~self.written_at.isnan()
        if not bool(seen.any()):
            return math.nan
        u = self.U[seen].double()  # a decay of both since then would cancel in their quotient
        names = self.labels.cells[seen] // self.labels.examples
        counts = torch.bincount(names, minlength=self.labels.names)
        sums = torch.zeros(self.labels.names, dtype=torch.float64, device=u.device)
        sums.index_add_(0, names, u[:, 0] / u[:, 1])
        return float((sums[counts > 0] / counts[counts > 0]).mean())

    def _track_on_cpu(self, scores: Tensor, index: Tensor) -> Tensor:
        """The same in one compiled loop: torch's overhead per operation is most of a small step."""
        from apmax.torch._fused import POOR as SAYS_NOTHING
        from apmax.torch._fused import TAKEN, Clock, track_batch

        if scores.element_size() < 4:
            scores = scores.float()
        tick = self._next_tick()
        gradient = torch.empty_like(scores)
        found, value = track_batch(
            scores.detach().numpy(),
            index.numpy(),
            self.labels.examples,
            self.labels.cells.numpy(),
            self.U.numpy(),
            self.written_at.numpy(),
            *self._in_kernel,
            Clock(tick.beta0, tick.decay, tick.next_decay),
            gradient.numpy(),
        )
        if found == TAKEN:
            self._set_clock(tick)
            dtype = torch.promote_types(scores.dtype, self.U.dtype)
            return with_gradient(scores, torch.tensor(value, dtype=dtype), gradient)
        if found == SAYS_NOTHING:
            return self._skip(scores, POOR)
        self._check_values(scores, index)  # says what cannot be read
        raise NonFiniteError(
            f"pairs of scores up to {float(scores.abs().max()):.3g} do not fit into U, nothing has "
            "changed: pass probabilities, or use loss.double()"
        )

    @property
    def _in_kernel(self) -> tuple[Any, Any]:
        """The rules of the compiled loop."""
        from apmax.objective._batch_pairs import PairRules
        from apmax.objective._tracking import Edges
        from apmax.torch._fused import Tracking

        (bottom1, bottom2), (top1, top2) = self.lows[0].tolist(), self.highs[0].tolist()
        tracking = Tracking(
            remembers=self.tracker.remembers,
            decays=self.tracker.decays,
            edges=Edges(bottom1, top1, bottom2, top2),
            spread=self._largest_spread,
            largest=torch.finfo(self.U.dtype).max,
        )
        return PairRules(self._surrogate == "squared_hinge", self._gamma, True), tracking

    def _usable(self, in_batch: list[list[int]]) -> list[bool]:
        """Names under which the batch says something of the data."""
        return [
            0 < min(m, 2) <= plus and minus > 0
            for (plus, minus), (m, _) in zip(in_batch, self.labels.counts, strict=True)
        ]

    def _weigh_one(self, looked: Looked, in_batch: Tensor) -> Weighed:
        """One name: every weight is a number."""
        ((plus, minus),) = in_batch.tolist()
        ((m, n),) = self.labels.counts
        dtype = self.U.dtype
        column = looked.positive[0].nonzero()[:, 0]
        weights = PairWeights(
            own=self.own / n,
            plus=looked.positive.to(dtype).mul_((m - 1) / (n * max(plus - 1, 1))),
            minus=looked.negative.to(dtype).mul_((n - m) / (n * minus)),
        )
        return Weighed(Cells(None, column), looked.rows[0, column], weights, None, m / plus)

    def _weigh_many(self, looked: Looked, in_batch: Tensor, usable: Tensor) -> Weighed:
        """Several names: each has its own numbers, and counts as much as any other."""
        dtype = self.U.dtype
        m, n = self.labels.positives.double(), self.labels.known.double().clamp(min=1)
        plus, minus = in_batch.double().unbind(1)
        per_plus = ((m - 1) / (n * (plus - 1).clamp(min=1))).to(dtype)
        per_minus = ((n - m) / (n * minus.clamp(min=1))).to(dtype)
        name, column = (looked.positive & usable[:, None]).nonzero().unbind(1)
        weights = PairWeights(
            own=(self.own / n[name]).to(dtype),
            plus=looked.positive * per_plus[:, None],
            minus=looked.negative * per_minus[:, None],
        )
        share = 1.0 / (usable.sum() * plus[name]).to(dtype)
        scale = (m[name] / plus[name]).to(dtype)[:, None]
        return Weighed(Cells(name, column), looked.rows[name, column], weights, share, scale)

    def _project(self, u: Tensor, rows: Tensor | None) -> Tensor:
        """Π_Ω, Ω being that of the row's own label."""
        name: Any = 0
        if self.labels.names > 1:
            cells = self.labels.cells if rows is None else self.labels.cells[rows]
            name = cells // self.labels.examples
        return torch.clamp(u, self.lows[name].to(u.dtype), self.highs[name].to(u.dtype))

    def _check_batch(self, scores: Tensor, index: Tensor) -> tuple[Tensor, ...]:
        """Shapes, types and devices; returns scores of shape (B, L) and their places."""
        check_floating(scores, "scores")
        names = self.labels.names
        columns = scores[:, None] if scores.ndim == 1 and names == 1 else scores
        if columns.ndim != 2 or columns.shape[1] != names:
            wanted = "(B,)" if names == 1 else f"(B, {names})"
            raise ShapeError(
                f"`scores` must have shape {wanted}, got {tuple(scores.shape)}: one score per "
                "example" + ("; try scores.squeeze(-1)" if names == 1 else " and label")
            )
        places = check_index(index, columns.shape[0], scores.device)
        if self.labels.cells.device != scores.device:
            raise ParameterError(
                f"the loss is on {self.labels.cells.device} and `scores` on {scores.device}: "
                f"loss.to({str(scores.device)!r})"
            )
        return columns, places

    def _check_values(self, columns: Tensor, index: Tensor) -> None:
        """Finite scores within the spread, and places in the data set, each once."""
        check_rows(index, self.labels.examples)
        low, high = (float(edge) for edge in torch.aminmax(columns.detach()))
        if not (math.isfinite(low) and math.isfinite(high)):
            raise NonFiniteError(
                "`scores` holds NaN or infinity, U is unchanged: lower the learning rate, or look "
                "at the inputs of this batch"
            )
        if high - low > self._largest_spread:
            raise ParameterError(
                f"`scores` differ by {high - low:.4g}, more than spread = {self._spread:g}: pass "
                "probabilities, torch.sigmoid(logits), or give spread= the bound (None: no bound)"
            )

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        errors = rest[4]
        key = f"{prefix}tracked_with"
        if f"{prefix}U" in state and key not in state and self._surrogate == "squared_hinge":
            state[key] = self.tracked_with  # from before it was stored: that was the default
        if self.labels.is_other(state, f"{prefix}labels."):
            errors.append(
                "the checkpoint belongs to other labels: make the loss with those that it was "
                "saved with"
            )
        elif key in state and not torch.equal(state[key].cpu(), self.tracked_with.cpu()):
            errors.append(
                f"the checkpoint was tracked with {_told(state[key])}, and this loss has "
                f"{_told(self.tracked_with)}: make it with the former"
            )
        elif key not in state and f"{prefix}U" in state:
            errors.append(
                "the checkpoint does not say with which surrogate it was tracked, and this loss "
                f'has {_told(self.tracked_with)}: older ones are of surrogate="squared_hinge"'
            )
        else:
            super()._load_from_state_dict(state, prefix, *rest)

    def _own_buffers(self) -> list[Tensor]:
        return [*super()._own_buffers(), *self.labels.buffers()]


def _stored(surrogate: str, gamma: float) -> Tensor:
    """Integers, which no ``.half()`` rounds: the surrogate's number, and the bits of γ."""
    bits = torch.tensor(gamma, dtype=torch.float64).view(torch.int64)
    return torch.stack([torch.tensor(list(PAIR_TERMS).index(surrogate)), bits])


def _told(stored: Tensor) -> str:
    """As options of APLoss, of a checkpoint that may be anything."""
    names = list(PAIR_TERMS)
    if stored.shape != (2,) or stored.dtype != torch.int64 or not 0 <= stored[0] < len(names):
        return "an unknown surrogate"
    gamma = stored.cpu()[1].view(torch.float64)
    return f"surrogate={names[int(stored[0])]!r}, gamma={float(gamma):g}"
