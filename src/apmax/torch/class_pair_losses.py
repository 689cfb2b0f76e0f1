"""Losses over pairs of a positive and a negative example: partial AUC and the p-norm push."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor

from apmax.objective.surrogates import Surrogate
from apmax.torch.compositional import CompositionalLoss
from apmax.torch.foreign_keywords import explains_foreign_keywords
from apmax.torch.indexed_loss import IndexedLoss, PairOptions, TrackerOptions
from apmax.torch.labels import LabelTable, positives_of
from apmax.validation import check_real, check_switch


class ClassPairLoss(IndexedLoss):
    """Base of losses whose rows are the examples of one class, paired with those of the other."""

    labels: LabelTable
    rows_are_positive = True

    def __init__(
        self, outer: Callable[[Tensor], Tensor], labels: Any, **options: Unpack[PairOptions]
    ) -> None:
        table = LabelTable(positives_of(labels), inverted=not self.rows_are_positive)
        super().__init__(outer, table.cells.numel(), 1, table, **options)

    def _of_batch(self, scores: Tensor, index: Tensor) -> Tensor:
        rows, own, others = (one[0] for one in self.labels.lookup(index))
        if not bool(own.any()) or not bool(others.any()):
            return self._skip(scores, "lacks positives or negatives")
        rows = rows[own]
        sign = 1.0 if self.rows_are_positive else -1.0
        # ℓ(s⁻ − s⁺), one row per own example
        losses = self._pairs(sign * (scores[others][None, :] - scores[own][:, None]))
        scale, weight = self.num_rows / rows.numel(), 1.0 / rows.numel()
        return self._tracked_value(self._inner(losses), rows, scale, weight)

    def _inner(self, losses: Tensor) -> Tensor:
        """Return the estimates g̃ of each row, (rows, 1), from its pairs."""
        raise NotImplementedError


class PartialAUCLoss(ClassPairLoss):
    r"""AUC in the region of low false positive rates, and of high true positive rates.

    .. math:: F(w) = \lambda_+ \log \frac1m \sum_{y_i = 1} g_i(w)^{\lambda_- / \lambda_+}, \qquad
              g_i(w) = \frac1{n_-} \sum_{y_j \neq 1} \exp(\ell(s_j - s_i) / \lambda_-)

    A soft maximum over the negatives weights those with high scores, that is a low false
    positive rate. One over the positives weights those with low scores. Without the latter the
    loss is the one-way partial AUC, F = λ₋/m Σ log g_i.

    Parameters
    ----------
    labels : array-like or Tensor of shape (n,)
        Labels of all training examples: bool, {0, 1} or {-1, 1}.
    negatives : float, default=0.1
        λ₋. Small values weight the negatives with the highest scores; for large ones the loss
        is that of the whole AUC.
    positives : float or None, default=None
        λ₊ of the two-way partial AUC; None is one-way.
    surrogate : str or Surrogate, default="squared_hinge"
        ℓ; see :class:`APLoss`.
    gamma : float or None, default=0.5
        Slope or margin of ℓ; see :class:`APLoss`.
    from_logits : bool, default=False
        Whether the scores are logits, to which the loss applies the sigmoid: exponentials of
        unbounded scores would overflow.
    spread : float or None, default=1.0
        Largest difference of two scores, those of logits after the sigmoid; see :class:`APLoss`.
    **options
        `tracker`, `beta0`, `schedule`, `poor_batch` and `process_group` of :class:`APLoss`.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import PartialAUCLoss
    >>> loss = PartialAUCLoss([1, 0, 0, 1], negatives=0.5, from_logits=True)
    >>> logits = torch.tensor([1.0, 0.5, -1.0, -0.5], requires_grad=True)
    >>> loss(logits, torch.arange(4)).backward()
    >>> logits.grad.sign().tolist()
    [-1.0, 1.0, 1.0, -1.0]
    """

    @explains_foreign_keywords
    def __init__(
        self,
        labels: Any,
        *,
        negatives: float = 0.1,
        positives: float | None = None,
        surrogate: str | Surrogate = "squared_hinge",
        gamma: float | None = 0.5,
        from_logits: bool = False,
        spread: float | None = 1.0,
        **options: Unpack[TrackerOptions],
    ) -> None:
        why = "it is the temperature of a soft maximum; smaller values are closer to the maximum"
        lower = check_real(negatives, "negatives", above=0, why=why)
        upper = None if positives is None else check_real(positives, "positives", above=0, why=why)

        outer = partial(_scaled_log, scale=lower)
        if upper is not None:
            outer = partial(_power, exponent=lower / upper)
        super().__init__(outer, labels, surrogate=surrogate, gamma=gamma, spread=spread, **options)
        self.negatives, self.positives = lower, upper
        self.from_logits = check_switch(from_logits, "from_logits")
        self.total: CompositionalLoss | None = None
        if upper is not None:  # a second level: λ₊ log of the mean over the positives
            self.total = CompositionalLoss(
                partial(_scaled_log, scale=upper),
                1,
                1,
                tracker=self.tracker,
                beta0=self.beta0,
                schedule=self.schedule,
                process_group=False,  # all ranks have the same mean
            )

    def _inner(self, losses: Tensor) -> Tensor:
        return (losses / self.negatives).exp().mean(1, keepdim=True)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "negatives": self.negatives, "positives": self.positives}

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        own = self._settings()
        if state.get(f"{prefix}_extra_state", own) != own:  # then U of `total` is another one, too
            for name in [key for key in state if key.startswith(f"{prefix}total.")]:
                del state[name]
        super()._load_from_state_dict(state, prefix, *rest)

    def forward(self, scores: Tensor, index: Tensor, labels: Any = None) -> Tensor:
        """Update U and return the loss of the batch.

        Parameters
        ----------
        scores : Tensor of shape (B,)
            Scores of the batch.
        index, labels
            As in :meth:`APLoss.forward`.
        """
        is_logit = self.from_logits and isinstance(scores, Tensor) and scores.is_floating_point()
        values = torch.sigmoid(scores) if is_logit else scores
        result: Tensor = super().forward(values, index, labels)
        return result

    def _of_batch(self, scores: Tensor, index: Tensor) -> Tensor:
        before = int(self.rounds)
        value = super()._of_batch(scores, index)
        if self.total is None or (self.training and int(self.rounds) == before):  # skipped
            return value
        row = torch.zeros(1, dtype=torch.int64, device=value.device)
        result: Tensor = self.total(value.reshape(1, 1), row)
        return result


class PNormPushLoss(ClassPairLoss):
    r"""The p-norm push: the p-th power of the height of each negative.

    .. math:: F(w) = \frac1{n_-} \sum_{y_j \neq 1} g_j(w)^p, \qquad
              g_j(w) = \frac1m \sum_{y_i = 1} \ell(s_j - s_i)

    g_j estimates the share of positives that rank below negative j. Powers above 1 weight the
    negatives at the top. With p = 1 the loss is that of the AUC.

    Parameters
    ----------
    labels : array-like or Tensor of shape (n,)
        Labels of all training examples: bool, {0, 1} or {-1, 1}.
    p : float, default=4.0
        The power, at least 1.
    **options
        `surrogate`, `gamma`, `from_logits`, `spread`, `tracker`, `beta0`, `schedule`, `poor_batch`
        and `process_group` of :class:`APLoss`.

    Notes
    -----
    The rows of U are the negatives: 12 bytes each.

    Examples
    --------
    >>> import torch
    >>> from apmax.torch import PNormPushLoss
    >>> loss = PNormPushLoss([1, 0, 0, 1], from_logits=True)
    >>> logits = torch.tensor([1.0, 0.5, -1.0, -0.5], requires_grad=True)
    >>> loss(logits, torch.arange(4)).backward()
    >>> bool(logits.grad[1] > logits.grad[2])    # the higher negative is pushed down harder
    True
    """

    rows_are_positive = False

    @explains_foreign_keywords
    def __init__(
        self,
        labels: Any,
        *,
        p: float = 4.0,
        **options: Unpack[PairOptions],
    ) -> None:
        why = "larger powers weight the negatives at the top; 1 is the AUC"
        power = check_real(p, "p", at_least=1, why=why)
        super().__init__(partial(_power, exponent=power), labels, **options)
        self.p = power

    def _inner(self, losses: Tensor) -> Tensor:
        return losses.mean(1, keepdim=True)


def _power(u: Tensor, exponent: float) -> Tensor:
    return u[:, 0] ** exponent


def _scaled_log(u: Tensor, scale: float) -> Tensor:
    return scale * u[:, 0].log()
