"""Log-loss and its slopes in one pass, with one exponential per example."""

from __future__ import annotations

import numpy as np

from apmax._compile import kernel


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


@kernel
def slopes_of_smoothed_log_loss(z, positive, share, target_minus, target_plus, p):
    """Gradient and Hessian in p of Σ share · (log(1 + eˣ) − target · x) for x = p₀z + p₁."""
    g0 = g1 = h00 = h01 = h11 = 0.0
    for j in range(z.size):
        target = target_plus if positive[j] else target_minus
        x = p[0] * z[j] + p[1]
        tail = np.exp(-abs(x))
        sigma = (1.0 if x >= 0 else tail) / (1.0 + tail)
        error = share[j] * (sigma - target)
        g0 += error * z[j]
        g1 += error
        curvature = share[j] * tail / ((1.0 + tail) * (1.0 + tail))
        h00 += curvature * z[j] * z[j]
        h01 += curvature * z[j]
        h11 += curvature
    return np.array([g0, g1]), np.array([[h00, h01], [h01, h11]])
