"""The fast full-batch objective against the pairwise oracle, and its invariances."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apmax import _compile, surrogate_ap
from apmax.objective import _logistic
from apmax.objective._hinge import HingeSums, correct_top_rows
from apmax.objective._logistic import MAX_EXPONENT, FewSigmoidSums, SigmoidSums
from apmax.objective._pair_sums import DirectSums, Examples
from apmax.objective.exact import _pair_sums
from apmax.objective.surrogates import LOGISTIC, SQUARED_HINGE, Surrogate, resolve
from apmax.validation import Floats, Mask
from tests.examples import CASE_NAMES, CASES, Case, awkward_cases, labelled_scores
from tests.oracle import equations

NAMES = ("squared_hinge", "logistic")
GAMMAS = (1e-3, 0.1, 1.0, 20.0, 1e3)
RELATIVE_ERROR = {"squared_hinge": 1e-10, "logistic": 1e-7}
Example = tuple[Floats, Mask]


def assert_equals_oracle(case: Case, name: str, gamma: float) -> None:
    """Value and gradient within the promised error of the oracle in extended precision.

    Where the terms of the gradient cancel to (nearly) nothing, the rounding of the terms
    themselves is all that can be asked for.
    """
    surrogate = resolve(name)
    weight = None if case.weight is None else case.weight / case.weight.max()
    wide = case.scores.astype(np.longdouble)
    value = -equations.objective(wide, case.positive, surrogate, gamma, weight)
    gradient = -equations.objective_gradient(wide, case.positive, surrogate, gamma, weight)
    rounding = 1e-15 * largest_term(case, surrogate, gamma, weight)
    for most_pairs in (0, 1 << 30) if name == "logistic" else (0,):  # by the mesh, and by pairs
        with mock.patch.object(_logistic, "MOST_PAIRS", most_pairs):
            actual = surrogate_ap(
                case.scores, case.positive, surrogate=name, gamma=gamma, sample_weight=case.weight
            )
        assert actual.value == pytest.approx(value, rel=RELATIVE_ERROR[name])
        error = np.abs(actual.gradient - gradient).max()
        assert error <= RELATIVE_ERROR[name] * np.abs(gradient).max() + rounding


def largest_term(case: Case, surrogate: Surrogate, gamma: float, weight: Floats | None) -> float:
    """An upper bound on |∂f/∂g · ℓ′| summed over the pairs of one example."""
    g = equations.inner_values(case.scores, case.positive, surrogate, gamma, weight)
    slopes = surrogate.slope(case.scores - case.scores[case.positive, None], gamma)
    return float((slopes / np.maximum(g[:, 1:] * case.scores.size, 1e-300)).max())


@pytest.mark.parametrize("case", CASES, ids=CASE_NAMES)
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("name", NAMES)
def test_value_and_gradient_equal_the_oracle(case: Case, name: str, gamma: float) -> None:
    assert_equals_oracle(case, name, gamma)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", [*awkward_cases(seed=1, n=1500)], ids=CASE_NAMES)
def test_value_and_gradient_equal_the_oracle_on_dense_data(case: Case, name: str) -> None:
    assert_equals_oracle(case, name, 3.0)


@given(labelled_scores(), st.sampled_from(NAMES), st.sampled_from(GAMMAS))
def test_value_and_gradient_of_small_examples(example: Example, name: str, gamma: float) -> None:
    assert_equals_oracle(Case("small", *example), name, gamma)


def test_a_perfect_separation_is_one_and_needs_no_change() -> None:
    result = surrogate_ap([3.0, 2.0, 0.0, -1.0], [1, 1, 0, 0], gamma=0.5)
    assert result.value == 1.0
    np.testing.assert_array_equal(result.gradient, 0.0)


def test_scores_of_any_size_go_through_the_logistic() -> None:
    scores = np.array([-1.7e308, -3.0, 0.0, 1.0, 1e300, 1.7e308])
    result = surrogate_ap(scores, [0, 0, 1, 0, 0, 1], surrogate="logistic", gamma=1e3)
    assert result.value == pytest.approx(((0.5 + 1) / (0.5 + 1 + 2) + 1) / 2, rel=1e-12)
    assert np.isfinite(result.gradient).all()


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_the_squared_hinge_does_not_depend_on_units(scale: float) -> None:
    case = CASES[0]
    plain = surrogate_ap(case.scores, case.positive, gamma=0.5)
    scaled = surrogate_ap(case.scores * scale, case.positive, gamma=0.5 * scale)
    assert scaled.value == pytest.approx(plain.value, rel=1e-12)
    np.testing.assert_allclose(scaled.gradient * scale, plain.gradient, rtol=1e-9, atol=1e-15)


# --- invariances ---------------------------------------------------------------------------


@given(labelled_scores(), st.sampled_from(NAMES), st.integers(-(10**6), 10**6))
def test_a_shift_of_all_scores_changes_nothing(example: Example, name: str, shift: int) -> None:
    scores, positive = example  # multiples of 1/8: the shift is exact
    here = surrogate_ap(scores, positive, surrogate=name, gamma=0.7)
    there = surrogate_ap(scores + shift, positive, surrogate=name, gamma=0.7)
    assert there.value == pytest.approx(here.value, rel=1e-9)
    scale = np.abs(here.gradient).max()
    np.testing.assert_allclose(there.gradient, here.gradient, rtol=0, atol=1e-9 * scale + 1e-15)


@given(labelled_scores(), st.sampled_from(NAMES))
def test_the_gradient_sums_to_zero_because_shifts_change_nothing(
    example: Example, name: str
) -> None:
    gradient = surrogate_ap(*example, surrogate=name, gamma=0.7).gradient
    assert abs(gradient.sum()) <= 1e-8 * np.abs(gradient).sum() + 1e-15


@given(labelled_scores(), st.sampled_from(NAMES), st.data())
def test_a_permutation_permutes_the_gradient(
    example: Example, name: str, data: st.DataObject
) -> None:
    scores, positive = example
    order = np.array(data.draw(st.permutations(range(scores.size))))
    here = surrogate_ap(scores, positive, surrogate=name, gamma=0.7)
    there = surrogate_ap(scores[order], positive[order], surrogate=name, gamma=0.7)
    assert there.value == pytest.approx(here.value, rel=1e-12)
    np.testing.assert_allclose(there.gradient, here.gradient[order], rtol=1e-7, atol=1e-13)


@given(labelled_scores(), st.sampled_from(NAMES), st.integers(2, 4))
def test_duplicated_data_leaves_the_value_unchanged(
    example: Example, name: str, copies: int
) -> None:
    scores, positive = example
    here = surrogate_ap(scores, positive, surrogate=name, gamma=0.7)
    there = surrogate_ap(
        np.tile(scores, copies), np.tile(positive, copies), surrogate=name, gamma=0.7
    )
    assert there.value == pytest.approx(here.value, rel=1e-9)
    together = there.gradient.reshape(copies, -1).sum(axis=0)
    scale = np.abs(here.gradient).max()
    np.testing.assert_allclose(together, here.gradient, rtol=0, atol=1e-8 * scale + 1e-13)


@given(labelled_scores(), st.sampled_from(NAMES), st.data())
def test_a_weight_counts_like_repetition(example: Example, name: str, data: st.DataObject) -> None:
    scores, positive = example
    counts = st.lists(st.integers(0, 3), min_size=scores.size, max_size=scores.size)
    weight = np.array(data.draw(counts))
    weight[np.flatnonzero(positive)[0]] = 2
    repeated = np.repeat(np.arange(scores.size), weight)
    here = surrogate_ap(scores, positive, surrogate=name, gamma=0.7, sample_weight=weight)
    there = surrogate_ap(scores[repeated], positive[repeated], surrogate=name, gamma=0.7)
    assert here.value == pytest.approx(there.value, rel=1e-9)
    summed = np.bincount(repeated, there.gradient, minlength=scores.size)
    scale = np.abs(here.gradient).max()
    np.testing.assert_allclose(here.gradient, summed, rtol=0, atol=1e-8 * scale + 1e-13)


# --- the algorithms one by one -------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=CASE_NAMES)
@pytest.mark.parametrize("fast", [HingeSums, SigmoidSums, FewSigmoidSums])
def test_every_algorithm_sums_the_same_pairs(case: Case, fast: type) -> None:
    surrogate = SQUARED_HINGE if fast is HingeSums else LOGISTIC
    weight = None if case.weight is None else case.weight / case.weight.max()
    examples = Examples.of(case.scores, case.positive, weight)
    if fast is FewSigmoidSums and 2.0 * (examples.high - examples.low) > MAX_EXPONENT:
        pytest.skip("scores too far apart for it")
    quick, direct = fast(examples, 2.0), DirectSums(examples, 2.0, surrogate)
    tolerance = 1e-8 if fast is SigmoidSums else 1e-12
    to_order = np.argsort(direct.order)[np.searchsorted(direct.order, quick.order)]
    for name, mine, theirs in zip(quick.rows()._fields, quick.rows(), direct.rows(), strict=True):
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(
            mine, theirs[to_order], rtol=tolerance, atol=tolerance * scale, err_msg=name
        )
    rng = np.random.default_rng(0)
    a, b = rng.random((2, quick.order.size))
    back = np.argsort(quick.order)
    expected = direct.vjp(a[back], b[back])
    np.testing.assert_allclose(
        quick.vjp(a, b), expected, rtol=0, atol=tolerance * np.abs(expected).max()
    )


def test_few_pairs_are_summed_one_by_one_and_many_by_the_mesh() -> None:
    for n, high, expected in (
        (1000, 1.0, FewSigmoidSums),
        (1000, 1e3, SigmoidSums),
        (5000, 1.0, SigmoidSums),
        (20_000, 1.0, SigmoidSums),  # few pairs, but long sums
    ):
        scores = np.linspace(0, high, n)
        examples = Examples.of(scores, np.arange(n) % (n // 10 if n > 5000 else 10) == 0, None)
        assert type(_pair_sums(examples, LOGISTIC, 1.0)) is expected
    huge = Examples.of(np.array([-1.7e308, 0.0, 1.7e308]), np.array([True, False, True]), None)
    assert type(_pair_sums(huge, LOGISTIC, 1.0)) is SigmoidSums


def test_dense_scores_are_in_the_mesh_and_others_are_nodes_of_their_own() -> None:
    scores = np.linspace(0, 1, 3200)
    positive = scores > 0.5
    dense = SigmoidSums(Examples.of(scores, positive, None), 10.0)
    assert dense.cells in (80, 81)
    assert dense.plus.outside.size + dense.minus.outside.size == 0
    thin = SigmoidSums(Examples.of(scores, positive, None), 1e4)
    assert thin.cells == 0
    assert thin.plus.outside.size + thin.minus.outside.size == 3200
    scores[[3, 3199]] = [-1e300, 77.0]
    mixed = SigmoidSums(Examples.of(scores, positive, None), 10.0)
    assert mixed.cells > 0
    assert mixed.minus.outside.tolist() == [3]
    assert mixed.order[mixed.plus.outside].tolist() == [3199]


def outlier_cases() -> list[Case]:
    rng = np.random.default_rng(5)
    n = 2000
    positive = rng.random(n) < 0.2
    tails = rng.standard_cauchy(n)
    near = rng.random(n)
    near[:5] = [-0.2, -0.01, 1.01, 1.3, 1e4]  # around the edges of the mesh
    clusters = np.where(np.arange(n) % 3 == 0, -1e6, 1e6) + rng.normal(size=n)
    lone = np.where(np.arange(n) == 7, 1e9, near)
    return [
        Case("heavy tails", tails, positive),
        Case("near the edges", near, positive),
        Case("two far clusters", clusters, positive, rng.random(n)),
        Case("one outlier", lone, positive),
        Case("one positive outlier", lone, np.arange(n) == 7),
    ]


@pytest.mark.parametrize("gamma", [1.0, 5.0, 60.0])
@pytest.mark.parametrize("case", outlier_cases(), ids=lambda case: case.name)
def test_outliers_of_the_mesh_are_summed_too(case: Case, gamma: float) -> None:
    assert_equals_oracle(case, "logistic", gamma)


@pytest.mark.parametrize("gamma", [1e-3, 1e-2, 0.1])
@pytest.mark.parametrize("shift", [0.0, 1e6, 1e9])
def test_scores_on_a_grid_of_the_margin_keep_their_digits(gamma: float, shift: float) -> None:
    """The worst case for ranking by s + γ: every score is at the edge of another's reach."""
    rng = np.random.default_rng(0)
    scores = gamma * rng.integers(0, 40, 300) + shift
    scores[0] = -shift
    assert_equals_oracle(Case("grid", scores, rng.random(300) < 0.3), "squared_hinge", gamma)


@pytest.mark.parametrize("name", NAMES)
def test_a_copied_surrogate_is_as_fast_as_the_original(name: str) -> None:
    for copied in (copy.deepcopy(resolve(name)), pickle.loads(pickle.dumps(resolve(name)))):
        chosen = _pair_sums(Examples.of(np.zeros(3), np.array([True] * 3), None), copied, 1.0)
        assert not isinstance(chosen, DirectSums)


@pytest.mark.parametrize("name", NAMES)
def test_one_and_two_threads_give_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(awkward_cases(n=5000))
    plain = surrogate_ap(case.scores, case.positive, surrogate=name, gamma=3.0)
    monkeypatch.setattr(_compile, "THREADS_FROM", 100)
    results = []
    for threads in (1, 2):
        monkeypatch.setattr(_compile, "_threads", lambda threads=threads: threads)
        results.append(surrogate_ap(case.scores, case.positive, surrogate=name, gamma=3.0))
    assert results[0].value == results[1].value == pytest.approx(plain.value, rel=1e-12)
    np.testing.assert_array_equal(results[0].gradient, results[1].gradient)
    np.testing.assert_allclose(results[0].gradient, plain.gradient, rtol=1e-9, atol=1e-15)


class CountedRows(np.ndarray[Any, Any]):
    """An array that counts how many of its entries are read."""

    reads = 0

    def __getitem__(self, place: Any) -> Any:
        self.reads += 1
        return super().__getitem__(place)


@pytest.mark.parametrize("m", [100, 10_000])
def test_many_ties_far_from_zero_take_a_logarithmic_number_of_reads_each(m: int) -> None:
    """A walk over the ties would read all m of them for each score."""
    kernel: Any = correct_top_rows
    scores = np.concatenate([np.ones(20), np.zeros(20)])
    rows_below = np.repeat([0, m], 20).astype(np.int32)  # all are miscounted
    rows = np.ones(m).view(CountedRows)
    getattr(kernel, "py_func", kernel)(0, scores.size, scores, rows, 1.0, rows_below)
    np.testing.assert_array_equal(rows_below, np.repeat([m, 0], 20))
    assert rows.reads <= scores.size * (3 + np.log2(m))


def test_memory_grows_with_the_number_of_examples_not_of_pairs() -> None:
    def peak(m: int) -> int:
        scores = np.concatenate([np.ones(m), np.zeros(m), [2e4]])
        positive = np.arange(2 * m + 1) < m
        tracemalloc.start()
        try:
            surrogate_ap(scores, positive, gamma=1.0)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)  # compiles
    assert peak(80_000) < 12 * peak(10_000)


@pytest.mark.parametrize(("surrogate", "gamma"), [("squared_hinge", 0.1), ("logistic", 20.0)])
def test_each_surrogate_has_a_gamma_of_its_own(surrogate: str, gamma: float) -> None:
    scores, y = [0.9, 0.8, 0.4, 0.35], [1, 0, 1, 0]
    default = surrogate_ap(scores, y, surrogate=surrogate).value
    assert default == surrogate_ap(scores, y, surrogate=surrogate, gamma=gamma).value
