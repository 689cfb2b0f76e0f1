"""Sums over a block of rows in one pass, compiled.

Rows are centred, scaled and converted to doubles in pieces that stay in the cache. There the last
feature is 1 (for the intercept), followed by zeros up to a multiple of `LANES`, so that the inner
loops vectorise without a remainder. No BLAS: the result does not depend on its threads.
"""

from __future__ import annotations

import numpy as np

from apmax._compile import inner_kernel, kernel, reordering_kernel
from apmax.objective._summary import cell_of, score_of

LANES = 8
TOGETHER = 8
"""Rows of one class and cell that are added to its table at once."""
PIECE, PIECE_ENTRIES = 4096, 1 << 17
"""Most rows and most entries of a piece: 1 MB."""


def padded(length: int) -> int:
    """Return the length of a row in a piece: the features, a 1, and zeros."""
    return -(-(length + 1) // LANES) * LANES


@inner_kernel
def new_piece(features, width):
    """Return an empty piece with its column of ones.

    It begins with a cache line; otherwise most vectors that are loaded would lie in two of them.
    """
    rows = max(1, min(PIECE, PIECE_ENTRIES // width))
    memory = np.zeros(rows * width + LANES)
    first = (-memory.ctypes.data % 64) // 8
    piece = memory[first : first + rows * width].reshape(rows, width)
    for j in range(piece.shape[0]):
        piece[j, features] = 1.0
    return piece


@inner_kernel
def fill(piece, X, begin, end, centre, scale):
    """Copy rows begin … end of X, centred and scaled."""
    for j in range(begin, end):
        row = piece[j - begin]
        for k in range(X.shape[1]):
            row[k] = (X[j, k] - centre[k]) * scale[k]


@reordering_kernel
def dot(x, w):
    """Return x·w."""
    total = 0.0
    for k in range(w.size):
        total += x[k] * w[k]
    return total


@kernel
def log_loss_sums(X, positive, weight, centre, scale, w, gradient):
    """Return Σ v log(1 + exp(∓z)) and add its gradient in (w, b)."""
    piece = new_piece(X.shape[1], w.size)
    total = 0.0
    for begin in range(0, X.shape[0], piece.shape[0]):
        end = min(begin + piece.shape[0], X.shape[0])
        fill(piece, X, begin, end, centre, scale)
        for j in range(begin, end):
            x = piece[j - begin]
            margin = dot(x, w)
            z = margin if positive[j] else -margin
            v = weight[j] if weight.size else 1.0
            tail = np.exp(-abs(z))
            total += v * (np.log1p(tail) + max(-z, 0.0))
            wrong = v * (tail if z >= 0 else 1.0) / (1.0 + tail)  # v · σ(−z)
            slope = -wrong if positive[j] else wrong
            for k in range(w.size):
                gradient[k] += slope * x[k]
    return total


@kernel
def margins(X, centre, scale, w, out):
    """Fill `out` with the margin of each row."""
    piece = new_piece(X.shape[1], w.size)
    for begin in range(0, X.shape[0], piece.shape[0]):
        end = min(begin + piece.shape[0], X.shape[0])
        fill(piece, X, begin, end, centre, scale)
        for j in range(begin, end):
            out[j] = dot(piece[j - begin], w)


@kernel
def moment_sums(margins, positive, weight, minus, plus):
    """Add Σ v tᵏ of the scores σ(z) to the table of each class, (cells, terms)."""
    cells = minus.shape[0]
    for j in range(margins.size):
        score = score_of(margins[j])
        cell = cell_of(score, cells)
        t = 2.0 * (score * cells - cell) - 1.0
        moments = plus[cell] if positive[j] else minus[cell]
        term = weight[j] if weight.size else 1.0
        for k in range(moments.size):
            moments[k] += term
            term *= t


@kernel
def slopes_of_margins(margins, positive, weight, of_minus, of_plus, out):
    """Fill `out` with v · s(1 − s) · (polynomial of the class and cell)."""
    cells = of_minus.shape[0]
    for j in range(margins.size):
        score = score_of(margins[j])
        cell = cell_of(score, cells)
        t = 2.0 * (score * cells - cell) - 1.0
        polynomial = of_plus[cell] if positive[j] else of_minus[cell]
        slope = 0.0
        for k in range(polynomial.size - 1, -1, -1):
            slope = slope * t + polynomial[k]
        out[j] = (weight[j] if weight.size else 1.0) * score * (1.0 - score) * slope


@kernel
def vector_moment_sums(X, positive, weight, centre, scale, w, minus, plus, of_minus, of_plus):
    """Add Σ v tᵏ and Σ v s(1 − s) tᵏ·(x, 1) of each class: all that ÂP and its gradient need.

    Tables are (cells, terms) and (cells, terms, padded row). The rows of a piece are sorted by
    class and cell and added eight at a time, which saves most of the traffic to the tables.
    """
    cells = minus.shape[0]
    piece = new_piece(X.shape[1], w.size)
    rows = piece.shape[0]
    scores = np.empty(rows)
    keys, order = np.empty(rows, np.int64), np.empty(rows, np.int64)
    ends = np.empty(2 * cells + 1, np.int64)
    factors = np.empty((max(minus.shape[1], plus.shape[1]), TOGETHER))
    chosen = np.empty(TOGETHER, np.int64)
    for begin in range(0, X.shape[0], rows):
        end = min(begin + rows, X.shape[0])
        fill(piece, X, begin, end, centre, scale)
        for key in range(ends.size):
            ends[key] = 0
        # Loops of their own: the products of a row need not wait for the score of the row before.
        for j in range(end - begin):
            scores[j] = dot(piece[j], w)
        for j in range(end - begin):
            scores[j] = score_of(scores[j])
        for j in range(end - begin):
            keys[j] = cell_of(scores[j], cells) + (cells if positive[begin + j] else 0)
            ends[keys[j] + 1] += 1
        for key in range(2 * cells):
            ends[key + 1] += ends[key]
        for j in range(end - begin):  # afterwards ends[key] is the end of the rows of key
            order[ends[keys[j]]] = j
            ends[keys[j]] += 1
        at = 0
        for key in range(2 * cells):
            cell = key if key < cells else key - cells
            moments = minus[cell] if key < cells else plus[cell]
            vectors = of_minus[cell] if key < cells else of_plus[cell]
            while at < ends[key]:
                present = min(TOGETHER, ends[key] - at)
                for r in range(TOGETHER):
                    chosen[r] = order[at + min(r, present - 1)]
                    score = scores[chosen[r]]
                    t = 2.0 * (score * cells - cell) - 1.0
                    term = 0.0
                    if r < present:
                        term = weight[begin + chosen[r]] if weight.size else 1.0
                    for k in range(moments.size):
                        moments[k] += term
                        factors[k, r] = score * (1.0 - score) * term
                        term *= t
                add_rows(piece, chosen, factors, vectors)
                at += present


@reordering_kernel
def add_rows(piece, rows, factors, vectors):
    """Add factor · row of `TOGETHER` rows to each vector."""
    x0, x1, x2, x3 = piece[rows[0]], piece[rows[1]], piece[rows[2]], piece[rows[3]]
    x4, x5, x6, x7 = piece[rows[4]], piece[rows[5]], piece[rows[6]], piece[rows[7]]
    for k in range(vectors.shape[0]):
        f, out = factors[k], vectors[k]
        f0, f1, f2, f3, f4, f5, f6, f7 = f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]
        for i in range(out.size):
            out[i] += ((f0 * x0[i] + f1 * x1[i]) + (f2 * x2[i] + f3 * x3[i])) + (
                (f4 * x4[i] + f5 * x5[i]) + (f6 * x6[i] + f7 * x7[i])
            )


@kernel
def feature_sums(X, weight, lowest, highest, mean, squares):
    """Fill extent, mean and Σ v (x − mean)² of each feature over rows of positive weight.

    Means and squares of pieces are merged as Chan, Golub and LeVeque (1979) do. Returns Σ v.
    """
    features = X.shape[1]
    rows = max(1, min(PIECE, PIECE_ENTRIES // max(1, features)))
    sums, of_piece = np.empty(features), np.empty(features)
    total = 0.0
    for k in range(features):
        lowest[k], highest[k], mean[k], squares[k] = np.inf, -np.inf, 0.0, 0.0
    for begin in range(0, X.shape[0], rows):
        end = min(begin + rows, X.shape[0])
        mass = 0.0
        for k in range(features):
            sums[k] = 0.0
            of_piece[k] = 0.0
        for j in range(begin, end):
            v = weight[j] if weight.size else 1.0
            if v > 0:
                mass += v
                for k in range(features):
                    x = np.float64(X[j, k])
                    sums[k] += v * x
                    lowest[k] = min(lowest[k], x)
                    highest[k] = max(highest[k], x)
        if mass == 0.0:
            continue
        for k in range(features):
            sums[k] /= mass
        for j in range(begin, end):
            v = weight[j] if weight.size else 1.0
            if v > 0:
                for k in range(features):
                    of_piece[k] += v * (X[j, k] - sums[k]) ** 2
        both = total + mass
        for k in range(features):
            apart = sums[k] - mean[k]
            mean[k] += apart * (mass / both)
            squares[k] += of_piece[k] + apart * apart * (total * mass / both)
        total = both
    return total


@kernel
def histogram_sums(margins, positive, weight, low, per_unit, count, total):
    """Add Σ v and Σ v z of each class and bin; the first and last bin take what lies outside."""
    bins = count.shape[1]
    for j in range(margins.size):
        place = (margins[j] - low) * per_unit
        bin_ = max(0, int(min(max(place + 1.0, 0.0), bins - 1.0)))  # 0 for NaN, too
        v = weight[j] if weight.size else 1.0
        of = 1 if positive[j] else 0
        count[of, bin_] += v
        total[of, bin_] += v * margins[j]
