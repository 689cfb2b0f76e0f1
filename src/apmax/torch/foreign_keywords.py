"""Errors for keywords of LibAUC and torch, which say what to pass instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import ParamSpec

from apmax.errors import ParameterError

P = ParamSpec("P")
LABELS = "pass the labels of all training examples as the first argument"
QUERIES = "pass the relevance of all items and their queries as the first two arguments"
NEW_GRADIENT = "pass beta1=, the weight of the NEW gradient: momentum=0.9 is beta1=0.1"
TWO_BETAS = (
    "pass beta1= and beta2=, which weigh the NEW value: betas=(0.9, 0.999) is beta1=0.1, "
    "beta2=0.001"
)
ADVICE = (
    # losses
    ("data_len pos_len N num_user num_query num_item", "groups", QUERIES),
    ("data_len pos_len", "labels", LABELS),
    ("num_labels", "label_weights", "pass labels of shape (n, L) as the first argument"),
    ("imratio", "tracker", "omit it: the labels hold the share of positives"),
    ("margin surr_loss surrogate_loss", "temperature", "omit it: this loss has no surrogate"),
    (
        "margin",
        "gamma",
        "pass gamma=, the margin of surrogate='squared_hinge' or the slope of 'logistic'",
    ),
    ("surr_loss surrogate_loss", "surrogate", "pass surrogate="),
    ("gammas gamma0", "beta0", "pass beta0=, the weight of the new estimate"),
    ("mode", "negatives", "pass negatives= for '1w', and positives= as well for '2w'"),
    ("Lambda", "negatives", "pass negatives="),
    ("tau", "positives", "pass positives="),
    ("topk", "k", "pass k="),
    (
        "sigmoid_alpha topk_version gamma1 eta0 tau_1 tau_2",
        "k",
        "omit it: the first k items are counted by a fixed smooth step",
    ),
    ("device", "tracker", "call loss.to(device) after creating the loss"),
    # samplers
    ("dataset", "groups", QUERIES),
    ("dataset", "generator", LABELS),
    (
        "sampling_rate",
        "positives_per_batch",
        "pass positives_per_batch=int(sampling_rate * batch_size)",
    ),
    ("num_pos", "positives_per_batch", "pass positives_per_batch="),
    ("sampling_rate num_pos", "positives_per_label", "pass positives_per_label=, a number"),
    (
        "sampling_rate num_pos batch_size_per_task",
        "relevant_per_query",
        "pass relevant_per_query= and irrelevant_per_query=",
    ),
    ("num_pos", "groups", "omit it: the sampler chooses the items of a batch"),
    ("num_sampled_tasks sampled_tasks", "labels_per_batch", "pass labels_per_batch="),
    ("num_sampled_tasks sampled_tasks", "queries_per_batch", "pass queries_per_batch="),
    (
        "batch_size_per_task",
        "labels_per_batch",
        "pass batch_size=, labels_per_batch= and positives_per_label=",
    ),
    ("mode", "labels_per_batch", "omit it: QueryBatchSampler is the sampler for 'ranking'"),
    (
        "mode",
        "queries_per_batch",
        "omit it: MultiLabelBatchSampler is the sampler for 'classification'",
    ),
    ("shuffle", "generator", "omit it: every pass is shuffled; generator= sets the seed"),
    ("random_seed", "generator", "pass generator=torch.Generator().manual_seed(seed)"),
    # optimizers
    ("betas", "beta2", TWO_BETAS),
    ("momentum", "style", f"{NEW_GRADIENT} (style='sgd' has no momentum)"),
    ("betas momentum", "beta1", NEW_GRADIENT),
    ("eps", "delta", "pass delta="),
    ("eps", "params", "omit it: steps are not divided by an average of squared gradients"),
    ("mode", "style", "pass style="),
    ("amsgrad", "style", "pass style='amsgrad'"),
    (
        "clip_value",
        "params",
        "call torch.nn.utils.clip_grad_value_(parameters, clip_value) before each step",
    ),
    ("dampening nesterov epoch_decay", "params", "omit it, because it is not offered"),
    ("device", "params", "omit it: the state is on the device of the parameters"),
    ("loss_fn", "params", "omit it: the optimizer does not need the loss"),
)
"""Foreign keywords, a parameter that the constructor must have, and what to do."""


def advice(keyword: str, parameters: Collection[str]) -> str | None:
    """Return what replaces a foreign keyword in a constructor with these parameters."""
    rows = (row for row in ADVICE if keyword in row[0].split() and row[1] in parameters)
    return next((text for _, _, text in rows), None)


def explains_foreign_keywords(init: Callable[P, None]) -> Callable[P, None]:
    """Decorate a constructor: a keyword of another library raises what to pass instead."""

    @functools.wraps(init)
    def checked(*args: P.args, **keywords: P.kwargs) -> None:
        owner = type(args[0])
        own = _parameters(owner)
        for name in keywords:
            text = None if name in own else advice(name, own)
            if text is not None:
                raise ParameterError(f"{owner.__name__} has no `{name}`: {text}")
        init(*args, **keywords)

    return checked


def _parameters(owner: type) -> set[str]:
    """Parameters of a constructor and of those to which it passes further keywords."""
    names: set[str] = set()
    for base in owner.__mro__:
        if "__init__" in vars(base):
            found = inspect.signature(vars(base)["__init__"]).parameters
            names.update(found)
            if all(one.kind is not inspect.Parameter.VAR_KEYWORD for one in found.values()):
                break
    return names
