"""Rank items within queries: NDCG, mean AP and the listwise loss, each from batches.

python examples/torch/retrieval.py
"""

import numpy as np
import torch
from sklearn.metrics import ndcg_score
from torch import Tensor, nn

from apmax.torch import ListwiseLoss, NDCGLoss, QueryAPLoss, QueryBatchSampler

QUERIES, ITEMS = 100, 60


def make_data(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features, relevance 0-3 and query of every item; few items are relevant."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(QUERIES * ITEMS, 10, generator=generator)
    signal = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.5 * torch.randn(len(X), generator=generator)
    relevance = (signal > 1.5).long() + (signal > 2.0) + (signal > 2.5)
    return X, relevance, torch.arange(QUERIES).repeat_interleave(ITEMS)


def test_ndcg(model: nn.Module) -> float:
    X, relevance, _ = make_data(seed=1)
    with torch.no_grad():
        scores = model(X)[:, 0].view(QUERIES, ITEMS)
    gains = np.exp2(relevance.view(QUERIES, ITEMS).numpy()) - 1
    return float(ndcg_score(gains, scores.numpy(), k=10))


def train(epochs: int = 60) -> dict[str, float]:
    X, relevance, query = make_data(seed=0)
    losses = {
        "NDCG": NDCGLoss(relevance, query, from_logits=True),
        "NDCG@10": NDCGLoss(relevance, query, k=10, from_logits=True),
        "mean AP": QueryAPLoss(relevance, query, from_logits=True),
        "listwise": ListwiseLoss(relevance, query),
    }
    found = {}
    for name, loss in losses.items():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        sampler = QueryBatchSampler(relevance, query, queries_per_batch=10)
        for _ in range(epochs):
            for batch in sampler:
                index = torch.tensor(batch)
                optimizer.zero_grad()
                loss(model(X[index])[:, 0], index, relevance[index]).backward()
                optimizer.step()
        found[name] = test_ndcg(model)
    return found


if __name__ == "__main__":
    for name, ndcg in train().items():
        print(f"trained for {name}: test NDCG@10 {ndcg:.3f}")
