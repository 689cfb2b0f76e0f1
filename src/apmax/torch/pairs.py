r"""Unbiased pair sums of a batch: ĝ_i = (ĝ₁ᵢ, ĝ₂ᵢ) of every positive, with its gradient.

A batch has B of the m positives and b of the n − m negatives. Each class is weighted by its own
sampling rate, and the pair of x_i with itself is counted once, exactly:

.. math:: \hat g_{1i} = \frac1n \Big[\ell(0) + \frac{m-1}{B-1}
          \sum_{k \in \mathcal B, k \neq i} \ell(s_k - s_i)\Big], \qquad
          \hat g_{2i} = \hat g_{1i} + \frac{n-m}{nb} \sum_{\text{neg } k} \ell(s_k - s_i)

Differs from the paper: it averages over examples drawn from all data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from apmax.torch.labels import LabelTable
from apmax.torch.tensor_surrogates import PairTerms


class RankedBatch(NamedTuple):
    """The P positive cells of a batch, and the weights of their pairs and rows."""

    label: Tensor  # (P,)
    column: Tensor  # (P,), position of the example in the batch
    rows: Tensor  # (P,), rows of U
    own: Tensor  # (P,), ℓ(0) / n, the pair of the example with itself
    plus: Tensor  # (P, B), weights of the pairs with positives
    minus: Tensor  # (P, B), weights of the pairs with negatives
    share: Tensor  # (P,), weight of each row in the loss
    scale: Tensor  # (P, 1), m/B


def rank_batch(
    table: LabelTable, index: Tensor, own: float, dtype: torch.dtype
) -> RankedBatch | None:
    """Return the positive cells of a batch; None if no label has a ranking in it.

    A label has a ranking with at least one negative and two positives (one if the data have
    only one). Labels have equal weights in the loss.
    """
    rows, positive, negative = table.lookup(index)
    m, n = table.positives.double(), table.known.double().clamp(min=1)
    plus, minus = positive.sum(1).double(), negative.sum(1).double()
    usable = (m > 0) & (plus >= m.clamp(max=2)) & (minus > 0)
    label, column = (positive & usable[:, None]).nonzero().unbind(1)
    if not label.numel():
        return None
    others = (plus - 1).clamp(min=1)
    per_label = [own / n, 1.0 / (usable.sum() * plus), m / plus, (m - 1) / (n * others)]
    per_label.append((n - m) / (n * minus.clamp(min=1)))
    own_weight, share, scale, per_plus, per_minus = torch.stack(per_label)[:, label].to(dtype)
    return RankedBatch(
        label=label,
        column=column,
        rows=rows[label, column],
        own=own_weight,
        plus=positive[label] * per_plus[:, None],
        minus=negative[label] * per_minus[:, None],
        share=share,
        scale=scale[:, None],
    )


def pair_sums(scores: Tensor, batch: RankedBatch, terms: PairTerms, gamma: float) -> Tensor:
    """Return ĝ of every positive cell, (P, 2), from scores of shape (B, L)."""
    sums: Tensor = _PairSums.apply(scores, batch, terms, gamma)  # type: ignore[no-untyped-call]
    return sums


class _PairSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, batch: RankedBatch, terms: PairTerms, gamma: float
    ) -> Tensor:
        own_scores = scores[batch.column, batch.label]
        values, slopes = terms(scores.t()[batch.label] - own_scores[:, None], gamma)
        column = batch.column[:, None]
        values.scatter_(1, column, 0.0)  # the pair of x_i with itself is batch.own
        slopes.scatter_(1, column, 0.0)
        ctx.label, ctx.column, ctx.shape = batch.label, batch.column, scores.shape
        ctx.save_for_backward(slopes, batch.plus, batch.minus)
        first = batch.own + (values * batch.plus).sum(1)
        return torch.stack([first, first + (values * batch.minus).sum(1)], dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        slopes, plus, minus = ctx.saved_tensors
        both, second = gradient.sum(1, keepdim=True), gradient[:, 1:]
        pulls = slopes * (both * plus + second * minus)
        by_label = pulls.new_zeros(ctx.shape[1], ctx.shape[0])
        by_label.index_add_(0, ctx.label, pulls)
        by_label.index_put_((ctx.label, ctx.column), -pulls.sum(1), accumulate=True)
        return by_label.t(), None, None, None
