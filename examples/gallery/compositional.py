"""
CompositionalLoss: robust regression over groups
================================================

AP is one case of min 1/m Σ f(gᵢ(w)): each row i has an inner mean gᵢ that a batch can only
estimate, and f is not linear, so that the gradient of a batch is biased. `CompositionalLoss` keeps
an estimate of every gᵢ and takes any f. Here: robust regression, which weights the groups with the
largest errors.
"""

# %%
# 20 groups of about 300 rows; two of them follow a different model.
import matplotlib.pyplot as plt
import numpy as np
import torch

from apmax.torch import CompositionalLoss

generator = torch.Generator().manual_seed(0)
group = torch.randint(20, (6_000,), generator=generator)
X = torch.randn(6_000, 5, generator=generator)
w = torch.tensor([1.0, -1.0, 0.5, 0.0, 0.0])
odd = group < 2
target = X @ w + 2.0 * odd * X[:, 3] + 0.3 * torch.randn(6_000, generator=generator)


def errors(model: torch.nn.Module) -> np.ndarray:
    """Return the mean squared error of each group."""
    with torch.no_grad():
        squared = (model(X)[:, 0] - target) ** 2
    return np.array([float(squared[group == k].mean()) for k in range(20)])


# %%
# The inner mean of a group is its mean squared error, estimated from the rows of the batch. With
# f(u) = u³ the loss is a soft maximum over the groups; with f(u) = u it is their mean.
def train(power: int, steps: int = 1_500) -> torch.nn.Module:
    """Fit a linear model by the mean of the powers of the groups' errors."""
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    outer = CompositionalLoss(lambda u: u[:, 0] ** power, num_rows=20, num_values=1)
    for _ in range(steps):
        rows = torch.randint(6_000, (128,), generator=generator)
        present, place = torch.unique(group[rows], return_inverse=True)
        squared = (model(X[rows])[:, 0] - target[rows]) ** 2
        total = torch.zeros(len(present)).index_add(0, place, squared)
        mean = total / torch.bincount(place)
        optimizer.zero_grad()
        outer(mean[:, None], present).backward()
        optimizer.step()
    return model


found = {"mean over groups": errors(train(1)), "soft maximum": errors(train(3))}
for name, values in found.items():
    print(f"{name:<18} worst group {values.max():.2f}, mean {values.mean():.2f}")
    plt.bar(np.arange(20) + 0.4 * (name == "soft maximum"), values, 0.4, label=name)
plt.xlabel("group")
plt.ylabel("mean squared error")
plt.legend()
plt.show()
