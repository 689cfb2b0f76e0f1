"""Rows of a table as positions on the grids of an additive model.

Between the nodes of its grid, every basis function is linear (in two columns: bilinear). A position
per grid therefore replaces the dozen basis functions of a column, and a sum of terms is an
interpolation between their values at the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from apmax.scale.blocks import Block, Engine
from apmax.tabular.columns import UNKNOWN, Columns, Table
from apmax.tabular.effects import Margin
from apmax.tabular.spline import Interpolation
from apmax.tabular.terms import Term
from apmax.validation import Floats

T = TypeVar("T")


class Grids:
    """The grids of some terms, and their basis functions at the nodes.

    The last node but one of an axis stands for missing values and new categories. The last one is
    never reached, and spares the sums a case for positions at the end.
    """

    def __init__(self, columns: Columns, terms: Sequence[Term]) -> None:
        self.columns = columns
        self.axes: list[Margin] = []
        places: list[tuple[int, int, int, int]] = []
        nodes, begin = [], 0
        for term in terms:
            first, second = (*map(self._place, term.axes), -1)[:2]
            stride = 1 if second < 0 else self.axes[second].size + 2
            places.append((first, second, begin, stride))
            nodes.append(sp.csr_array(term(_at_nodes(columns, term.axes))))
            begin += nodes[-1].shape[0]
        self.places = tuple(np.array(places, np.int64).T.copy())
        """First and second axis, first node and stride of each term."""
        self.nodes = sp.csr_array(sp.block_diag(nodes))
        """Basis functions at the nodes, shape (nodes, functions)."""

    @property
    def functions(self) -> int:
        """Return the number of basis functions."""
        return int(self.nodes.shape[1])

    def positions(self, X: Any) -> NDArray[np.uint32]:
        """Return the position of each row on each axis."""
        table = self.columns.transform(X)
        return np.column_stack([_positions(axis, table) for axis in self.axes])

    def _place(self, axis: Margin) -> int:
        known = [k for k, one in enumerate(self.axes) if one is axis]
        if not known:
            self.axes.append(axis)
        return known[0] if known else len(self.axes) - 1


class GridRows(LinearOperator):  # type: ignore[misc]
    """The matrix of basis functions of some rows, for products with vectors."""

    def __init__(self, positions: NDArray[np.uint32], grids: Grids) -> None:
        super().__init__(np.dtype(np.float64), (positions.shape[0], grids.functions))
        self.positions, self.grids = positions, grids

    def _matvec(self, w: Floats) -> Floats:
        from apmax.tabular._grid_sums import add_terms

        out = np.empty(self.shape[0])
        add_terms(self.positions, *self.grids.places, self.grids.nodes @ w.ravel(), out)
        return out

    def _rmatvec(self, slopes: Floats) -> Floats:
        from apmax.tabular._grid_sums import add_slopes

        sums = np.zeros(self.grids.nodes.shape[0])
        add_slopes(self.positions, *self.grids.places, slopes.ravel(), sums)
        return np.asarray(self.grids.nodes.T @ sums)


class GridBlocks(Engine):
    """Blocks of positions as blocks of basis functions."""

    sparse = True  # two passes: products are cheap, and there are many functions

    def __init__(self, positions: Engine, grids: Grids) -> None:
        self.inner, self.grids, self.features = positions, grids, grids.functions

    def merged(self, call: Callable[[Block], T], merge: Callable[[T, T], T]) -> T:
        """Return the results of a call with each block, merged in their order."""

        def of_positions(block: Block) -> T:
            return call(block._replace(X=GridRows(block.X, self.grids)))

        return self.inner.merged(of_positions, merge)


def _at_nodes(columns: Columns, axes: Sequence[Margin]) -> Table:
    """Return a row for each node, or for each pair of nodes, the last axis fastest."""
    shape = [axis.size + 2 for axis in axes]
    n = int(np.prod(shape))
    numbers = np.full((n, len(columns.numeric)), np.nan)
    codes = np.full((n, len(columns.categorical)), UNKNOWN, np.int64)
    for axis, node in zip(axes, np.indices(shape).reshape(len(axes), -1), strict=True):
        if axis.knots is None:
            codes[:, axis.column] = np.where(node < axis.size, node, UNKNOWN)
        else:
            numbers[:, axis.column] = np.append(axis.knots, [np.nan, np.nan])[node]
    return Table(numbers, codes)


def _positions(axis: Margin, table: Table) -> NDArray[np.uint32]:
    if axis.knots is None:
        codes = table.codes[:, axis.column]
        return _fixed_point(np.where(codes == UNKNOWN, axis.size, codes))
    x = table.numbers[:, axis.column]
    at = np.zeros(x.size)
    if axis.size > 1:
        left, share = Interpolation.of(x, axis.knots)
        at = left + share
    return _fixed_point(np.where(np.isnan(x), axis.size, at))


def _fixed_point(at: NDArray[Any]) -> NDArray[np.uint32]:
    from apmax.tabular._grid_sums import UNIT

    return np.rint(at / UNIT).astype(np.uint32)
