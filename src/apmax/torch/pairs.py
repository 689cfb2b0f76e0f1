r"""Unbiased pair sums of a batch: ĝ_i = (ĝ₁ᵢ, ĝ₂ᵢ) of every positive, with its gradient.

A batch has B of the m positives and b of the n − m negatives. Each class is weighted by its own
sampling rate, and the pair of x_i with itself is counted once, exactly:

.. math:: \hat g_{1i} = \frac1n \Big[\ell(0) + \frac{m-1}{B-1}
          \sum_{k \in \mathcal B, k \neq i} \ell(s_k - s_i)\Big], \qquad
          \hat g_{2i} = \hat g_{1i} + \frac{n-m}{nb} \sum_{\text{neg } k} \ell(s_k - s_i)

Differs from the paper: it averages over examples drawn from all data.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

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
    share: Tensor  # (P, 1), weight of each row in the loss
    scale: Tensor  # (P, 1), m/B
    usable: Tensor  # (L,), whether each label has a ranking


def rank_batch(
    table: LabelTable, index: Tensor, own: float, dtype: torch.dtype, weights: Tensor | None = None
) -> RankedBatch | None:
    """Return the positive cells of a batch; None if no label has a ranking in it.

    A label has a ranking with at least one negative and two positives (one if the data have
    only one). Labels have equal `weights` in the loss by default.
    """
    rows, positive, negative = table.lookup(index)
    m, n = table.positives.double(), table.known.double().clamp(min=1)
    plus, minus = positive.sum(1).double(), negative.sum(1).double()
    importance = torch.ones_like(m) if weights is None else weights
    usable = (m > 0) & (plus >= m.clamp(max=2)) & (minus > 0) & (importance > 0)
    label, column = (positive & usable[:, None]).nonzero().unbind(1)
    if not label.numel():
        return None
    others = (plus - 1).clamp(min=1)
    share = importance / (importance[usable].sum() * plus)
    per_label = [own / n, share, m / plus, (m - 1) / (n * others)]
    per_label.append((n - m) / (n * minus.clamp(min=1)))
    own_weight, share, scale, per_plus, per_minus = torch.stack(per_label)[:, label].to(dtype)
    return RankedBatch(
        label=label,
        column=column,
        rows=rows[label, column],
        own=own_weight,
        plus=positive[label] * per_plus[:, None],
        minus=negative[label] * per_minus[:, None],
        share=share[:, None],
        scale=scale[:, None],
        usable=usable,
    )


def pair_sums(
    scores: Tensor, batch: RankedBatch, terms: PairTerms, gamma: float
) -> tuple[Tensor, Tensor]:
    """Return ĝ of every positive cell, (P, 2), and ℓ′ of its pairs, from (B, L) scores."""
    own_scores = scores[batch.column, batch.label]
    values, slopes = terms(scores.t()[batch.label] - own_scores[:, None], gamma)
    column = batch.column[:, None]
    values.scatter_(1, column, 0.0)  # the pair of x_i with itself is batch.own
    slopes.scatter_(1, column, 0.0)
    first = batch.own + (values * batch.plus).sum(1)
    return torch.stack([first, first + (values * batch.minus).sum(1)], dim=1), slopes


def pair_sums_vjp(pulls: Tensor, slopes: Tensor, batch: RankedBatch, labels: int) -> Tensor:
    """Return the gradient with respect to the scores, (B, L), from that of ĝ, (P, 2)."""
    both, second = pulls.sum(1, keepdim=True), pulls[:, 1:]
    per_pair = slopes * (both * batch.plus + second * batch.minus)
    by_label = per_pair.new_zeros(labels, per_pair.shape[1])
    by_label.index_add_(0, batch.label, per_pair)
    by_label.index_put_((batch.label, batch.column), -per_pair.sum(1), accumulate=True)
    return by_label.t()
