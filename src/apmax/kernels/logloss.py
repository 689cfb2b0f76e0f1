"""Log-loss and its slopes in one pass, with one exponential per example."""

from __future__ import annotations

import numpy as np

from apmax.kernels import kernel


@kernel
def log_loss(margins, positive, share, slopes):
    """Σ share · log(1 + exp(∓z)); slopes become its derivatives in z."""
    total = 0.0
    for j in range(margins.size):
        z = margins[j] if positive[j] else -margins[j]
        tail = np.exp(-abs(z))
        total += share[j] * (np.log1p(tail) + max(-z, 0.0))
        wrong = share[j] * (tail if z >= 0 else 1.0) / (1.0 + tail)  # share · σ(−z)
        slopes[j] = -wrong if positive[j] else wrong
    return total
