"""Keywords of LibAUC and torch raise an error that says what to pass instead."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import torch

from apmax.errors import ParameterError
from apmax.torch import (
    ADAP,
    MOAP,
    SOAP,
    APLoss,
    ListwiseLoss,
    MultiLabelBatchSampler,
    NDCGLoss,
    PartialAUCLoss,
    PNormPushLoss,
    PositiveNegativeBatchSampler,
    QueryAPLoss,
    QueryBatchSampler,
)
from apmax.torch.foreign_keywords import ADVICE

PAIR_LOSSES = [APLoss, PartialAUCLoss, PNormPushLoss]
QUERY_LOSSES = [QueryAPLoss, NDCGLoss, ListwiseLoss]
SAMPLERS = [PositiveNegativeBatchSampler, MultiLabelBatchSampler, QueryBatchSampler]
OPTIMIZERS = [ADAP, SOAP, MOAP]
KEYWORDS = sorted({keyword for keywords, _, _ in ADVICE for keyword in keywords.split()})
OPTIONS = {"tracker", "beta0", "schedule", "poor_batch", "process_group"}
PAIR_OPTIONS = {"surrogate", "gamma", "from_logits", "spread"}


def parameters_of(owner: Any) -> set[str]:
    """What the signature and the docstring of a class list."""
    own = set(inspect.signature(owner).parameters)
    if "options" in own:
        own |= OPTIONS if owner in (PartialAUCLoss, ListwiseLoss) else OPTIONS | PAIR_OPTIONS
    return own


@pytest.mark.parametrize("owner", [*PAIR_LOSSES, *QUERY_LOSSES, *SAMPLERS, *OPTIMIZERS])
@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_class_is_advised_to_pass_only_what_it_has(owner: Any, keyword: str) -> None:
    with pytest.raises((ParameterError, TypeError)) as raised:
        owner(**{keyword: 1})
    advised = set(re.findall(r"(\w+)=(?!=)", str(raised.value).split(":", 1)[-1]))
    assert advised - {"momentum", "betas"} <= parameters_of(owner)


@pytest.mark.parametrize(
    ("owners", "keyword", "advice"),
    [
        (PAIR_LOSSES, "data_len", "the labels of all training examples as the first argument"),
        (QUERY_LOSSES, "N", "the relevance of all items and their queries"),
        ([NDCGLoss], "num_item", "their queries as the first two arguments"),
        ([*PAIR_LOSSES, QueryAPLoss, NDCGLoss], "margin", "pass gamma="),
        ([*PAIR_LOSSES, NDCGLoss], "surr_loss", "pass surrogate="),
        ([*PAIR_LOSSES, *QUERY_LOSSES], "device", r"loss.to\(device\)"),
        ([PartialAUCLoss], "Lambda", "pass negatives="),
        ([PartialAUCLoss], "tau", "pass positives="),
        ([PartialAUCLoss], "mode", "negatives= for '1w', and positives= as well for '2w'"),
        ([PartialAUCLoss], "gammas", "pass beta0="),
        ([NDCGLoss], "gamma0", "pass beta0="),
        ([NDCGLoss], "topk", "pass k="),
        ([NDCGLoss], "sigmoid_alpha", "omit it"),
        ([ListwiseLoss], "gamma", "is beta0"),
        ([PositiveNegativeBatchSampler], "sampling_rate", "pass positives_per_batch="),
        ([MultiLabelBatchSampler], "mode", "QueryBatchSampler"),
        ([MultiLabelBatchSampler], "num_sampled_tasks", "pass labels_per_batch="),
        ([QueryBatchSampler], "sampled_tasks", "pass queries_per_batch="),
        (SAMPLERS, "shuffle", "every pass is shuffled"),
        ([PositiveNegativeBatchSampler, MultiLabelBatchSampler], "dataset", "the labels"),
        (OPTIMIZERS, "betas", "beta1=0.1"),
        (OPTIMIZERS, "momentum", "pass beta1="),
        ([ADAP, SOAP], "eps", "pass delta="),
        ([SOAP], "mode", "pass style="),
        (OPTIMIZERS, "clip_value", "clip_grad_value_"),
        (OPTIMIZERS, "epoch_decay", "omit it"),
    ],
)
def test_keywords_of_libauc_and_torch_are_explained(
    owners: list[Any], keyword: str, advice: str
) -> None:
    for owner in owners:
        first = [[0, 1]] if keyword == "gamma" else []
        with pytest.raises(
            ParameterError, match=f"{owner.__name__} has no `{keyword}`: .*{advice}"
        ):
            owner(*first, *first, **{keyword: 1})


@pytest.mark.parametrize(
    ("owner", "keyword"),
    [(APLoss, "momentum"), (APLoss, "mode"), (ADAP, "data_len"), (APLoss, "gama"), (MOAP, "mode")],
)
def test_keywords_of_another_kind_of_class_are_refused_as_by_python(
    owner: Any, keyword: str
) -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        owner([torch.nn.Parameter(torch.ones(2))], **{keyword: 1})
