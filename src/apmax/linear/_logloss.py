"""Log-loss and its derivatives in one pass, with one exponential per example."""

from __future__ import annotations

import numpy as np

from apmax._compile import kernel


@kernel
def log_loss(margins, positive, share, slopes):
    """Return Σ share · log(1 + exp(∓z)) and fill `slopes` with its derivatives in z."""
    total = 0.0
    for j in range(margins.size):
        z = margins[j] if positive[j] else -margins[j]
        tail = np.exp(-abs(z))
        total += share[j] * (np.log1p(tail) + max(-z, 0.0))
        wrong = share[j] * (tail if z >= 0 else 1.0) / (1.0 + tail)  # share · σ(−z)
        slopes[j] = -wrong if positive[j] else wrong
    return total


@kernel
def smoothed_log_loss_derivatives(z, positive, share, target_minus, target_plus, slope, offset):
    """Return gradient and Hessian of Σ share · (log(1 + eˣ) − target · x), x = slope·z + offset.

    The gradient is the first two numbers, the Hessian's distinct entries the last three.
    """
    g0 = g1 = h00 = h01 = h11 = 0.0
    for j in range(z.size):
        target = target_plus if positive[j] else target_minus
        x = slope * z[j] + offset
        tail = np.exp(-abs(x))
        sigma = (1.0 if x >= 0 else tail) / (1.0 + tail)
        error = share[j] * (sigma - target)
        g0 += error * z[j]
        g1 += error
        curvature = share[j] * tail / ((1.0 + tail) * (1.0 + tail))
        h00 += curvature * z[j] * z[j]
        h01 += curvature * z[j]
        h11 += curvature
    return g0, g1, h00, h01, h11
