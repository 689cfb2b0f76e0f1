"""What can be known of the columns of a CSR matrix in one pass over its entries."""

from __future__ import annotations

from apmax._compile import kernel


@kernel
def extent_of_columns(indices, data, rows, stored, lowest, highest):
    """Fill the least and the largest value of each column, of `rows` rows.

    All three tables are zeros at first; entries that are not stored are zeros too.
    """
    for p in range(indices.size):
        k, x = indices[p], data[p]
        if stored[k] == 0 or x < lowest[k]:
            lowest[k] = x
        if stored[k] == 0 or x > highest[k]:
            highest[k] = x
        stored[k] += 1
    for k in range(stored.size):
        if stored[k] < rows:
            lowest[k] = min(lowest[k], 0.0)
            highest[k] = max(highest[k], 0.0)
