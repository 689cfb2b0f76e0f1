r"""SOAP, MOAP and ADAP as torch optimizers: the directions of eq. (ada) on lists of tensors.

==============================  ===========================================================
optimizer                       w_{t+1} = w_t − η · direction
==============================  ===========================================================
``SOAP(style="sgd")``           ∇̃_t
``MOAP()``                      m_{t+1} = (1−β₁) m_t + β₁ ∇̃_t
``ADAP(style="adam")``          m_{t+1} / (√v_{t+1} + δ), v_{t+1} = (1−β′) v_t + β′ ∇̃_t²
``ADAP(style="adagrad")``       the same with v_{t+1} = 1/(t+1) Σ_{r ≤ t} ∇̃_r²
``ADAP(style="amsgrad")``       the same with the largest v so far
``ADAP(style="adabound")``      the same with v clipped to [1/c_u², 1/c_l²]
==============================  ===========================================================

η is `lr`, β₁ is `beta1`, β′ is `beta2`, δ is `delta`, (c_l, c_u) is `bounds`. **Betas weigh the
NEW value**, as in the paper: ``beta1 = 1 − (torch's β₁)``, ``beta2 = 1 − (torch's β₂)``. δ stands
outside the root and there is no bias correction. `penalty` is λ of λ‖w‖², part of the gradient;
`weight_decay` is decoupled, as in AdamW. Under ``schedule="inverse_sqrt"`` lr and beta1 are
divided by √t; a scheduler of torch's may move ``group["lr"]`` at the same time.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from apmax.errors import ParameterError
from apmax.methods import BOUNDS, DELTA, SCHEDULES, check_beta
from apmax.registry import Registry
from apmax.validation import check_real

Tensors = list[Tensor]


class Style(NamedTuple):
    """What a direction keeps of the past."""

    momentum: bool
    average: str | None = None  # of ∇̃²: "moving" or "running"
    used: str = "as it is"  # of the average: or "largest", "clipped"


PLAIN = Style(momentum=False)
MOMENTUM = Style(momentum=True)
ADAPTIVE = {
    "adam": Style(True, "moving"),
    "adagrad": Style(True, "running"),
    "amsgrad": Style(True, "moving", "largest"),
    "adabound": Style(True, "moving", "clipped"),
}
STYLES: Registry[Style] = Registry("style", {"sgd": PLAIN, "momentum": MOMENTUM, **ADAPTIVE})
OPTIONS = (
    "step", "lr", "style", "beta1", "beta2", "delta", "bounds", "penalty", "weight_decay",
    "schedule",
)  # fmt: skip
"""What a parameter group holds."""


class DirectedOptimizer(Optimizer):
    """Any style of the table above, with parameter groups, closures and a state to save."""

    styles: ClassVar[tuple[str, ...]] = tuple(STYLES)
    """Those that this optimizer has."""

    def __init__(self, params: Any, **defaults: Any) -> None:
        super().__init__(params, {"step": 0, **defaults})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group with its own lr, betas and penalties; every one is checked."""
        for key in set(param_group) - set(OPTIONS) - {"params"}:
            near = difflib.get_close_matches(key, OPTIONS, n=1, cutoff=0.75)
            if key == "betas":
                near = ["beta1 and beta2, which weigh the new value"]
            if near:  # other keys are for schedulers and loggers
                raise ParameterError(f"a parameter group holds {key!r}: did you mean {near[0]}?")
        _check_options({**self.defaults, **param_group}, self.styles)
        super().add_param_group(param_group)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # checkpoints of older versions
            for name in OPTIONS:
                group.setdefault(name, self.defaults[name])

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; returns what the closure returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            _check_dense(group["params"])
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            group["step"] += 1
            if params:
                self._descend(group, params, [p.grad for p in params])
        return loss

    def _descend(self, group: dict[str, Any], params: Tensors, grads: Tensors) -> None:
        t, style = group["step"], STYLES[group["style"]]
        schedule = SCHEDULES[group["schedule"]]
        descend(
            params,
            grads,
            style,
            moments=self._kept("momentum", params) if style.momentum else [],
            averages=self._kept("average", params) if style.average else [],
            largest=self._kept("largest", params) if style.used == "largest" else [],
            t=t,
            lr=schedule.at(group["lr"], t),
            beta1=schedule.at(group["beta1"], t),
            beta2=group["beta2"],
            delta=group["delta"],
            bounds=group["bounds"],
            penalty=group["penalty"],
            weight_decay=group["weight_decay"],
        )

    def _kept(self, name: str, params: Tensors) -> Tensors:
        """This part of every parameter's state, zeros at first."""
        kept = []
        for p in params:
            state = self.state[p]
            if name not in state:
                state[name] = torch.zeros_like(p, memory_format=torch.preserve_format)
            kept.append(state[name])
        return kept


def descend(
    params: Tensors,
    grads: Tensors,
    style: Style,
    *,
    moments: Tensors,
    averages: Tensors,
    largest: Tensors,
    t: int,
    lr: float,
    beta1: float,
    beta2: float,
    delta: float,
    bounds: tuple[float, float],
    penalty: float,
    weight_decay: float,
) -> None:
    """Move `params` and their state by one step, a few operations over all tensors at once."""
    if penalty:
        grads = list(torch._foreach_add(grads, params, alpha=2.0 * penalty))
    if weight_decay:
        torch._foreach_mul_(params, 1.0 - lr * weight_decay)
    if not style.momentum:
        torch._foreach_add_(params, grads, alpha=-lr)
        return
    torch._foreach_lerp_(moments, grads, beta1)
    if style.average is None:
        torch._foreach_add_(params, moments, alpha=-lr)
        return
    new = beta2 if style.average == "moving" else 1.0 / (t + 1)
    torch._foreach_mul_(averages, 1.0 - new)
    torch._foreach_addcmul_(averages, grads, grads, new)
    used = averages
    if style.used == "largest":
        torch._foreach_maximum_(largest, averages)
        used = largest
    elif style.used == "clipped":
        used = list(torch._foreach_clamp_min(averages, 1.0 / bounds[1] ** 2))
        torch._foreach_clamp_max_(used, 1.0 / bounds[0] ** 2)
    roots = torch._foreach_sqrt(used)
    torch._foreach_add_(roots, delta)
    torch._foreach_addcdiv_(params, moments, roots, -lr)


class SOAP(DirectedOptimizer):
    """SOAP's step (Qi et al., 2021): plain SGD, Adam or AMSGrad, with constant rates.

    Use it with ``APLoss(labels, tracker="moving_average")``; the paper's surrogate is
    "squared_hinge", which :func:`from_table` takes.

    >>> import torch
    >>> from apmax.torch import SOAP
    >>> w = torch.nn.Parameter(torch.ones(2))
    >>> w.grad = torch.tensor([1.0, -2.0])
    >>> SOAP([w], lr=0.5, style="sgd").step()
    >>> w.tolist()
    [0.5, 2.0]
    """

    styles = ("sgd", "adam", "amsgrad")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        *,
        style: str = "adam",
        beta1: float = 0.1,
        beta2: float = 0.001,
        delta: float = DELTA,
        penalty: float = 0.0,
        weight_decay: float = 0.0,
        schedule: str = "constant",
    ) -> None:
        super().__init__(
            params, lr=lr, style=style, beta1=beta1, beta2=beta2,
            delta=delta, bounds=BOUNDS, penalty=penalty, weight_decay=weight_decay,
            schedule=schedule,
        )  # fmt: skip


class MOAP(DirectedOptimizer):
    """MOAP's step (Algorithms 1 and 2): momentum, with lr and beta1 as 1/√t.

    With ``APLoss(labels, surrogate="squared_hinge")`` it is MOAP-V2, with
    ``tracker="moving_average"`` besides MOAP-V1, and SOX with ``schedule="constant"``.
    """

    styles = ("momentum",)

    def __init__(
        self,
        params: Any,
        lr: float = 0.1,
        *,
        beta1: float = 0.1,
        penalty: float = 0.0,
        weight_decay: float = 0.0,
        schedule: str = "inverse_sqrt",
    ) -> None:
        super().__init__(
            params, lr=lr, style="momentum", beta1=beta1, beta2=1.0, delta=DELTA,
            bounds=BOUNDS, penalty=penalty, weight_decay=weight_decay, schedule=schedule,
        )  # fmt: skip


class ADAP(DirectedOptimizer):
    """ADAP's step (Algorithm 3) in one of four styles, with lr and beta1 as 1/√t.

    Use it with ``APLoss(labels)``, whose beta0 then follows the same 1/√t; the paper's surrogate
    is "squared_hinge". `bounds` (c_l, c_u) is read by style "adabound" only.
    """

    styles = tuple(ADAPTIVE)

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        *,
        style: str = "adam",
        beta1: float = 0.1,
        beta2: float = 0.001,
        delta: float = DELTA,
        bounds: tuple[float, float] = BOUNDS,
        penalty: float = 0.0,
        weight_decay: float = 0.0,
        schedule: str = "inverse_sqrt",
    ) -> None:
        super().__init__(
            params, lr=lr, style=style, beta1=beta1, beta2=beta2, delta=delta,
            bounds=bounds, penalty=penalty, weight_decay=weight_decay, schedule=schedule,
        )  # fmt: skip


def _check_options(options: dict[str, Any], styles: tuple[str, ...]) -> None:
    Registry("style", {name: STYLES[name] for name in styles}).choose(options["style"])
    SCHEDULES.choose(options["schedule"])
    check_real(options["lr"], "lr", at_least=0, why="it is the size of a step")
    for name in ("beta1", "beta2"):
        check_beta(options[name], name)
    check_real(options["delta"], "delta", above=0, why="it keeps steps finite; 1e-8 is usual")
    for name in ("penalty", "weight_decay"):
        check_real(options[name], name, at_least=0, why="0 is none")
    lower, upper = options["bounds"]
    check_real(lower, "bounds[0]", above=0, why="it is c_l of AdaBound")
    check_real(upper, "bounds[1]", above=lower, why="c_u of AdaBound is above c_l")


def _check_dense(params: Tensors) -> None:
    if any(p.grad is not None and p.grad.is_sparse for p in params):
        raise ParameterError(
            "a gradient is sparse, and this optimizer needs dense ones, nothing has moved: make "
            "the embedding with sparse=False"
        )
