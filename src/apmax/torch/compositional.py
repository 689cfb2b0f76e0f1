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

from apmax.errors import ParameterError, ShapeError
from apmax.methods import FIRST_VISITS, LOG_OF_ZERO, SCHEDULES, add_exactly, check_beta
from apmax.torch.checks import check_box, check_finite, check_floating, check_index, check_rows
from apmax.torch.distributed import gather_checked
from apmax.torch.gradients import with_gradient
from apmax.torch.trackers import TRACKERS, Move
from apmax.validation import check_count

Outer = Callable[[Tensor], Tensor]
"""f: (B, k) → (B,), row by row, in torch operations. With a method `value_and_gradient` it
gives f and ∇f itself."""
Box = tuple[Any, Any]
"""(low, high), each a number or k numbers: where every g_i lies."""


class Tick(NamedTuple):
    """One round: its number, β₀, and Σ log(1 − β₀) before and after it (with its rest)."""

    t: int
    beta0: float
    decay: float
    next_decay: float
    next_rest: float


class CompositionalLoss(nn.Module):
    r"""Loss of min_w 1/m Σ_i f(g_i(w)), from estimates of a few g_i at a time.

    .. math:: \text{value} = \frac1B \sum_{i \in \mathcal B} f(U_i), \qquad
              \text{gradient} = \frac1B \sum_{i \in \mathcal B}
              \nabla \tilde g_i(w)^\top \nabla f(U_i)

    Parameters
    ----------
    outer : f, any torch function of a (B, k) tensor that returns (B,), row by row. Its own
        parameters, if it has any, get no gradient.
    num_rows : m, how many g_i there are.
    num_values : k, how many numbers each g_i has.
    tracker : "moving_average", "randomized_coordinate", "msvr" or "none"; see
        :mod:`apmax.torch.trackers`.
    beta0 : weight of the NEW estimate in U, in (0, 1]; its first value under a schedule.
    schedule : "constant", or "inverse_sqrt" for beta0 / √t; t counts the calls of the loss.
    box : (low, high), k numbers or one each, on which U is projected; None does not.
    first_visit : "estimate" starts a row of U at its first estimate; "zero" at 0, with a first
        gradient 1/beta0 times too large.
    process_group : the processes that train together; None is the default group if there is
        one, False is this process alone.

    ``loss(inner, index)`` takes g̃ of shape (B, k) and the B distinct rows they belong to. U is
    updated without a gradient; the returned scalar is for ``backward()``. In training with
    several processes every rank gives its own part of the batch, and U stays the same on all.

    U and its clock are buffers: ``state_dict``, ``.to()`` and ``.double()`` take them along. U
    is never less precise than float32. After an error, and after ``loss.eval()``, nothing
    changes.

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
        process_group: Any = None,
    ) -> None:
        super().__init__()
        if not callable(outer):
            raise ParameterError(f"`outer` = {outer!r} must be a function of a (B, k) tensor")
        check_count(num_rows, "num_rows", why="it is how many g_i there are")
        check_count(num_values, "num_values", why="it is how many numbers each g_i has")
        SCHEDULES.choose(schedule)
        seen = FIRST_VISITS.choose(first_visit)
        self.tracker_name, self.tracker = tracker, TRACKERS.choose(tracker)
        self.outer = outer
        self.num_rows = num_rows
        self.beta0 = check_beta(beta0, "beta0")
        self.schedule = schedule
        self.process_group = process_group
        for name, edge in zip(("low", "high"), check_box(box, num_values), strict=True):
            self.register_buffer(name, edge, persistent=False)
        kept = num_rows if self.tracker.remembers else 0
        never = 0.0 if seen else math.nan
        self.register_buffer("U", torch.zeros(kept, num_values))
        self.register_buffer("written_at", torch.full((kept,), never, dtype=torch.float64))
        self.register_buffer("log_decay", torch.zeros(2, dtype=torch.float64))
        self.register_buffer("rounds", torch.zeros((), dtype=torch.int64))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, inner: Tensor, index: Tensor, *, previous: Tensor | None = None) -> Tensor:
        """Take g̃ (B, k) and its rows (B,); return the scalar to call ``backward()`` on.

        `previous` holds the estimates of the same samples at the last parameters, for "msvr".
        Inside a compiled step it runs as it is: it reads a clock, and refuses bad batches.
        """

        def checked() -> tuple[Tensor, ...]:
            return self._check_inner(inner, index, previous)

        estimates, rows, *last = gather_checked(checked, self.rounds.device, self.process_group)
        check_rows(rows, self.num_rows)
        scale = self.num_rows / rows.numel()
        then = last[0] if last else None
        return self._compose(estimates, rows, scale=scale, weight=None, previous=then)

    @torch.no_grad()
    def tracked(self, rows: Tensor | None = None) -> Tensor:
        """U as it stands now, every delayed decay applied; NaN where a row has not been seen."""
        written = self.written_at if rows is None else self.written_at[rows]
        u = self.U if rows is None else self.U[rows]
        if self.tracker.decays:
            u = u * self._decay_since(written, float(self.log_decay[0]))
        return self._project(u, rows).masked_fill(written.isnan()[:, None], math.nan)

    def extra_repr(self) -> str:
        """What print(loss) shows."""
        return (
            f"rows={self.num_rows}, tracker={self.tracker_name!r}, beta0={self.beta0}, "
            f"{self.schedule}"
        )

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
        check_finite(estimate, "an estimate")
        with torch.no_grad(), torch.autocast(inner.device.type, enabled=False):
            tick = self._next_tick()
            u = self._moved(rows, estimate, scale, previous, tick)
            check_finite(u, "a row of U")
            value, gradient = self._outer_terms(u)
            if weight is None:
                value, pulls = value.mean(), gradient / rows.numel()
            else:
                value, pulls = (weight * value).sum(), gradient * weight[:, None]
            if self.training:
                self._keep(rows, u, tick)
        return with_gradient(inner, value.to(inner.dtype), pulls)

    def _moved(
        self,
        rows: Tensor,
        estimate: Tensor,
        scale: Tensor | float,
        previous: Tensor | None,
        tick: Tick,
    ) -> Tensor:
        """Rows of U_{t+1}; nothing is written yet."""
        if self.tracker.move is None:
            return self._project(estimate, rows)
        old, written = self.U[rows], self.written_at[rows]
        if self.tracker.decays:
            old = old * self._decay_since(written, tick.decay)
        old = self._project(old, rows)
        old_estimate = None if previous is None else previous.detach().to(estimate.dtype)
        moved = self.tracker.move(Move(old, estimate, old_estimate, tick.beta0, scale))
        return self._project(torch.where(written.isnan()[:, None], estimate, moved), rows)

    def _keep(self, rows: Tensor, u: Tensor, tick: Tick) -> None:
        """Write the rows and the clock: nothing can fail any more."""
        if self.tracker.remembers:
            self.U[rows] = u
            self.written_at[rows] = tick.next_decay
        self._set_clock(tick)

    def _next_tick(self) -> Tick:
        """What the next round will be; nothing is written."""
        t = int(self.rounds) + 1
        beta0 = SCHEDULES.choose(self.schedule).at(self.beta0, t)
        if not self.tracker.decays:
            return Tick(t, beta0, 0.0, 0.0, 0.0)
        decay, rest = self.log_decay.tolist()
        log_step = math.log1p(-beta0) if beta0 < 1 else LOG_OF_ZERO
        return Tick(t, beta0, decay, *add_exactly(decay, rest, log_step))

    def _set_clock(self, tick: Tick) -> None:
        self.rounds.fill_(tick.t)
        if self.tracker.decays:
            now = torch.tensor((tick.next_decay, tick.next_rest), dtype=torch.float64)
            self.log_decay.copy_(now)

    def _decay_since(self, written: Tensor, decay: float) -> Tensor:
        """Π (1 − β₀) of the rounds since each row was written: (B, 1)."""
        return torch.exp(decay - written).to(self.U.dtype)[:, None]

    def _project(self, u: Tensor, rows: Tensor | None) -> Tensor:
        """Π_Ω of these rows of U."""
        return torch.clamp(u, self.low.to(u.dtype), self.high.to(u.dtype))

    def _outer_terms(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """f(u) and ∇f(u), row by row."""
        known = getattr(self.outer, "value_and_gradient", None)
        if known is not None:
            terms: tuple[Tensor, Tensor] = known(u)
            return terms
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

    def _check_inner(
        self, inner: Tensor, index: Tensor, previous: Tensor | None
    ) -> tuple[Tensor, ...]:
        """What this rank gives: estimates, rows, and the estimates before if there are any."""
        check_floating(inner, "inner")
        if inner.ndim != 2 or inner.shape[1] != self.U.shape[1]:
            raise ShapeError(
                f"`inner` must have shape (B, {self.U.shape[1]}), got {tuple(inner.shape)}: one "
                "row of estimates for each index"
            )
        rows = check_index(index, inner.shape[0], inner.device)
        if self.tracker.needs_previous and previous is None:
            raise ParameterError(
                "`previous` is missing: this tracker needs the estimates of the same samples at "
                "the last parameters, loss(inner, index, previous=…)"
            )
        if previous is None:
            return inner, rows
        check_floating(previous, "previous")
        if previous.shape != inner.shape or previous.device != inner.device:
            raise ShapeError(
                f"`previous` has shape {tuple(previous.shape)} and `inner` {tuple(inner.shape)}: "
                "they are the same estimates at two parameters, on one device"
            )
        check_finite(previous, "an estimate in `previous`")
        return inner, rows, previous.detach()

    def _apply(self, fn: Any, recurse: bool = True) -> CompositionalLoss:
        """Move all; cast U, never below single precision, and no other number of ours."""
        ours = {id(buffer) for buffer in self._own_buffers()}

        def careful(tensor: Tensor) -> Tensor:
            moved: Tensor = fn(tensor)
            if id(tensor) not in ours:
                return moved
            too_coarse = moved.is_floating_point() and moved.element_size() < 4
            cast = tensor is self.U and not too_coarse
            return moved if cast else tensor.to(moved.device)

        super()._apply(careful, recurse)  # type: ignore[no-untyped-call]
        return self

    def _own_buffers(self) -> list[Tensor]:
        return [buffer for buffer in self._buffers.values() if buffer is not None]
