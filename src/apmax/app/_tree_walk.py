"""Sum of the leaves that rows reach in an ensemble of decision trees."""

from __future__ import annotations

import math

import numpy as np

from apmax._compile import kernel


@kernel
def add_leaves(begin, end, X, single, roots, code, value, right, bit_offsets, bits, out):
    """Add the leaf values of all trees to out[begin:end]; arrays as in `TreeEnsemble`."""
    for root in roots:
        for row in range(begin, end):
            node = root
            while code[node] >= 0:
                x = X[row, code[node] >> 2]
                if math.isnan(x):
                    goes_left = code[node] & 1 == 1
                elif code[node] & 2 == 0:
                    goes_left = (np.float64(np.float32(x)) if single else x) <= value[node]
                else:
                    first = bit_offsets[np.int64(value[node])]
                    words = bit_offsets[np.int64(value[node]) + 1] - first
                    goes_left = False
                    if 0 <= x < 32 * words:
                        category = np.int64(x)
                        goes_left = (bits[first + (category >> 5)] >> (category & 31)) & 1 == 1
                node = node + 1 if goes_left else right[node]
            out[row] += value[node]
