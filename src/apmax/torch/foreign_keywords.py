"""Errors for keywords of other libraries, which say what to write instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec

from apmax.errors import ParameterError

P = ParamSpec("P")
NEW_VALUE = (
    "beta1 and beta2, which weigh the NEW value: betas=(0.9, 0.999) is beta1=0.1, beta2=0.001"
)
MEANINGS = {
    # losses of LibAUC
    "data_len": "the labels of all training examples as the first argument, APLoss(labels)",
    "pos_len": "the labels of all training examples as the first argument, APLoss(labels)",
    "num_pos": "positives_per_batch=, a number of examples",
    "num_sampled_tasks": "labels_per_batch=, or queries_per_batch=",
    "num_labels": "labels of shape (n, L) as the first argument",
    "margin": "gamma=, the margin of surrogate='squared_hinge' or the slope of 'logistic'",
    "surr_loss": "surrogate=",
    "device": "loss.to(device) after creating the loss",
    "imratio": "nothing: the labels hold the share of positives",
    # samplers of LibAUC and torch
    "sampling_rate": "positives_per_batch=round(sampling_rate * batch_size)",
    "dataset": "the labels of the data set as the first argument",
    "shuffle": "nothing: every pass is shuffled; generator= sets the seed",
    "random_seed": "generator=torch.Generator().manual_seed(seed)",
    "batch_size_per_task": "batch_size=, labels_per_batch= and positives_per_label=",
    # optimizers of torch and LibAUC
    "betas": NEW_VALUE,
    "momentum": "beta1=, the weight of the NEW gradient: momentum=0.9 is beta1=0.1",
    "eps": "delta=",
    "amsgrad": "style='amsgrad'",
    "mode": "style=",
    "epoch_decay": "nothing: it is not part of these methods",
    "loss_fn": "nothing: the optimizer does not need the loss",
}


def explains_foreign_keywords(init: Callable[P, None]) -> Callable[P, None]:
    """Decorate a constructor: a keyword of another library raises what to write instead."""
    own = inspect.signature(init).parameters

    @functools.wraps(init)
    def checked(*args: P.args, **keywords: P.kwargs) -> None:
        for name in keywords:
            if name in MEANINGS and name not in own:
                owner: Any = args[0]
                raise ParameterError(
                    f"{type(owner).__name__} has no `{name}`: write {MEANINGS[name]}"
                )
        init(*args, **keywords)

    return checked
