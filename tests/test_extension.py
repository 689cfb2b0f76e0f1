"""A registered surrogate and a registered method run wherever they can be named, or say why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from apmax import (
    APClassifier,
    APClassifierCV,
    StochasticAPClassifier,
    Surrogate,
    average_precision,
    methods,
    surrogate_ap,
)
from apmax.errors import BackendError
from apmax.methods import METHODS, Direction, Method
from apmax.objective import surrogates
from apmax.objective.surrogates import SURROGATES

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
Y = X[:, 0] + 0.5 * RNG.normal(size=300) > 1
CUBIC = Surrogate(
    "cubic_hinge",
    value=lambda x, gamma: np.maximum(x + gamma, 0.0) ** 3,
    slope=lambda x, gamma: 3 * np.maximum(x + gamma, 0.0) ** 2,
)
NESTEROV_FREE = Method(
    "my-method",
    "My method",
    tracker="randomized_coordinate",
    direction=Direction("my-direction", second_moment="running", bound="largest"),
    schedule="constant",
    projected=True,
)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    surrogates.register(CUBIC)
    methods.register(NESTEROV_FREE)
    yield
    del SURROGATES["cubic_hinge"], METHODS["my-method"]


def test_a_surrogate_runs_in_the_exact_objective() -> None:
    scores = RNG.random(300)
    result = surrogate_ap(scores, Y, surrogate="cubic_hinge", gamma=0.3)
    move = 1e-6 * RNG.normal(size=300)
    up = surrogate_ap(scores + move, Y, surrogate="cubic_hinge", gamma=0.3).value
    down = surrogate_ap(scores - move, Y, surrogate="cubic_hinge", gamma=0.3).value
    assert (up - down) / 2 == pytest.approx(result.gradient @ move, rel=1e-4)


@pytest.mark.parametrize(
    "model",
    [
        APClassifier(surrogate="cubic_hinge"),
        APClassifierCV(surrogate="cubic_hinge", alphas=(0.1,), Cs=(1.0,), cv=2),
        StochasticAPClassifier(surrogate="cubic_hinge", random_state=0, max_iter=1000),
        StochasticAPClassifier("my-method", random_state=0, max_iter=1000, learning_rate=0.1),
    ],
    ids=["full batch", "cross-validation", "stochastic surrogate", "stochastic method"],
)
def test_both_run_in_the_estimators(model: APClassifier) -> None:
    assert average_precision(Y, model.fit(X, Y).decision_function(X)) > 0.75


@pytest.mark.parametrize("surrogate", ["cubic_hinge", CUBIC])
def test_a_surrogate_runs_in_aploss(surrogate: str | Surrogate) -> None:
    torch = pytest.importorskip("torch")
    from apmax.torch import APLoss

    scores = torch.rand(300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores.requires_grad_()
    loss = APLoss(Y, surrogate=surrogate, gamma=0.3, tracker="none").double()
    value = loss(scores, torch.arange(300))
    value.backward()
    exact = surrogate_ap(scores.detach().numpy(), Y, surrogate=surrogate, gamma=0.3)
    assert value.item() == pytest.approx(-exact.value, rel=1e-9)
    np.testing.assert_allclose(scores.grad.numpy(), -exact.gradient, rtol=1e-7, atol=1e-12)


def test_a_method_runs_in_torch() -> None:
    torch = pytest.importorskip("torch")
    from apmax.torch import from_table

    net = torch.nn.Linear(4, 1)
    torch.nn.init.zeros_(net.weight)
    loss, optimizer = from_table("my-method", Y, net.parameters(), lr=0.05)
    features = torch.tensor(X, dtype=torch.float32)
    for _ in range(200):
        optimizer.zero_grad()
        loss(torch.sigmoid(net(features)[:, 0]), torch.arange(300)).backward()
        optimizer.step()
    assert average_precision(Y, net(features).detach().numpy()[:, 0]) > 0.75


def test_a_surrogate_that_numba_cannot_compile_names_the_back_end() -> None:
    opaque = Surrogate(
        "opaque",
        value=lambda x, gamma: np.asarray([str(one) for one in np.ravel(x)]).size + 0.0 * x,
        slope=lambda x, gamma: 0.0 * x,
    )
    model = StochasticAPClassifier(surrogate=opaque)
    with pytest.raises(BackendError, match="'opaque' cannot run in the compiled linear solver"):
        model.fit(X, Y)
    assert not hasattr(model, "coef_")
    assert APClassifier(surrogate=opaque).fit(X, Y).result_.converged


def test_a_method_that_a_back_end_lacks_names_the_back_end() -> None:
    msvr = replace(METHODS["sox"], name="sox-msvr", tracker="msvr")
    with pytest.raises(BackendError, match=r"cannot run in the compiled linear solver.*previous"):
        StochasticAPClassifier(msvr).fit(X, Y)
    torch = pytest.importorskip("torch")
    from apmax.torch import from_table

    net = torch.nn.Linear(4, 1)
    for method in (msvr, METHODS["smoothap"], replace(METHODS["sox"], schedule="linear")):
        with pytest.raises(BackendError, match=r"apmax\.torch"):
            from_table(method, Y, net.parameters(), lr=0.1)
