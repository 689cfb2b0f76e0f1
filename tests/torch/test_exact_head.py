"""ExactAPHead: the optimum of the equations, any loader, and a network that is otherwise left."""

from __future__ import annotations

import copy
import math
import signal
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from apmax import average_precision, errors
from apmax.objective.exact import evaluate_margins
from apmax.torch import ExactAPHead
from apmax.torch import exact_head as module

N = 900


def data(seed: int = 0, n: int = N) -> tuple[torch.Tensor, torch.Tensor]:
    """Two causes, which one direction cannot separate."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 6, generator=generator)
    noise = 0.4 * torch.randn(n, generator=generator)
    return X, torch.maximum(1.4 * X[:, 0], X[:, 1] + X[:, 2]) + noise > 2.2


X, Y = data()


def network(outputs: int = 1, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, outputs, bias=bias)
    )


def loader(batch_size: int = 128, **options: Any) -> Any:
    return DataLoader(TensorDataset(X, Y), batch_size=batch_size, **options)


def scores(net: nn.Module, at: torch.Tensor = X) -> np.ndarray:
    with torch.no_grad():
        return net.eval()(at)[:, -1].double().numpy()


def optimum(net: nn.Sequential, alpha: float) -> np.ndarray:
    """Margins at the minimum of −ÂP by its pairs + α ‖w − w₀‖² / ‖w₀‖², found with autograd."""
    with torch.no_grad():
        h = net.eval()[:-1](X).double()
        z = net(X)[:, 0].double()
    h = (h - h.mean(dim=0)) / h.std(dim=0, correction=0)
    m, rest = int(Y.sum()), int((~Y).sum())
    share = np.where(Y, (m + 1) / (m + 2), 1 / (rest + 2))  # Platt's smoothed labels
    rows = np.concatenate([z, z])[:, None]
    platt = LogisticRegression(C=1e12, tol=1e-10, max_iter=1000).fit(
        rows, np.repeat([1, 0], N), sample_weight=np.concatenate([share, 1 - share])
    )
    slope, offset = float(platt.coef_[0, 0]), float(platt.intercept_[0])
    anchor = slope * (torch.linalg.lstsq(h, (z - z.mean())[:, None]).solution[:, 0])
    w = anchor.clone().requires_grad_()
    b = (slope * z.mean() + offset).clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [w, b], max_iter=500, tolerance_grad=1e-9, tolerance_change=1e-14,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        s = torch.sigmoid(h @ w + b)
        pairs = torch.sigmoid(20.0 * (s[None, :] - s[Y, None]))
        ap = (pairs[:, Y].sum(1) / pairs.sum(1)).mean()
        loss = alpha * (w - anchor).square().sum() / anchor.square().sum() - ap
        loss.backward()
        return loss

    optimizer.step(closure)
    return (h @ w + b).detach().numpy()


@pytest.mark.parametrize("alpha", [0.3, 0.01])
def test_the_layer_is_the_minimum_of_the_anchored_objective(alpha: float) -> None:
    net = network()
    expected = optimum(net, alpha)
    fit = ExactAPHead(alphas=alpha, tol=1e-7, max_iter=1000).fit(net, loader())
    found = scores(net)
    slope, offset = np.polyfit(expected, found, 1)  # the layer is calibrated afterwards
    np.testing.assert_allclose(found, slope * expected + offset, atol=2e-3 * found.std())
    assert slope > 0
    assert fit.converged
    assert fit.alphas == (alpha,)
    assert math.isnan(fit.gains[0])


def test_it_improves_held_out_ap_by_the_gain_that_it_reports() -> None:
    net = network()
    before = copy.deepcopy(net)
    X_test, y_test = data(seed=1, n=20_000)
    fit = ExactAPHead().fit(net, loader())
    gain = average_precision(y_test, scores(net, X_test)) - average_precision(
        y_test, scores(before, X_test)
    )
    assert fit.changed
    assert gain > 0.1
    assert abs(gain - fit.gains[0]) < 3 * fit.errors[0] + 0.05


def test_only_the_last_layer_changes_and_modes_and_hooks_are_restored() -> None:
    net = network().train()
    net[2].eval()
    before = copy.deepcopy(net.state_dict())
    ExactAPHead(alphas=0.1).fit(net, loader())
    changed = [name for name, value in net.state_dict().items() if not value.equal(before[name])]
    assert changed == ["3.weight", "3.bias"]
    assert [one.training for one in net] == [True, True, False, True]
    assert not any(one._forward_pre_hooks for one in net)


def test_scores_are_calibrated_to_the_share_of_positives() -> None:
    net = network()
    ExactAPHead(alphas=0.1).fit(net, loader())
    assert torch.sigmoid(torch.from_numpy(scores(net))).mean() == pytest.approx(
        float(Y.float().mean()), abs=0.005
    )


def test_the_order_and_the_size_of_batches_do_not_matter() -> None:
    nets = [network() for _ in range(2)]
    ExactAPHead(alphas=0.1).fit(nets[0], loader(7))
    generator = torch.Generator().manual_seed(3)
    ExactAPHead(alphas=0.1).fit(nets[1], loader(500, shuffle=True, generator=generator))
    np.testing.assert_allclose(scores(nets[0]), scores(nets[1]), atol=1e-3)


def test_a_present_layer_that_cannot_be_improved_is_kept() -> None:
    net = network()
    best = scores(net)
    ranked_by_it = torch.from_numpy(best > np.quantile(best, 0.95))
    before = copy.deepcopy(net.state_dict())
    fit = ExactAPHead(cv=3).fit(net, DataLoader(TensorDataset(X, ranked_by_it), batch_size=300))
    assert fit.alphas == (math.inf,)
    assert not fit.changed
    assert fit.gains[0] <= fit.errors[0]
    assert all(value.equal(before[name]) for name, value in net.state_dict().items())


def test_two_outputs_are_fitted_by_their_difference() -> None:
    net = network(outputs=2)
    single = network()
    with torch.no_grad():
        single[-1].weight.copy_(net[-1].weight[1:] - net[-1].weight[:1])
        single[-1].bias.copy_(net[-1].bias[1:] - net[-1].bias[:1])
        total = net[-1].weight.sum(dim=0)
    ExactAPHead(alphas=0.1).fit(net, loader())
    ExactAPHead(alphas=0.1).fit(single, loader())
    with torch.no_grad():
        out = net.eval()(X)
    np.testing.assert_allclose(out[:, 1] - out[:, 0], scores(single), atol=1e-4)
    torch.testing.assert_close(net[-1].weight.sum(dim=0), total)


def test_a_layer_without_bias_ranks_as_one_with_it() -> None:
    nets = [network(bias=False), network()]
    with torch.no_grad():
        nets[1].load_state_dict({**nets[0].state_dict(), "3.bias": torch.zeros(1)})
    for net in nets:
        ExactAPHead(alphas=0.1).fit(net, loader())
    found, expected = scores(nets[0]), scores(nets[1])
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=1e-4)


def test_several_labels_with_missing_ones_are_fitted_one_by_one() -> None:
    labels = torch.stack([Y.float(), (X[:, 3] > 1.5).float(), torch.zeros(N)], dim=1)
    labels[::5, 1] = float("nan")
    net, single = network(outputs=3), network()
    before = net[-1].weight.detach().clone()
    with torch.no_grad():
        single[-1].weight.copy_(net[-1].weight[1:2])
        single[-1].bias.copy_(net[-1].bias[1:2])
    fit = ExactAPHead(alphas=0.1).fit(net, DataLoader(TensorDataset(X, labels), batch_size=200))
    known = ~labels[:, 1].isnan()
    rows = TensorDataset(X[known], labels[known, 1])
    ExactAPHead(alphas=0.1).fit(single, DataLoader(rows, batch_size=200))
    torch.testing.assert_close(net[-1].weight[1:2], single[-1].weight, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(net[-1].weight[2], before[2])  # no positives, nothing to rank
    assert fit.alphas == (0.1, 0.1, math.inf)


class Named(nn.Module):
    """Called by keyword, with a linear layer registered after the head."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(8, 1)
        self.body = nn.Linear(6, 8)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        out: torch.Tensor = self.classifier(torch.tanh(self.body(x)) * scale)
        return out


def test_mappings_and_other_batches() -> None:
    batches = [{"x": X[k : k + 300], "labels": Y[k : k + 300]} for k in range(0, N, 300)]
    torch.manual_seed(0)
    nets = [Named() for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    assert ExactAPHead(alphas=0.1).fit(nets[0], batches).layer == "classifier"
    odd = [(Y[k : k + 300], {"x": X[k : k + 300]}) for k in range(0, N, 300)]
    ExactAPHead(alphas=0.1).fit(nets[1], odd, unpack=lambda batch: (batch[1], batch[0]))
    np.testing.assert_array_equal(scores(nets[0]), scores(nets[1]))


def test_half_precision_networks() -> None:
    net = network().bfloat16()
    batches = [(X[k : k + 300].bfloat16(), Y[k : k + 300]) for k in range(0, N, 300)]
    before = average_precision(Y, scores(net, X.bfloat16()))
    ExactAPHead(alphas=0.1).fit(net, batches)
    assert net[-1].weight.dtype == torch.bfloat16
    assert average_precision(Y, scores(net, X.bfloat16())) > before + 0.1


@pytest.mark.parametrize(
    ("options", "arguments", "error", "words"),
    [
        ({"alphas": (0.1, 1.0)}, {}, errors.ParameterError, "descending"),
        ({"alphas": -1.0}, {}, errors.ParameterError, "alphas"),
        ({"cv": 1}, {}, errors.ParameterError, "folds"),
        ({}, {"layer": "fc"}, errors.ParameterError, r"has \['0', '3'\]"),
        ({}, {"layer": "0"}, errors.ShapeError, "8 outputs"),
        ({}, {"loader": []}, errors.ShapeError, "no batches"),
        ({}, {"loader": [X]}, errors.ParameterError, "unpack="),
        ({}, {"loader": [(X * math.inf, Y)]}, errors.NonFiniteError, "NaN or infinite"),
        ({}, {"loader": [(X, Y[:5])]}, errors.ShapeError, "one row per label"),
        ({}, {"loader": [(X, Y.long() * 3)]}, errors.LabelError, "labels"),
    ],
)
def test_what_cannot_be_fitted_leaves_the_network(
    options: Any, arguments: Any, error: type[Exception], words: str
) -> None:
    net = network().train()
    before = copy.deepcopy(net.state_dict())
    with pytest.raises(error, match=words):
        ExactAPHead(**options).fit(net, **{"loader": loader(), **arguments})
    assert net.training
    assert all(value.equal(before[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize("alphas", [0.01, (1.0, 0.1)], ids=["final fit", "cross-validation"])
def test_ctrl_c_keeps_the_best_layer_so_far(alphas: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def interrupting(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            signal.raise_signal(signal.SIGINT)
        return evaluate_margins(*arguments)

    monkeypatch.setattr(module, "evaluate_margins", interrupting)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    net = network()
    before = average_precision(Y, scores(net))
    try:
        fit = ExactAPHead(alphas=alphas).fit(net, loader())
    finally:
        signal.signal(signal.SIGINT, handler)
    assert fit.interrupted
    assert not fit.converged
    assert average_precision(Y, scores(net)) >= before
    assert fit.changed == (alphas == 0.01)
