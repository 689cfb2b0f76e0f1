"""A method of :data:`apmax.methods.METHODS` as a loss and an optimizer."""

from __future__ import annotations

from typing import Any

from apmax.errors import BackendError
from apmax.methods import DELTA, Method, Schedule, resolve_method
from apmax.torch.average_precision import APLoss
from apmax.torch.optim import DirectedOptimizer


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
    schedule: str | Schedule | None = None,
    **options: Any,
) -> tuple[APLoss, DirectedOptimizer]:
    """Return the APLoss and the optimizer of a method, with one schedule for lr, beta0 and beta1.

    Parameters
    ----------
    method : str or Method
        A name of :data:`apmax.methods.METHODS`, for example "adap-adam", or any
        :class:`~apmax.methods.Method`. One that apmax.torch cannot run raises a `BackendError`
        that says what is missing.
    labels : array-like or Tensor
        See :class:`APLoss`.
    params : iterable
        Parameters of the model, or parameter groups.
    lr : float
        Learning rate η; the first value if the schedule is not constant.
    gamma : float, default=None
        See :class:`APLoss`.
    beta0 : float, default=0.9
        See :class:`APLoss`; the first value if the schedule is not constant.
    beta1, beta2, delta, penalty
        See :class:`ADAP`.
    schedule : str or Schedule, default=None
        Replaces the schedule of the method.
    **options
        Other parameters of :class:`APLoss`.

    Returns
    -------
    loss : APLoss
        With the tracker and the surrogate of the method.
    optimizer : Optimizer
        With the direction of the method.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import from_table
    >>> model = torch.nn.Linear(3, 1)
    >>> loss, optimizer = from_table("adap-adam", [1, 0, 0], model.parameters(), lr=0.01)
    >>> loss.schedule.name, optimizer.param_groups[0]["schedule"]["name"]
    ('inverse_sqrt', 'inverse_sqrt')
    """
    row = resolve_method(method)
    if row.pairs == "batch":
        raise BackendError(
            f"`method` = {row.name!r} has the pairs of one batch, which apmax.torch.APLoss does "
            "not track: use SmoothAPLoss with any optimizer"
        )
    schedule = row.schedule if schedule is None else schedule
    loss = APLoss(
        labels,
        surrogate=row.surrogate,
        gamma=gamma,
        tracker=row.tracker,
        beta0=beta0,
        schedule=schedule,
        projected=row.projected,
        **options,
    )
    optimizer = DirectedOptimizer(
        params,
        style=row.direction,
        lr=lr,
        beta1=beta1,
        beta2=beta2,
        delta=delta,
        penalty=penalty,
        schedule=schedule,
    )
    return loss, optimizer
