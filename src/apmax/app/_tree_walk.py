"""Sum of the leaves that rows reach in an ensemble of decision trees."""

from __future__ import annotations

import numpy as np

from apmax._compile import kernel

NODE = np.dtype([("value", "f8"), ("code", "i4"), ("right", "i4")])
"""All that a step reads, in one place of memory."""


@kernel
def add_leaves(begin, end, X, roots, nodes, bit_offsets, bits, out):
    """Add the leaf values of all trees to out[begin:end]; fields as in `TreeEnsemble`."""
    for root in roots:
        for row in range(begin, end):
            place = root
            node = nodes[place]
            while node.code >= 0:
                x = X[row, node.code >> 2]
                missing_left = (x != x) & (node.code & 1 == 1)  # noqa: PLR0124
                if node.code & 2 == 0:
                    goes_left = (x <= node.value) | missing_left
                else:
                    of_set = np.int64(node.value)
                    first = bit_offsets[of_set]
                    goes_left = missing_left
                    if 0 <= x < 32 * (bit_offsets[of_set + 1] - first):
                        category = np.int64(x)
                        goes_left = (bits[first + (category >> 5)] >> (category & 31)) & 1 == 1
                # Arithmetic instead of a branch, which processors guess wrong half of the time.
                place = node.right + goes_left * (place + 1 - node.right)
                node = nodes[place]
            out[row] += node.value
