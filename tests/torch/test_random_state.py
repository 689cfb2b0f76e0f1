"""Training neither reads nor changes torch's global random state."""

from __future__ import annotations

import torch
from torch import nn

from apmax.torch import ADAP, APLoss, ExactAPHead, PositiveNegativeBatchSampler

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(400, 4, generator=GENERATOR)
Y = X[:, 0] + torch.randn(400, generator=GENERATOR) > 1
FIRST = torch.randn(4, 1, generator=GENERATOR).T


def trained(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Set the global seed, and train and refit a layer; check the state and return weights."""
    network = nn.Sequential(nn.Identity(), nn.Linear(4, 1))
    layer = network[1]
    nn.init.zeros_(layer.bias)
    layer.weight.data.copy_(FIRST)
    torch.manual_seed(seed)
    before = torch.get_rng_state()
    loss, optimizer = APLoss(Y, from_logits=True), ADAP(network.parameters(), lr=0.05)
    for _ in range(2):
        for batch in PositiveNegativeBatchSampler(Y, 32, 8):
            index = torch.tensor(batch)
            optimizer.zero_grad()
            loss(network(X[index])[:, 0], index, Y[index]).backward()
            optimizer.step()
    by_batches = layer.weight.detach().clone()
    ExactAPHead(alphas=(0.1, 0.01)).fit(network, [(X, Y)])
    assert torch.equal(torch.get_rng_state(), before)
    return by_batches, layer.weight.detach()


def test_training_leaves_the_global_random_state_and_does_not_depend_on_it() -> None:
    one, other = trained(1), trained(2)
    assert all(map(torch.equal, one, other))
    assert not torch.equal(FIRST, one[0])
    assert not torch.equal(*one)
