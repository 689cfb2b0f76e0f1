"""Sums over rows that are given by their positions on grids, compiled.

A term has one or two axes (`second` is −1 for one). A position is a fixed-point number: 3.25 lies
between nodes 3 and 4 of an axis, where the term is linear. The values of the nodes of a term begin
at `begin`; nodes of its first axis are `stride` apart.
"""

from __future__ import annotations

import numpy as np

from apmax._compile import inner_kernel, kernel

BITS = 23
"""Bits of the fraction of a position, which leaves nine for the node."""
UNIT, FRACTION = 2.0**-BITS, (1 << BITS) - 1


@inner_kernel
def node_and_share(position):
    """Return the node below a position, and the weight of the node above it."""
    return position >> BITS, (position & FRACTION) * UNIT


@kernel
def add_terms(places, first, second, begin, stride, values, out):
    """Fill `out` with the sum of the terms of each row, from their values at the nodes."""
    for j in range(places.shape[0]):
        total = 0.0
        for k in range(first.size):
            left, share = node_and_share(np.int64(places[j, first[k]]))
            at, step = begin[k] + left * stride[k], stride[k]
            if second[k] < 0:
                total += (1.0 - share) * values[at] + share * values[at + step]
                continue
            below, across = node_and_share(np.int64(places[j, second[k]]))
            at += below
            total += (1.0 - share) * ((1.0 - across) * values[at] + across * values[at + 1])
            at += step
            total += share * ((1.0 - across) * values[at] + across * values[at + 1])
        out[j] = total


@kernel
def add_slopes(places, first, second, begin, stride, slopes, sums):
    """Add the slope of each row to the nodes around it: the transpose of `add_terms`."""
    for j in range(places.shape[0]):
        slope = slopes[j]
        for k in range(first.size):
            left, share = node_and_share(np.int64(places[j, first[k]]))
            at, step = begin[k] + left * stride[k], stride[k]
            if second[k] < 0:
                sums[at] += slope * (1.0 - share)
                sums[at + step] += slope * share
                continue
            below, across = node_and_share(np.int64(places[j, second[k]]))
            at += below
            sums[at] += slope * (1.0 - share) * (1.0 - across)
            sums[at + 1] += slope * (1.0 - share) * across
            at += step
            sums[at] += slope * share * (1.0 - across)
            sums[at + 1] += slope * share * across
