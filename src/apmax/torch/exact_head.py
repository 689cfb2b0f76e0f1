"""ExactAPHead: the last layer of a trained network, fitted to exact average precision."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor, nn
from torch.nn.utils import parametrize

from apmax.blas_threads import one_blas_thread
from apmax.errors import NonFiniteError, ParameterError, ShapeError
from apmax.interrupts import cooperative_interrupts, interrupt_on_hold, interrupted
from apmax.lbfgs import Minimum, Objective, minimise
from apmax.metrics import average_precision
from apmax.objective.exact import evaluate_margins
from apmax.objective.surrogates import Surrogate, resolve_with_gamma
from apmax.torch.distributed import gather_checked
from apmax.torch.labels import label_masks
from apmax.torch.layer_inputs import LayerInputs, Unpack, layer_inputs
from apmax.torch.standardized import Standardized
from apmax.validation import Floats, Mask, check_count, check_real

logger = logging.getLogger("apmax")
ALPHAS = (1.0, 0.1, 0.01, 0.001)
GAIN_PER_TOL = 0.1
"""A fit stops at a relative gain below this share of `tol`."""


@dataclass(frozen=True)
class HeadFit:
    """How the last layer was fitted, with one entry per label.

    :meth:`ExactAPHead.fit` returns it.
    """

    layer: str
    """Name of the layer in the network."""
    alphas: tuple[float, ...]
    """Chosen strengths of the pull towards the present layer; infinity if that was kept."""
    gains: tuple[float, ...]
    """Cross-validated gains in AP over the present layer; NaN without cross-validation."""
    errors: tuple[float, ...]
    """Standard errors of the gains over the folds."""
    iterations: int
    """Iterations of L-BFGS, of all labels together."""
    converged: bool
    """Whether the fits of all labels converged."""
    interrupted: bool
    """Whether Ctrl-C ended the fit; labels that were not finished keep the present layer."""

    @property
    def changed(self) -> bool:
        """Whether any part of the layer was replaced."""
        return any(math.isfinite(alpha) for alpha in self.alphas)


class ExactAPHead:
    r"""Replace the last linear layer of a trained network by an exact full-batch fit.

    .. math:: \min_{w, b}\; -\widehat{AP}\big(\sigma(w \cdot h(x) + b)\big)
              + \alpha \, \|w - w_0\|^2 / \|w_0\|^2

    h(x) are the inputs of the layer and w₀ are its present weights, calibrated to log-odds; norms
    are those of standardized inputs. The sum is over all pairs of examples, so the result does
    not depend on batches or on a learning rate. α is chosen by cross-validated AP, with the
    present layer (α = ∞) as a candidate.

    Parameters
    ----------
    alphas : float or sequence of float, default=(1, 0.1, 0.01, 0.001)
        Candidates for α in descending order. A single number is used without cross-validation.
    surrogate : str or Surrogate, default="logistic"
        See :class:`APLoss`.
    gamma : float, default=None
        See :class:`APLoss`; scores are probabilities.
    cv : int, default=5
        Number of folds.
    max_iter : int, default=200
        Most iterations of L-BFGS per fit.
    tol : float, default=1e-4
        A fit stops if no entry of the gradient is above it.
    process_group : ProcessGroup, None or False, default=None
        Processes whose loaders together hold the data; see :class:`CompositionalLoss`. All ranks
        fit the same layer.

    Notes
    -----
    Use it after training, on data that the network has not memorised: if its AP on the loader's
    examples is nearly 1, pass a loader of held-out examples. On the data that trained the layer
    the cross-validated gain is too low, because the layer has seen the held-out folds. Inputs of
    the layer are kept in memory (4·n·d bytes, twice that during cross-validation).

    The layer has one output per label. With one label it may have two outputs (softmax), whose
    difference is fitted. Several labels are fitted one by one; missing ones are -1 or NaN.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> from apmax.torch import ExactAPHead
    >>> generator = torch.Generator().manual_seed(0)
    >>> X = torch.randn(2000, 8, generator=generator)
    >>> y = torch.maximum(X[:, 0], X[:, 1]) + torch.randn(2000, generator=generator) > 2
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(
    ...     torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
    ... )
    >>> fit = ExactAPHead().fit(network, DataLoader(TensorDataset(X, y), batch_size=500))
    >>> fit.layer, fit.converged, fit.changed
    ('2', True, True)
    """

    def __init__(
        self,
        *,
        alphas: float | Sequence[float] = ALPHAS,
        surrogate: str | Surrogate = "logistic",
        gamma: float | None = None,
        cv: int = 5,
        max_iter: int = 200,
        tol: float = 1e-4,
        process_group: Any = None,
    ) -> None:
        given = tuple(alphas) if isinstance(alphas, Sequence) else (alphas,)
        for alpha in given:
            check_real(alpha, "alphas", above=0, why="it is the pull towards the present layer")
        if not given or list(given) != sorted(given, reverse=True):
            raise ParameterError(f"`alphas` = {alphas!r} must be in descending order")
        self.alphas = given
        self.surrogate, self.gamma = resolve_with_gamma(surrogate, gamma)
        self.cv = check_count(cv, "cv", at_least=2, why="it is the number of folds")
        self.max_iter = check_count(max_iter, "max_iter", why="L-BFGS needs iterations")
        self.tol = check_real(tol, "tol", above=0, why="it is the largest gradient at the end")
        self.process_group = process_group

    def fit(
        self,
        network: nn.Module,
        loader: Iterable[Any],
        *,
        layer: str | nn.Linear | None = None,
        unpack: Unpack | None = None,
    ) -> HeadFit:
        """Fit the layer in place; on an error the network is unchanged.

        Parameters
        ----------
        network : Module
            The trained network. It runs in evaluation mode and without gradients.
        loader : iterable
            Batches (inputs, labels, …), or mappings with "labels" whose other entries are the
            arguments of the network, in any order. Usually a DataLoader that yields each example
            once, without a batch sampler that repeats positives.
        layer : str or Linear, default=None
            Name of the layer, or the layer. None is the linear layer that is called last.
        unpack : callable, default=None
            Function of a batch that returns (inputs, labels), for other batches.

        Returns
        -------
        HeadFit
            What was chosen, and the gains in AP.
        """

        def collect() -> tuple[Tensor, ...]:
            found.append(layer_inputs(network, loader, layer, unpack))
            _check_head(found[0])
            return found[0].inputs.to(device), found[0].labels.to(device)

        found: list[LayerInputs] = []
        device = next(network.parameters()).device
        gathered = gather_checked(collect, network, self.process_group)
        features, labels = (tensor.cpu() for tensor in gathered)
        with cooperative_interrupts(), one_blas_thread(features.numel()):
            return self._fit_layer(found[0].name, found[0].layer, features, labels)

    def _fit_layer(self, name: str, layer: nn.Linear, features: Tensor, labels: Tensor) -> HeadFit:
        columns = labels[:, None] if labels.ndim == 1 else labels
        positive, missing = label_masks(columns)
        fits = []
        for k, present in enumerate(_present(layer, columns.shape[1])):
            known = ~missing[:, k]
            inputs = features if bool(known.all()) else features[known]
            fits.append(self._fit_label(inputs.numpy(), positive[known, k].numpy(), present))
            logger.info("label %d: alpha %g, gain %+.4f ± %.4f", k, *fits[-1][1:4])
        _write(layer, [one.w for one in fits])
        stopped = any(one.interrupted for one in fits)
        converged = all(one.converged for one in fits)
        if not converged and not stopped:
            message = f"the fit stopped at max_iter = {self.max_iter}: increase it, or tol"
            warnings.warn(message, UserWarning, stacklevel=3)
        return HeadFit(
            layer=name,
            alphas=tuple(one.alpha for one in fits),
            gains=tuple(one.gain for one in fits),
            errors=tuple(one.error for one in fits),
            iterations=sum(one.iterations for one in fits),
            converged=converged,
            interrupted=stopped,
        )

    def _fit_label(self, features: NDArray[Any], positive: Mask, present: Floats) -> _LabelFit:
        """Choose alpha by cross-validation, and fit on all rows."""
        kept = _LabelFit(present, math.inf, 0.0, 0.0)
        if not 2 <= positive.sum() < positive.size:
            return kept  # there is nothing to rank
        inputs = Standardized.of(features)
        anchor = _calibrated(inputs, positive, inputs.scaled(present))
        chosen, gain, error = 0, math.nan, math.nan
        if len(self.alphas) > 1:
            scores = np.array(list(self._held_out(inputs, positive, anchor)))
            if interrupted():
                return kept._replace(converged=False, interrupted=True)
            gains = scores[:, 1:] - scores[:, :1]
            chosen = int(gains.mean(axis=0).argmax())
            gain = float(gains[:, chosen].mean())
            error = float(gains[:, chosen].std(ddof=1) / math.sqrt(len(gains)))
            if not gain > 0:
                return kept._replace(gain=gain, error=error)
        fits = list(self._path(inputs, positive, anchor, self.alphas[: chosen + 1]))
        with interrupt_on_hold():
            w = inputs.unscaled(_calibrated(inputs, positive, fits[-1].w), present)
        return _LabelFit(
            w,
            self.alphas[len(fits) - 1],
            gain,
            error,
            sum(one.iterations for one in fits),
            fits[-1].converged,
            fits[-1].interrupted,
        )

    def _held_out(
        self, inputs: Standardized, positive: Mask, anchor: Floats
    ) -> Iterator[list[float]]:
        """Yield the AP of the anchor and of every alpha on the held-out rows of each fold."""
        fewest = int(min(positive.sum(), (~positive).sum()))
        from apmax.splits import make_splits  # importing scikit-learn takes a second

        folds = make_splits(min(self.cv, fewest), inputs.values, positive)
        for number, (train, test) in enumerate(folds, 1):
            held_out, truth = inputs.rows(test), positive[test]
            fits = self._path(inputs.rows(train), positive[train], anchor, self.alphas)
            weights = [anchor, *(found.w for found in fits)]
            if interrupted():
                return
            scores = [average_precision(truth, held_out.margins(w)) for w in weights]
            logger.info("fold %d of %d: AP %s", number, len(folds), np.round(scores, 4))
            yield scores

    def _path(
        self, inputs: Standardized, positive: Mask, anchor: Floats, alphas: tuple[float, ...]
    ) -> Iterator[Minimum]:
        """Yield the fit of each alpha, started from the one before, until Ctrl-C."""
        w = anchor
        for alpha in alphas:
            found = minimise(
                self._objective(inputs, positive, anchor, alpha),
                w,
                max_iter=self.max_iter,
                tol=self.tol,
                least_gain=GAIN_PER_TOL * self.tol,
            )
            yield found
            if found.interrupted:
                return
            w = found.w

    def _objective(
        self, inputs: Standardized, positive: Mask, anchor: Floats, alpha: float
    ) -> Objective:
        """−ÂP + α ‖w − w₀‖²/‖w₀‖² with a free intercept, and its gradient."""
        penalty = alpha / (float(anchor[:-1] @ anchor[:-1]) or 1.0)

        def objective(w: Floats) -> tuple[float, Floats]:
            margins = inputs.margins(w)
            value, slopes = evaluate_margins(margins, positive, None, self.surrogate, self.gamma)
            gradient = inputs.vjp(-slopes)
            away = w[:-1] - anchor[:-1]
            gradient[:-1] += 2.0 * penalty * away
            return -value + penalty * float(away @ away), gradient

        return objective


class _LabelFit(NamedTuple):
    """Weights and bias of one label, and how they were found."""

    w: Floats
    alpha: float
    gain: float
    error: float
    iterations: int = 0
    converged: bool = True
    interrupted: bool = False


def _calibrated(inputs: Standardized, positive: Mask, w: Floats) -> Floats:
    """Return w with its margins scaled to log-odds, which leaves the ranking as it is.

    This is logistic regression on the margin with Platt's smoothed labels. A slope that is not
    positive would reverse the ranking and is not used.
    """
    margins = inputs.margins(w)
    centre, size = float(margins.mean()), float(margins.std()) or 1.0
    m, rest = positive.sum(), (~positive).sum()
    target = np.where(positive, (m + 1.0) / (m + 2.0), 1.0 / (rest + 2.0))
    z = (margins - centre) / size

    def log_loss(line: Floats) -> tuple[float, Floats]:
        log_odds = line[0] * z + line[1]
        value = float(np.mean(np.logaddexp(0.0, log_odds) - target * log_odds))
        slopes = (expit(log_odds) - target) / z.size
        return value, np.array([slopes @ z, slopes.sum()])

    slope, offset = minimise(log_loss, np.array([1.0, 0.0]), max_iter=200, tol=1e-7).w
    if not slope > 0:
        return w
    return np.append(w[:-1] * slope / size, (w[-1] - centre) * slope / size + offset)


def _check_head(found: LayerInputs) -> None:
    """Check that the layer can be written and has an output per label."""
    if parametrize.is_parametrized(found.layer):
        raise ParameterError(
            f"layer {found.name!r} has a parametrized weight, which cannot be replaced: call "
            "torch.nn.utils.parametrize.remove_parametrizations first"
        )
    labels = 1 if found.labels.ndim == 1 else found.labels.shape[1]
    outputs = found.layer.out_features
    if found.labels.ndim > 2 or outputs not in ((1, 2) if labels == 1 else (labels,)):
        raise ShapeError(
            f"layer {found.name!r} has {outputs} outputs for labels of shape "
            f"{tuple(found.labels.shape)}: it needs one output per label; pass another layer="
        )
    if not bool(found.inputs.isfinite().all()):
        raise NonFiniteError(
            f"inputs of layer {found.name!r} are NaN or infinite; the network is unchanged: check "
            "its weights and the data"
        )


def _present(layer: nn.Linear, labels: int) -> list[Floats]:
    """Return weights and bias of each label; of two outputs for one label, their difference."""
    w = layer.weight.detach().double().cpu()
    b = w.new_zeros(len(w)) if layer.bias is None else layer.bias.detach().double().cpu()
    both = torch.cat([w, b[:, None]], dim=1)
    if labels < len(both):
        both = both[1:] - both[:1]
    return list(both.numpy())


@torch.no_grad()
def _write(layer: nn.Linear, fitted: list[Floats]) -> None:
    """Write the weights of each label; a layer without bias ranks the same without it."""
    change = torch.tensor(np.array(fitted)) - torch.tensor(np.array(_present(layer, len(fitted))))
    if len(change) < layer.out_features:
        change = torch.cat([-change / 2, change / 2])
    for parameter, of in ((layer.weight, change[:, :-1]), (layer.bias, change[:, -1])):
        if parameter is not None:
            parameter.copy_(parameter.double().cpu() + of)
