r"""The engine: any problem min_w 1/m Σ_i f(g_i(w)) whose g_i can only be estimated.

The paper calls it two-level stochastic dependent compositional, later work finite-sum coupled
compositional. Give f (`outer`) and differentiable estimates of some g_i; the engine remembers
the g_i in U and turns the estimates into a scalar to call ``backward()`` on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from apmax.errors import NonFiniteError, NotNumericError, ParameterError, ShapeError
from apmax.method.schedules import SCHEDULES
from apmax.method.trackers import FIRST_VISITS, LOG_OF_NOTHING, add_exactly, check_beta0
from apmax.torch.distributed import gather_rows, gather_sizes, world_size
from apmax.torch.trackers import TRACKERS, Move
from apmax.validation import check_count

Outer = Callable[[Tensor], Tensor]
"""f: (B, k) → (B,), row by row, in torch operations."""
Box = tuple[Any, Any]
"""(low, high), each a number or k numbers: where every g_i lies."""


class Tick(NamedTuple):
    """One round: its number, β₀, and Σ log(1 − β₀) before and after it, each in two doubles."""

    t: int
    beta0: float
    high: float
    low: float
    next_high: float
    next_low: float


class CompositionalLoss(nn.Module):
    r"""Loss of min_w 1/m Σ_i f(g_i(w)), from estimates of a few g_i at a time.

    .. math:: \text{value} = \frac1B \sum_{i \in \mathcal B} f(U_i), \qquad
              \text{gradient} = \frac1B \sum_{i \in \mathcal B}
              \nabla \tilde g_i(w)^\top \nabla f(U_i)

    Parameters
    ----------
    outer : f, any torch function of a (B, k) tensor that returns (B,), row by row.
    num_rows : m, how many g_i there are.
    num_values : k, how many numbers each g_i has.
    tracker : "moving_average", "randomized_coordinate", "msvr" or "none"; see
        :mod:`apmax.torch.trackers`.
    beta0 : weight of the NEW estimate in U, in (0, 1]; its first value under a schedule.
    schedule : "constant", or "inverse_sqrt" for beta0 / √t.
    box : (low, high), k numbers or one each, on which U is projected; None does not.
    first_visit : "estimate" starts a row of U at its first estimate; "zero" at 0, as a first
        gradient 1/beta0 times too large.

    ``loss(inner, index)`` takes g̃ of shape (B, k) and the B distinct rows they belong to. U is
    updated without a gradient; the returned scalar is for ``backward()``. In training with
    several processes every rank gives its own part of the batch, and U stays the same on all.

    U, its clock and β₀ are buffers: ``state_dict``, ``.to()`` and ``.double()`` take them
    along. U is never less precise than float32. After an error nothing has changed.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import CompositionalLoss
    >>> loss = CompositionalLoss(lambda u: u[:, 0] ** 2, num_rows=10, num_values=1)
    >>> estimate = torch.tensor([[3.0], [1.0]], requires_grad=True)
    >>> value = loss(estimate, torch.tensor([4, 7]))
    >>> value.backward()
    >>> value.item(), estimate.grad.flatten().tolist()
    (5.0, [3.0, 1.0])
    """

    U: Tensor
    written_at: Tensor
    log_decay: Tensor
    rounds: Tensor
    low: Tensor
    high: Tensor

    def __init__(
        self,
        outer: Outer,
        num_rows: int,
        num_values: int,
        *,
        tracker: str = "moving_average",
        beta0: float = 0.9,
        schedule: str = "constant",
        box: Box | None = None,
        first_visit: str = "estimate",
    ) -> None:
        super().__init__()
        check_count(num_rows, "num_rows", why="it is how many g_i there are")
        check_count(num_values, "num_values", why="it is how many numbers each g_i has")
        SCHEDULES.choose(schedule)
        seen = FIRST_VISITS.choose(first_visit)
        self.tracker = TRACKERS.choose(tracker)
        self.outer = outer
        self.num_rows = num_rows
        self.beta0 = check_beta0(beta0)
        self.schedule = schedule
        low, high = (-math.inf, math.inf) if box is None else box
        edges = [torch.as_tensor(edge, dtype=torch.float64) for edge in (low, high)]
        kept = num_rows if self.tracker.remembers else 0
        start = torch.zeros(kept, num_values)
        for name, edge in zip(("low", "high"), edges, strict=True):
            self.register_buffer(name, edge.expand(num_values).clone())
        self.register_buffer("U", start)
        written_at = torch.full((kept,), 0.0 if seen else math.nan, dtype=torch.float64)
        self.register_buffer("written_at", written_at)
        self.register_buffer("log_decay", torch.zeros(2, dtype=torch.float64))
        self.register_buffer("rounds", torch.zeros((), dtype=torch.int64))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, inner: Tensor, index: Tensor, *, previous: Tensor | None = None) -> Tensor:
        """Take g̃ (B, k) and its rows (B,); return the scalar to call ``backward()`` on.

        Inside a compiled step it runs as it is: it reads a clock, and refuses bad batches.
        """
        self._check_inner(inner, index, previous)
        if world_size() > 1:
            sizes = gather_sizes(inner)
            inner, index = gather_rows(inner, sizes=sizes), gather_rows(index, sizes=sizes)
            previous = None if previous is None else gather_rows(previous, sizes=sizes)
        check_rows(index, self.num_rows)
        scale = self.num_rows / index.numel()
        return self._compose(inner, index, scale=scale, weight=None, previous=previous)

    def tracked(self, rows: Tensor | None = None) -> Tensor:
        """U as it stands now, every delayed decay applied; NaN where a row has not been seen."""
        written = self.written_at if rows is None else self.written_at[rows]
        u = self.U if rows is None else self.U[rows]
        if self.tracker.decays:
            u = u * self._decay_since(written, *self.log_decay.tolist())
        return self._project(u, rows).masked_fill(written.isnan()[:, None], math.nan)

    def extra_repr(self) -> str:
        """What print(loss) shows."""
        name = next(name for name, tracker in TRACKERS.items() if tracker is self.tracker)
        return f"rows={self.num_rows}, tracker={name!r}, beta0={self.beta0}, {self.schedule}"

    def _compose(
        self,
        inner: Tensor,
        rows: Tensor,
        *,
        scale: Tensor | float,
        weight: Tensor | None,
        previous: Tensor | None = None,
    ) -> Tensor:
        """Update U and return the scalar; `weight` of each row adds up to 1, None is 1/B."""
        estimate = inner.detach().to(self.U.dtype)
        if not math.isfinite(float(estimate.sum())) and not bool(estimate.isfinite().all()):
            raise NonFiniteError(
                "an estimate is NaN or infinite, U is unchanged: look at the inputs of this batch"
            )
        with torch.no_grad():
            tick = self._next_tick()
            u = self._moved(rows, estimate, scale, previous, tick)
            value, gradient = self._outer_terms(u)
            self._keep(rows, u, tick)
            if weight is None:
                value, pulls = value.mean(), gradient / rows.numel()
            else:
                value, pulls = weight @ value, gradient * weight[:, None]
        return with_gradient(inner, value, pulls)

    def _moved(
        self,
        rows: Tensor,
        estimate: Tensor,
        scale: Tensor | float,
        previous: Tensor | None,
        tick: Tick,
    ) -> Tensor:
        """Rows of U_{t+1}; nothing is written yet."""
        if not self.tracker.remembers:
            return self._project(estimate, rows)
        old, written = self.U[rows], self.written_at[rows]
        if self.tracker.decays:
            old = old * self._decay_since(written, tick.high, tick.low)
        old = self._project(old, rows)
        old_estimate = None if previous is None else previous.detach().to(estimate.dtype)
        moved = self.tracker.move(Move(old, estimate, old_estimate, tick.beta0, scale))
        return self._project(torch.where(written.isnan()[:, None], estimate, moved), rows)

    def _keep(self, rows: Tensor, u: Tensor, tick: Tick) -> None:
        """Write the rows and the clock: nothing can fail any more."""
        if self.tracker.remembers:
            self.U[rows] = u
            self.written_at[rows] = tick.next_high
        self._set_clock(tick)

    def _next_tick(self) -> Tick:
        """What the next round will be; nothing is written."""
        t = int(self.rounds) + 1
        beta0 = SCHEDULES.choose(self.schedule)(self.beta0, t)
        if not self.tracker.decays:
            return Tick(t, beta0, 0.0, 0.0, 0.0, 0.0)
        high, low = self.log_decay.tolist()
        log_step = math.log1p(-beta0) if beta0 < 1 else LOG_OF_NOTHING
        return Tick(t, beta0, high, low, *add_exactly(high, low, log_step))

    def _set_clock(self, tick: Tick) -> None:
        self.rounds.fill_(tick.t)
        if self.tracker.decays:
            self.log_decay.copy_(torch.tensor((tick.next_high, tick.next_low), dtype=torch.float64))

    def _decay_since(self, written: Tensor, high: float, low: float) -> Tensor:
        """Π (1 − β₀) of the rounds since each row was written: (B, 1)."""
        decay = torch.exp((high - written) + low)
        return decay.to(self.U.dtype)[:, None]

    def _project(self, u: Tensor, rows: Tensor | None) -> Tensor:
        """Π_Ω of these rows of U."""
        return torch.clamp(u, self.low.to(u.dtype), self.high.to(u.dtype))

    def _outer_terms(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """f(u) and ∇f(u), row by row."""
        with torch.enable_grad():
            at = u.detach().requires_grad_()
            value = self.outer(at)
            if value.shape != u.shape[:1]:
                raise ShapeError(
                    f"`outer` returned shape {tuple(value.shape)} for {tuple(u.shape)}: it must "
                    "give one number per row"
                )
            (gradient,) = torch.autograd.grad(value.sum(), at)
        return value.detach(), gradient

    def _check_inner(self, inner: Tensor, index: Tensor, previous: Tensor | None) -> None:
        if inner.ndim != 2 or inner.shape[1] != self.U.shape[1]:
            raise ShapeError(
                f"`inner` must have shape (B, {self.U.shape[1]}), got {tuple(inner.shape)}: one "
                "row of estimates for each index"
            )
        check_floating(inner, "inner")
        check_index(index, inner.shape[0], inner.device)
        if self.tracker.needs_previous and previous is None:
            raise ParameterError(
                "`previous` is missing: this tracker needs the estimates of the same samples at "
                "the last parameters, loss(inner, index, previous=…)"
            )
        if previous is not None and previous.shape != inner.shape:
            raise ShapeError(
                f"`previous` has shape {tuple(previous.shape)} and `inner` {tuple(inner.shape)}: "
                "they are the same estimates at two parameters"
            )

    def _apply(self, fn: Any, recurse: bool = True) -> CompositionalLoss:
        """Move all buffers; cast U alone, and never below single precision."""

        def careful(tensor: Tensor) -> Tensor:
            moved: Tensor = fn(tensor)
            too_coarse = moved.is_floating_point() and moved.element_size() < 4
            cast = tensor is self.U and not too_coarse
            return moved if cast else tensor.to(moved.device)

        super()._apply(careful, recurse)  # type: ignore[no-untyped-call]
        return self


def with_gradient(inputs: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """`value` as a function of `inputs` whose gradient there is known already."""
    result: Tensor = _WithGradient.apply(inputs, value, gradient)  # type: ignore[no-untyped-call]
    return result


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        ctx.dtype = inputs.dtype
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outside: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return (gradient * outside).to(ctx.dtype), None, None


def check_floating(tensor: Tensor, name: str) -> None:
    """A tensor of floating point numbers."""
    if not tensor.is_floating_point():
        raise NotNumericError(
            f"`{name}` must be floating point, got {tensor.dtype}: pass the model's output itself"
        )


def check_index(index: Tensor, size: int, device: torch.device) -> None:
    """One integer per row of the batch, on the same device."""
    if not isinstance(index, Tensor) or index.dtype not in (torch.int64, torch.int32):
        kind = index.dtype if isinstance(index, Tensor) else type(index).__name__
        raise NotNumericError(
            f"`index` must be a tensor of integers, got {kind}: the positions of the batch in the "
            "data set, which IndexedDataset yields"
        )
    if index.shape != (size,):
        raise ShapeError(f"`index` must have shape ({size},), got {tuple(index.shape)}")
    if index.device != device:
        raise ParameterError(
            f"`index` is on {index.device} and the batch on {device}: index.to({str(device)!r})"
        )


def check_rows(index: Tensor, size: int) -> None:
    """Distinct numbers from 0 to size − 1."""
    if not index.numel():
        raise ShapeError("`index` is empty: give at least one row")
    ordered = index.sort().values
    first, last = int(ordered[0]), int(ordered[-1])
    if first < 0 or last >= size:
        raise ParameterError(
            f"`index` holds {first if first < 0 else last}, outside of 0 … {size - 1}: use "
            "positions in the data set that the loss was made for"
        )
    if index.numel() > 1 and bool((ordered[1:] == ordered[:-1]).any()):
        raise ParameterError(
            "`index` holds a position twice: draw batches without replacement, for example with "
            "PositiveNegativeBatchSampler"
        )
