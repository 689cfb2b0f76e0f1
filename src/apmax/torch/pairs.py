r"""Unbiased pair sums of a batch: ĝ_i = (ĝ₁ᵢ, ĝ₂ᵢ) of every positive, with its gradient.

A batch has B positives and b negatives of the m and n − m that there are, so each class is
weighted by its own rate and x_i's own pair is counted once, exactly:

.. math:: \hat g_{1i} = \frac1n \Big[\ell(0) + \frac{m-1}{B-1}
          \sum_{k \in \mathcal B, k \neq i} \ell(s_k - s_i)\Big], \qquad
          \hat g_{2i} = \hat g_{1i} + \frac{n-m}{nb} \sum_{\text{neg } k} \ell(s_k - s_i)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from apmax.torch.surrogates import PairTerms


class PairWeights(NamedTuple):
    """What a pair counts; L names, B examples, P positive cells."""

    own: Tensor | float  # (P,): ℓ(0) / n
    plus: Tensor  # (L, B): (m−1) / (n (B−1)) for positives, or else 0
    minus: Tensor  # (L, B): (n−m) / (n b) for negatives, or else 0


class Cells(NamedTuple):
    """The P positive cells of a batch."""

    name: Tensor | None  # (P,); None if there is one name only
    column: Tensor  # (P,)


def pair_sums(
    scores: Tensor, cells: Cells, weights: PairWeights, terms: PairTerms, gamma: float
) -> Tensor:
    """ĝ of every cell, (P, 2), from scores of shape (L, B)."""
    sums: Tensor = _PairSums.apply(scores, cells, weights, terms, gamma)  # type: ignore[no-untyped-call]
    return sums


class _PairSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        cells: Cells,
        weights: PairWeights,
        terms: PairTerms,
        gamma: float,
    ) -> Tensor:
        plus, minus = weights.plus, weights.minus
        if cells.name is None:
            all_scores = scores
            own_scores = scores[0, cells.column]
        else:
            all_scores, plus, minus = scores[cells.name], plus[cells.name], minus[cells.name]
            own_scores = scores[cells.name, cells.column]
        values, slopes = terms(all_scores - own_scores[:, None], gamma)
        column = cells.column[:, None]
        values.scatter_(1, column, 0.0)  # the pair of x_i with itself is weights.own
        slopes.scatter_(1, column, 0.0)
        ctx.cells, ctx.shape = cells, scores.shape
        ctx.save_for_backward(slopes, plus, minus)
        first = weights.own + (values * plus).sum(1)
        return torch.stack([first, first + (values * minus).sum(1)], dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        slopes, plus, minus = ctx.saved_tensors
        both, second = gradient.sum(1, keepdim=True), gradient[:, 1:]
        pulls = slopes * (both * plus + second * minus)
        name, column = ctx.cells
        own = pulls.sum(1)
        if name is None:
            at_scores = pulls.sum(0)
            at_scores.index_add_(0, column, own, alpha=-1)
            return at_scores[None, :], None, None, None, None
        at_scores = pulls.new_zeros(ctx.shape)
        at_scores.index_add_(0, name, pulls)
        at_scores.index_put_((name, column), -own, accumulate=True)
        return at_scores, None, None, None, None
