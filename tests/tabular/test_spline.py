"""Smooth functions of one number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import ndtri

from apmax.tabular.spline import GRID, TAIL, SplineBasis

RNG = np.random.default_rng(0)
SMOOTH = RNG.normal(size=2000)
STRETCHED: dict[str, Any] = {
    "exp": np.exp,
    "cube": lambda x: x**3,
    "shrunk": lambda x: 1e-9 * x + 5,
    "heavy tails": lambda x: np.sinh(5 * x),
    "huge": lambda x: 1e300 * x,
}
numbers = st.lists(st.integers(-50, 50), min_size=3, max_size=80)


def basis_of(x: Any, weight: Any = None) -> SplineBasis:
    found = SplineBasis.fit(np.asarray(x, float), weight)
    assert found is not None
    return found


@given(values=numbers.filter(lambda values: len(set(values)) > 1))
def test_functions_of_the_data_depend_on_ranks_only(values: list[int]) -> None:
    x = np.array(values, dtype=float)
    expected = basis_of(x)(x)
    for stretched in (x**3, np.exp(x / 10), 1e12 * x - 7):
        np.testing.assert_allclose(basis_of(stretched)(stretched), expected, atol=1e-12)


@pytest.mark.parametrize("name", STRETCHED)
def test_with_more_values_than_grid_points_this_holds_at_the_grid(name: str) -> None:
    plain, stretched = basis_of(SMOOTH), basis_of(STRETCHED[name](SMOOTH))
    assert plain.grid.size <= GRID < SMOOTH.size
    np.testing.assert_allclose(stretched.grid, STRETCHED[name](plain.grid))
    # The means over the data, which are subtracted, include what lies between the grid points.
    differences = np.diff(stretched.table, axis=0) - np.diff(plain.table, axis=0)
    np.testing.assert_allclose(differences, 0, atol=1e-9)
    np.testing.assert_allclose(stretched.table, plain.table, atol=0.02)


@given(
    values=numbers.filter(lambda values: len(set(values)) > 1),
    counts=st.lists(st.integers(0, 4), min_size=80, max_size=80),
)
def test_weights_count_rows(values: list[int], counts: list[int]) -> None:
    x, count = np.array(values, dtype=float), np.array(counts[: len(values)])
    repeated = np.repeat(x, count)
    assume(np.unique(repeated).size > 1)
    expected, actual = basis_of(repeated), basis_of(x, count.astype(float))
    np.testing.assert_array_equal(actual.grid, expected.grid)
    np.testing.assert_allclose(actual.table, expected.table, atol=1e-12)


@pytest.mark.parametrize("x", [SMOOTH, np.round(SMOOTH), np.exp(4 * SMOOTH)], ids=str)
@pytest.mark.parametrize("weight", [None, RNG.random(2000)], ids=["plain", "weighted"])
def test_every_function_has_mean_0_over_the_data(x: Any, weight: Any) -> None:
    mean = np.average(basis_of(x, weight)(x), axis=0, weights=weight)
    np.testing.assert_allclose(mean, 0, atol=1e-12)


@pytest.mark.parametrize("distinct", [3, 5, 10, 11, 40, GRID])
def test_splines_can_represent_a_line(distinct: int) -> None:
    """B-splines sum to 1, so without their means they have a rank of one less."""
    x = np.arange(distinct, dtype=float)
    functions = basis_of(x)(x)
    z = ndtri((x + 0.5) / distinct)
    fitted = functions[:, 1:] @ np.linalg.lstsq(functions[:, 1:], z - z.mean(), rcond=None)[0]
    np.testing.assert_allclose(fitted, z - z.mean(), atol=1e-9)
    assert np.linalg.matrix_rank(functions) == functions.shape[1] - 2


@pytest.mark.parametrize("distinct", range(2, 11))
def test_few_distinct_values_have_any_effect(distinct: int) -> None:
    x = np.arange(distinct, dtype=float)
    effect = RNG.normal(size=distinct)
    effect -= effect.mean()
    functions = basis_of(x)(x)
    coefficients = np.linalg.lstsq(functions, effect, rcond=None)[0]
    np.testing.assert_allclose(functions @ coefficients, effect, atol=1e-8)


def test_the_linear_function_is_the_normal_score_of_the_middle_rank() -> None:
    linear = basis_of(SMOOTH)
    rank = np.searchsorted(np.sort(SMOOTH), linear.grid) + 0.5
    expected = ndtri(np.clip(rank / SMOOTH.size, TAIL, 1 - TAIL))
    np.testing.assert_allclose(np.diff(linear.table[:, 0]), np.diff(expected), atol=1e-9)


def test_functions_are_constant_outside_the_data() -> None:
    basis = basis_of(SMOOTH)
    inside = basis(np.array([SMOOTH.min(), SMOOTH.max()]))
    np.testing.assert_array_equal(basis(np.array([-1e300, 1e300])), inside)


def test_missing_values_are_0_in_every_function() -> None:
    assert not basis_of(SMOOTH)(np.array([np.nan])).any()


def test_outliers_do_not_change_the_functions_of_the_others() -> None:
    far = SMOOTH.copy()
    far[:3] = [1e12, -1e12, 1e250]
    plain, with_outliers = basis_of(SMOOTH)(SMOOTH[3:]), basis_of(far)(SMOOTH[3:])
    np.testing.assert_allclose(with_outliers, plain, atol=0.6)  # the outermost grid interval
    inner = np.abs(SMOOTH[3:]) < 2
    np.testing.assert_allclose(with_outliers[inner], plain[inner], atol=0.03)


def test_numbers_at_the_limits_of_double_precision_have_finite_functions() -> None:
    x = np.concatenate([SMOOTH, [-1e300, 1e300]])
    assert np.isfinite(basis_of(x)(x)).all()
    assert np.isfinite(basis_of([-1e300, 5e-324, 1e300])(np.array([-1e-323, 0.0, 1e300]))).all()


RARE: dict[str, tuple[Any, Any]] = {
    "mostly 0": (np.concatenate([np.zeros(99_980), np.arange(1, 21)]), None),
    "two values and one more": (np.repeat([0.0, 1.0, 2.0], [5000, 5000, 1]), None),
    "hardly a weight on the last": (np.arange(20.0), np.repeat([1.0, 1e-20], [19, 1])),
    "hardly a weight on the first": (np.arange(20.0), np.repeat([1e-20, 1.0], [1, 19])),
    "hardly a weight on many": (np.arange(500.0), np.repeat([1.0, 1e-20], [400, 100])),
}


@pytest.mark.parametrize("name", RARE)
def test_rare_values_have_finite_functions(name: str) -> None:
    x, weight = RARE[name]
    basis = basis_of(x, weight)
    assert np.isfinite(basis(x)).all()
    assert (basis.grid[0], basis.grid[-1]) == (x.min(), x.max())


def test_a_frequent_value_leaves_knots_for_the_others() -> None:
    """Half of the values are 0; a step among the others can be told from a line."""
    x = np.concatenate([np.zeros(500), RNG.exponential(size=500)])
    step = (x > 1).astype(float)
    functions = np.column_stack([np.ones(x.size), x > 0, basis_of(x)(x)])

    def residual(columns: Any) -> float:
        return float(np.mean((step - columns @ np.linalg.lstsq(columns, step, rcond=None)[0]) ** 2))

    assert residual(functions) < 0.3 * residual(functions[:, :3])


def test_equal_values_have_no_function() -> None:
    assert SplineBasis.fit(np.ones(9), None) is None
    assert SplineBasis.fit(np.empty(0), None) is None
    assert SplineBasis.fit(np.array([1.0, 2.0]), np.array([1.0, 0.0])) is None


def test_a_linear_basis_has_one_function() -> None:
    linear = SplineBasis.fit(SMOOTH, None, linear=True)
    assert linear is not None
    np.testing.assert_allclose(linear.table, basis_of(SMOOTH).table[:, :1], atol=1e-12)
