r"""Losses of the form min_w 1/m Σ_i f(g_i(w)) where each g_i can only be estimated.

The paper calls such problems two-level stochastic dependent compositional; later work calls
them finite-sum coupled compositional. Average precision is one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from apmax.errors import BackendError, ParameterError, ShapeError
from apmax.methods import (
    FIRST_VISITS,
    SCHEDULES,
    TRACKERS,
    Schedule,
    Tracker,
    add_exactly,
    check_beta,
    log_decay,
)
from apmax.torch.checks import check_box, check_finite, check_floating, check_index, check_rows
from apmax.torch.distributed import gather_checked
from apmax.validation import check_count

MAX_ROUNDS = 2**53
"""Largest number of rounds that a checkpoint can have."""


class Tick(NamedTuple):
    """One round: its number, β₀, and Σ log(1 − β₀) before and after it (as two doubles)."""

    t: int
    beta0: float
    decay: float
    next_decay: float
    next_rest: float


def resolve_schedule(schedule: str | Schedule) -> Schedule:
    """Return the schedule of that name, or the one given, if it runs in torch."""
    chosen = schedule if isinstance(schedule, Schedule) else SCHEDULES.choose(schedule)
    if chosen.fades:
        raise BackendError(
            f"`schedule` = {chosen.name!r} needs a known number of steps, which apmax.torch does "
            "not have: use 'constant' with torch.optim.lr_scheduler.LinearLR"
        )
    return chosen


class CompositionalLoss(nn.Module):
    r"""Loss of min_w 1/m Σ_i f(g_i(w)), from estimates of a few g_i at a time.

    .. math:: \text{value} = \frac1B \sum_{i \in \mathcal B} f(U_i), \qquad
              \text{gradient} = \frac1B \sum_{i \in \mathcal B}
              \nabla \tilde g_i(w)^\top \nabla f(U_i)

    ``loss(inner, index)`` takes the estimates g̃ of shape (B, k) and their B distinct rows. It
    updates U and returns a scalar for ``backward()``.

    Parameters
    ----------
    outer : callable
        f, a torch function of a (B, k) tensor that returns (B,), row by row. Parameters of
        `outer` receive no gradient.
    num_rows : int
        m, the number of functions g_i.
    num_values : int
        k, the number of values of each g_i.
    tracker : str or Tracker, default="moving_average"
        "moving_average", "elapsed_average", "randomized_coordinate", "msvr" or "none"; see
        :mod:`apmax.methods`.
    beta0 : float, default=0.9
        Weight of the new estimate in U, in (0, 1]; the first value if a schedule is set.
    schedule : str or Schedule, default="constant"
        "constant", or "inverse_sqrt" for beta0 / √t, where t counts the calls of the loss.
    box : (low, high) or None, default=None
        Bounds on which U is projected, each a number or k numbers.
    first_visit : {"estimate", "zero"}, default="estimate"
        Initial value of a row of U. With "zero" the first gradient is 1/beta0 times too large.
    process_group : ProcessGroup, None or False, default=None
        Processes that train together. None is the default group if there is one; False is this
        process alone.

    Notes
    -----
    U and its clock are buffers, so ``state_dict``, ``.to()`` and ``.double()`` include them. U
    has at least single precision. With several processes each rank passes its own part of the
    batch, and U is identical on all ranks. After an error or ``loss.eval()`` no call changes
    the state.

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
        outer: Callable[[Tensor], Tensor],
        num_rows: int,
        num_values: int,
        *,
        tracker: str | Tracker = "moving_average",
        beta0: float = 0.9,
        schedule: str | Schedule = "constant",
        box: tuple[Any, Any] | None = None,
        first_visit: str = "estimate",
        process_group: Any = None,
    ) -> None:
        super().__init__()
        if not callable(outer):
            raise ParameterError(f"`outer` = {outer!r} must be a function of a (B, k) tensor")
        check_count(num_rows, "num_rows", why="it is the number of functions g_i")
        check_count(num_values, "num_values", why="it is the number of values of each g_i")
        self.schedule = resolve_schedule(schedule)
        self.tracker = tracker if isinstance(tracker, Tracker) else TRACKERS.choose(tracker)
        never = 0.0 if FIRST_VISITS.choose(first_visit) else math.nan
        self.outer = outer
        self.num_rows = num_rows
        self.beta0 = check_beta(beta0, "beta0")
        self.process_group = process_group
        for name, edge in zip(("low", "high"), check_box(box, num_values), strict=True):
            self.register_buffer(name, edge, persistent=False)
        kept = num_rows if self.tracker.remembers else 0
        self.register_buffer("U", torch.zeros(kept, num_values))
        self.register_buffer("written_at", torch.full((kept,), never, dtype=torch.float64))
        self.register_buffer("log_decay", torch.zeros(2, dtype=torch.float64))
        self.register_buffer("rounds", torch.zeros((), dtype=torch.int64))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, inner: Tensor, index: Tensor, *, previous: Tensor | None = None) -> Tensor:
        """Update U and return the loss; inside ``torch.compile`` this breaks the graph.

        Parameters
        ----------
        inner : Tensor of shape (B, k)
            Estimates g̃ with their autograd history.
        index : Tensor of shape (B,)
            Distinct rows of U.
        previous : Tensor of shape (B, k), optional
            Estimates of the same samples at the previous parameters, for "msvr".
        """

        def check() -> tuple[Tensor, ...]:
            return self._check_inner(inner, index, previous)

        estimates, rows, *rest = gather_checked(check, self, self.process_group)
        check_rows(rows, self.num_rows)
        estimates = estimates.to(torch.promote_types(estimates.dtype, self.U.dtype))
        scale, weight = self.num_rows / rows.numel(), 1.0 / rows.numel()
        value, pulls = self._track(estimates, rows, scale, weight, *rest)
        return with_gradient(estimates, value, pulls)

    @torch.no_grad()
    def tracked(self, rows: Tensor | None = None) -> Tensor:
        """Return the current U, with pending decay applied; NaN for rows not yet visited.

        Parameters
        ----------
        rows : Tensor of shape (r,), optional
            Rows of U to return; by default all.
        """
        written = self.written_at if rows is None else self.written_at[rows]
        u = self.U if rows is None else self.U[rows]
        if self.tracker.decays and not self.tracker.normalised:
            u = u * self._decay_since(written, float(self.log_decay[0]))
        return self._project(u, rows).masked_fill(written.isnan()[:, None], math.nan)

    def extra_repr(self) -> str:
        """Return the settings for ``print(loss)``."""
        return (
            f"rows={self.num_rows}, tracker={self.tracker.name!r}, beta0={self.beta0}, "
            f"schedule={self.schedule.name!r}"
        )

    def _track(
        self,
        inner: Tensor,
        rows: Tensor,
        scale: Tensor | float,
        weight: Tensor | float,
        previous: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Update U; return the value and its gradient with respect to `inner`.

        `scale` is m/B, and `weight` of the rows sums to 1; tensors have shape (B, 1).
        """
        estimate = inner.detach().to(self.U.dtype)
        check_finite(estimate, "an estimate")
        with torch.no_grad(), torch.autocast(inner.device.type, enabled=False):
            tick = self._next_tick()
            u = self._updated(rows, estimate, scale, previous, tick)
            check_finite(u, "a row of U")
            value, gradient = self._outer_terms(u)
            if self.training:  # all checks have passed: write
                if self.tracker.remembers:
                    self.U[rows] = u
                    self.written_at[rows] = tick.next_decay
                self._set_clock(tick)
            return (weight * value[:, None]).sum(), weight * gradient

    def _updated(
        self,
        rows: Tensor,
        estimate: Tensor,
        scale: Tensor | float,
        previous: Tensor | None,
        tick: Tick,
    ) -> Tensor:
        """Rows of U_{t+1}, Π[(1−β₀) U + β₀ s g̃ + θ (g̃ − g̃′)]; nothing is written yet.

        s is m/B for trackers that decay, otherwise 1; for normalised ones the weights are those
        of :mod:`apmax.methods`. The last term is that of MSVR (Jiang et al., 2022) with
        g̃′ = `previous` and θ = (m−B) / (B (1−β₀)) + 1 − β₀.
        """
        if not self.tracker.remembers:
            return self._project(estimate, rows)
        old, written = self.U[rows], self.written_at[rows]
        keep: Any = 1.0 - tick.beta0
        gain: Any = tick.beta0
        if self.tracker.normalised:
            keep = keep * self._decay_since(written, tick.decay)
            gain = 1.0 - keep
        elif self.tracker.decays:
            old, gain = old * self._decay_since(written, tick.decay), gain * scale
        u = keep * self._project(old, rows) + gain * estimate
        if self.tracker.needs_previous and previous is not None and tick.beta0 < 1:
            u = u + ((scale - 1.0) / keep + keep) * (estimate - previous.to(estimate.dtype))
        return self._project(torch.where(written.isnan()[:, None], estimate, u), rows)

    def _next_tick(self) -> Tick:
        """Clock of the next round; nothing is written."""
        buffers: Any = self._buffers  # attributes of a module are looked up slowly
        t = buffers["rounds"].item() + 1
        beta0 = float(self.schedule.at(self.beta0, t))
        if not self.tracker.decays:
            return Tick(t, beta0, 0.0, 0.0, 0.0)
        decay, rest = buffers["log_decay"].tolist()
        return Tick(t, beta0, decay, *add_exactly(decay, rest, log_decay(beta0)))

    def _set_clock(self, tick: Tick) -> None:
        buffers: Any = self._buffers
        clock, now = buffers["log_decay"], (tick.next_decay, tick.next_rest)
        if clock.is_cpu:  # without the overhead of operations
            buffers["rounds"].numpy()[()] = tick.t
            clock.numpy()[:] = now
        else:
            self.rounds.fill_(tick.t)
            clock.copy_(torch.tensor(now, dtype=torch.float64))

    def _decay_since(self, written: Tensor, decay: float) -> Tensor:
        """Π (1 − β₀) over the rounds since each row was written: (B, 1)."""
        return torch.exp(decay - written).to(self.U.dtype)[:, None]

    def _project(self, u: Tensor, rows: Tensor | None) -> Tensor:
        """Π_Ω of these rows of U."""
        box = self._boxes_of(rows)
        return torch.clamp(u, self.low[box].to(u.dtype), self.high[box].to(u.dtype))

    def _boxes_of(self, rows: Tensor | None) -> Any:
        """Number of the box of each row; here all rows have one box."""
        return 0

    def _outer_terms(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """f(u) and ∇f(u), row by row."""
        with torch.enable_grad():
            at = u.detach().requires_grad_()
            value = self.outer(at)
            if value.shape != u.shape[:1]:
                raise ShapeError(
                    f"`outer` returned shape {tuple(value.shape)} for {tuple(u.shape)}: it must "
                    "return one number per row"
                )
            (gradient,) = torch.autograd.grad(value.sum(), at)
        return value.detach(), gradient

    def _check_inner(
        self, inner: Tensor, index: Tensor, previous: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Check this rank's estimates and rows, and its previous estimates if there are any."""
        check_floating(inner, "inner")
        if inner.ndim != 2 or inner.shape[1] != self.U.shape[1]:
            raise ShapeError(
                f"`inner` must have shape (B, {self.U.shape[1]}), got {tuple(inner.shape)}: one "
                "row of estimates per index"
            )
        rows = check_index(index, inner.shape[0], inner.device)
        if self.tracker.needs_previous and previous is None:
            raise ParameterError(
                f"`previous` is missing: tracker {self.tracker.name!r} needs the estimates of the "
                "same samples at the previous parameters, loss(inner, index, previous=…)"
            )
        if previous is None:
            return inner, rows
        check_floating(previous, "previous")
        if previous.shape != inner.shape or previous.device != inner.device:
            raise ShapeError(
                f"`previous` has shape {tuple(previous.shape)} on {previous.device} and `inner` "
                f"{tuple(inner.shape)} on {inner.device}: they must match"
            )
        check_finite(previous, "an estimate in `previous`")
        return inner, rows, previous.detach()

    def _apply(self, fn: Any, recurse: bool = True) -> CompositionalLoss:
        """Move all buffers; cast only U, and never below single precision."""
        own = {id(buffer) for buffer in self._own_buffers()}

        def apply(tensor: Tensor) -> Tensor:
            moved: Tensor = fn(tensor)
            if id(tensor) not in own:
                return moved
            too_coarse = moved.is_floating_point() and moved.element_size() < 4
            cast = tensor is self.U and not too_coarse
            return moved if cast else tensor.to(moved.device)

        super()._apply(apply, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        """Load U and its clock, also those of inner losses: all or nothing."""
        *_, missing, _, errors = rest
        own = {
            f"{prefix}{name}": value
            for name, value in self.state_dict().items()
            if torch.is_tensor(value)
        }
        absent = [name for name in own if name not in state]
        damaged = [name for name in own if name in state and not _fits(state[name], own[name])]
        if not absent and not damaged:
            super()._load_from_state_dict(state, prefix, *rest)
            return
        missing.extend(absent)
        errors.extend(
            f"{name} is damaged: it must be a tensor of shape {tuple(own[name].shape)} with "
            "possible values; load an older checkpoint"
            for name in damaged
        )
        for name in own:
            state.pop(name, None)

    def _own_buffers(self) -> list[Tensor]:
        return [buffer for buffer in self._buffers.values() if buffer is not None]


def with_gradient(inputs: Tensor, value: Tensor | float, gradient: Tensor) -> Tensor:
    """Return `value` as a function of `inputs` that has this `gradient`.

    It is the inner product of both with another value: backward through one of torch's own
    operations is cheaper than through a Function in Python. Inputs have at least single precision.
    """
    if inputs.ndim > 1:
        inputs, gradient = inputs.reshape(-1), gradient.reshape(-1)
    result = torch.dot(inputs, gradient.to(inputs.dtype))
    result.detach().fill_(value)
    if result.grad_fn is not None:
        result.grad_fn.register_prehook(_refuse_second_derivatives)
    return result


def _fits(saved: Any, own: Tensor) -> bool:
    """Return whether a saved buffer can replace this one: +inf never, counts from 0 to 2**53."""
    if not torch.is_tensor(saved) or saved.shape != own.shape:
        return False
    if own.is_floating_point():
        return saved.is_floating_point() and not bool((saved == torch.inf).any())
    return not saved.is_floating_point() and bool(((saved >= 0) & (saved <= MAX_ROUNDS)).all())


def _refuse_second_derivatives(_: Any) -> None:
    """Raise in a backward pass that is itself differentiated: `gradient` is a constant there."""
    if torch.is_grad_enabled():
        raise BackendError(
            "losses of apmax.torch have first derivatives only: call backward() without "
            "create_graph=True, and leave the loss out of gradient penalties"
        )
