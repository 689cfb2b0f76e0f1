"""A row of the table of methods as a loss and an optimizer that belong together."""

from __future__ import annotations

from typing import Any, NamedTuple

from apmax.errors import ParameterError
from apmax.methods import BOUNDS, DELTA, Method, resolve_method
from apmax.torch.average_precision import APLoss
from apmax.torch.optim import DirectedOptimizer


class Training(NamedTuple):
    """What a row of the table means for a model."""

    loss: APLoss
    optimizer: DirectedOptimizer


def from_table(
    method: str | Method,
    labels: Any,
    params: Any,
    *,
    lr: float,
    gamma: float | None = None,
    beta0: float = 0.9,
    beta1: float = 0.1,
    beta2: float = 0.001,
    delta: float = DELTA,
    penalty: float = 0.0,
    schedule: str | None = None,
    **options: Any,
) -> Training:
    """APLoss and optimizer of a method, with one schedule for lr, beta0 and beta1.

    `method` is a row of :data:`apmax.methods.METHODS`, for example "adap-adam"; `schedule`
    None is the row's. Other `options` go to :class:`APLoss`.

    >>> import torch
    >>> from apmax.torch import from_table
    >>> model = torch.nn.Linear(3, 1)
    >>> loss, optimizer = from_table("adap-adam", [1, 0, 0], model.parameters(), lr=0.01)
    >>> loss.schedule, optimizer.param_groups[0]["schedule"]
    ('inverse_sqrt', 'inverse_sqrt')
    """
    row = resolve_method(method)
    if row.pairs == "batch":
        raise ParameterError(
            f"`method` = {row.name!r} is a loss of the batch alone: use SmoothAPLoss with any "
            "optimizer"
        )
    chosen = schedule or row.schedule.name
    loss = APLoss(
        labels,
        surrogate=row.surrogate,
        gamma=gamma,
        tracker=row.tracker.name,
        beta0=beta0,
        schedule=chosen,
        **options,
    )
    optimizer = DirectedOptimizer(
        params,
        style={"plain": "sgd"}.get(row.direction.name, row.direction.name),
        lr=lr,
        beta1=beta1,
        beta2=beta2,
        delta=delta,
        bounds=BOUNDS,
        penalty=penalty,
        weight_decay=0.0,
        schedule=chosen,
    )
    return Training(loss, optimizer)
