r"""SOAP, MOAP and ADAP as torch optimizers: the directions of :mod:`apmax.methods` on tensors.

η is `lr`, β₁ is `beta1`, β′ is `beta2` and δ is `delta`. Betas weigh the NEW value, as in the
paper: ``beta1 = 1 − (torch's β₁)``, ``beta2 = 1 − (torch's β₂)``. There is no bias correction. With
``schedule="inverse_sqrt"`` lr and beta1 are divided by √t; a scheduler from
``torch.optim.lr_scheduler`` may change ``group["lr"]`` as well. ``OneCycleLR`` and ``CyclicLR``
need ``cycle_momentum=False``, because there are no torch betas to cycle.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from apmax.errors import ParameterError
from apmax.methods import BOUNDS, DELTA, DIRECTIONS, Direction, Schedule, check_beta
from apmax.registry import Registry
from apmax.torch.compositional import resolve_schedule
from apmax.torch.foreign_keywords import advice, explains_foreign_keywords
from apmax.validation import check_real

Tensors = list[Tensor]


class DirectedOptimizer(Optimizer):
    """Optimizer for any :class:`~apmax.methods.Direction` and schedule.

    Parameter groups, and so checkpoints, store the fields of both.
    """

    styles: ClassVar[dict[str, str]] = {name: name for name in DIRECTIONS}
    """Names that `style` accepts, and those of their directions."""
    usual_schedule: ClassVar[str] = "inverse_sqrt"

    @explains_foreign_keywords
    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        *,
        style: str | Direction = "adam",
        beta1: float = 0.1,
        beta2: float = 0.001,
        delta: float = DELTA,
        penalty: float = 0.0,
        weight_decay: float = 0.0,
        schedule: str | Schedule | None = None,
    ) -> None:
        defaults = {
            "step": 0, "lr": lr, "style": style, "beta1": beta1, "beta2": beta2, "delta": delta,
            "penalty": penalty, "weight_decay": weight_decay,
            "schedule": self.usual_schedule if schedule is None else schedule,
        }  # fmt: skip
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group with its own lr, betas and penalties, after checking them.

        Parameters
        ----------
        param_group : dict
            "params", and any parameters of the constructor to change for them.
        """
        for key in set(param_group) - set(self.defaults) - {"params"}:
            near = difflib.get_close_matches(key, self.defaults, n=1, cutoff=0.75)
            text = advice(key, ["params", *self.defaults]) or (f"write {near[0]}" if near else "")
            if text:  # other keys belong to schedulers and loggers
                raise ParameterError(f"a parameter group holds {key!r}: {text}")
        options = {**self.defaults, **param_group}
        _check_rates(options)
        direction, schedule = options["style"], resolve_schedule(options["schedule"])
        if not isinstance(direction, Direction):
            direction = DIRECTIONS[Registry("style", self.styles).choose(direction)]
        records = {"style": asdict(direction), "schedule": asdict(schedule)}
        super().add_param_group({**param_group, **records})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a checkpoint; one of another optimizer raises before anything changes.

        Parameters
        ----------
        state_dict : dict
            What `state_dict` of the same optimizer returned.
        """
        for group in state_dict["param_groups"]:
            missing = sorted(set(self.defaults) - set(group))
            if missing:
                raise ParameterError(
                    f"the checkpoint has no {', '.join(missing)}, so it is that of another "
                    f"optimizer than {type(self).__name__}: load the weights of the model only"
                )
        numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
        own = [param for group in self.param_groups for param in group["params"]]
        for number, param in zip(numbers, own, strict=False):  # torch compares the lengths
            for name, value in state_dict["state"].get(number, {}).items():
                if torch.is_tensor(value) and value.ndim and value.shape != param.shape:
                    raise ParameterError(
                        f"the checkpoint has {name!r} of shape {tuple(value.shape)} for a "
                        f"parameter of shape {tuple(param.shape)}: create the same model"
                    )
        super().load_state_dict(state_dict)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Perform one step and return the value of the closure.

        Parameters
        ----------
        closure : callable, optional
            Function that evaluates the loss again and returns it.
        """
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
        t, schedule = group["step"], _schedule(*group["schedule"].values())
        direction = _direction(*group["style"].values())
        average = direction.second_moment != "none"
        descend(
            params,
            grads,
            direction,
            moments=self._state("momentum", params) if direction.momentum else [],
            averages=self._state("average", params) if average else [],
            largest=self._state("largest", params) if direction.bound == "largest" else [],
            t=t,
            lr=float(schedule.at(group["lr"], t)),
            beta1=float(schedule.at(group["beta1"], t)),
            beta2=group["beta2"],
            delta=group["delta"],
            penalty=group["penalty"],
            weight_decay=group["weight_decay"],
        )

    def _state(self, name: str, params: Tensors) -> Tensors:
        """One entry of every parameter's state, initially zeros."""
        for p in params:
            if name not in self.state[p]:
                self.state[p][name] = torch.zeros_like(p, memory_format=torch.preserve_format)
        return [self.state[p][name] for p in params]


_schedule, _direction = lru_cache(Schedule), lru_cache(Direction)
"""The records of a parameter group, which stores their fields in order."""


def descend(
    params: Tensors,
    grads: Tensors,
    direction: Direction,
    *,
    moments: Tensors,
    averages: Tensors,
    largest: Tensors,
    t: int,
    lr: float,
    beta1: float,
    beta2: float,
    delta: float,
    penalty: float,
    weight_decay: float,
) -> None:
    """Update `params` and their state in place, a few operations over all tensors at once."""
    if penalty:
        grads = list(torch._foreach_add(grads, params, alpha=2.0 * penalty))
    if weight_decay:
        torch._foreach_mul_(params, 1.0 - lr * weight_decay)
    steps = grads
    if direction.momentum:
        torch._foreach_lerp_(moments, grads, beta1)
        steps = moments
    if direction.second_moment == "none":
        torch._foreach_add_(params, steps, alpha=-lr)
        return
    new = beta2 if direction.second_moment == "moving" else 1.0 / (t + 1)
    torch._foreach_mul_(averages, 1.0 - new)
    torch._foreach_addcmul_(averages, grads, grads, new)
    used = averages
    if direction.bound == "largest":
        torch._foreach_maximum_(largest, averages)
        used = largest
    elif direction.bound == "clipped":
        used = list(torch._foreach_clamp_min(averages, 1.0 / BOUNDS[1] ** 2))
        torch._foreach_clamp_max_(used, 1.0 / BOUNDS[0] ** 2)
    roots = torch._foreach_sqrt(used)
    torch._foreach_add_(roots, delta)
    torch._foreach_addcdiv_(params, steps, roots, -lr)


class SOAP(DirectedOptimizer):
    """SOAP's step (Qi et al., 2021): SGD, Adam or AMSGrad with constant rates.

    Use it with ``APLoss(labels, tracker="moving_average")``. The paper's surrogate is
    "squared_hinge"; :func:`from_table` sets it.

    Parameters
    ----------
    params : iterable
        Parameters of the model, or parameter groups.
    lr : float, default=1e-3
        Learning rate η.
    style : {"sgd", "adam", "amsgrad"}, default="adam"
        Direction of the step.
    beta1, beta2, delta, penalty, weight_decay, schedule
        See :class:`ADAP`.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import SOAP
    >>> w = torch.nn.Parameter(torch.ones(2))
    >>> w.grad = torch.tensor([1.0, -2.0])
    >>> SOAP([w], lr=0.5, style="sgd").step()
    >>> w.tolist()
    [0.5, 2.0]
    """

    styles: ClassVar = {"sgd": "plain", "adam": "adam", "amsgrad": "amsgrad"}
    usual_schedule = "constant"


class MOAP(DirectedOptimizer):
    """MOAP's step (Algorithms 1 and 2): momentum, with lr and beta1 divided by √t.

    With ``APLoss(labels, surrogate="squared_hinge", tracker="randomized_coordinate")`` it is
    MOAP-V2. :func:`from_table` returns both for "moap-v2", "moap-v1" and "sox".

    Parameters
    ----------
    params : iterable
        Parameters of the model, or parameter groups.
    lr : float, default=0.1
        Learning rate η of the first step.
    beta1, penalty, weight_decay, schedule
        See :class:`ADAP`.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import MOAP
    >>> w = torch.nn.Parameter(torch.ones(2))
    >>> w.grad = torch.tensor([1.0, -2.0])
    >>> MOAP([w], lr=0.5, beta1=0.5).step()
    >>> w.tolist()
    [0.75, 1.5]
    """

    styles: ClassVar = {"momentum": "momentum"}

    @explains_foreign_keywords
    def __init__(
        self,
        params: Any,
        lr: float = 0.1,
        *,
        beta1: float = 0.1,
        penalty: float = 0.0,
        weight_decay: float = 0.0,
        schedule: str | Schedule | None = None,
    ) -> None:
        super().__init__(
            params, lr, style="momentum", beta1=beta1, penalty=penalty, weight_decay=weight_decay,
            schedule=schedule,
        )  # fmt: skip


class ADAP(DirectedOptimizer):
    """ADAP's step (Algorithm 3), with lr and beta1 divided by √t.

    Use it with ``APLoss(labels)``, which divides beta0 by √t as well. This is one half of the
    method of that name: ``from_table("adap-adam", …)`` also sets the tracker and surrogate of the
    paper, "randomized_coordinate" and "squared_hinge". The first steps are about 3 × lr, because
    there is no bias correction.

    Parameters
    ----------
    params : iterable
        Parameters of the model, or parameter groups.
    lr : float, default=1e-3
        Learning rate η of the first step.
    style : {"adam", "adagrad", "amsgrad", "adabound"}, default="adam"
        Average of the squared gradients.
    beta1 : float, default=0.1
        Weight of the NEW gradient in the momentum, in (0, 1].
    beta2 : float, default=0.001
        Weight of the NEW squared gradient in their average, in (0, 1].
    delta : float, default=1e-8
        Added to the root of the average.
    penalty : float, default=0.0
        λ of the penalty λ‖w‖², part of the gradient.
    weight_decay : float, default=0.0
        Decoupled weight decay, as in AdamW.
    schedule : str or Schedule, default=None
        "inverse_sqrt" or "constant". None is "constant" for SOAP and otherwise "inverse_sqrt".

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import ADAP
    >>> w = torch.nn.Parameter(torch.ones(2))
    >>> w.grad = torch.tensor([1.0, -2.0])
    >>> ADAP([w], lr=0.01).step()
    >>> [round(value, 3) for value in w.tolist()]
    [0.968, 1.032]
    """

    styles: ClassVar = {name: name for name in ("adam", "adagrad", "amsgrad", "adabound")}


def _check_rates(options: dict[str, Any]) -> None:
    check_real(options["lr"], "lr", at_least=0, why="it is the size of a step")
    for name in ("beta1", "beta2"):
        check_beta(options[name], name)
    check_real(options["delta"], "delta", above=0, why="it keeps steps finite; try 1e-8")
    for name in ("penalty", "weight_decay"):
        check_real(options[name], name, at_least=0, why="0 turns it off")


def _check_dense(params: Tensors) -> None:
    if any(p.grad is not None and p.grad.is_sparse for p in params):
        raise ParameterError(
            "a gradient is sparse, but this optimizer needs dense gradients; no parameter has "
            "changed: create the embedding with sparse=False"
        )
