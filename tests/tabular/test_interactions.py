"""Functions of two columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from apmax import average_precision
from apmax.tabular.effects import PairEffect
from apmax.tabular.interactions import NUMBERS_TRIED
from tests.tabular.additive_table import PLAIN, TEST, TRAIN, N, X, Y

RNG = np.random.default_rng(1)
FIRST, SECOND, NOISE = RNG.normal(size=(3, N))
SIDE = RNG.choice(["left", "right"], N)
PAIRED = pd.DataFrame({"a": FIRST, "b": SECOND, "noise": NOISE, "side": SIDE})
PRODUCT = RNG.random(N) < 1 / (1 + np.exp(-4 * np.tanh(FIRST * SECOND) + 1))
TURNED = RNG.random(N) < 1 / (1 + np.exp(-3 * FIRST * np.where(SIDE == "left", 1, -1) + 1))


def pairs(model: object) -> list[str]:
    functions = model.shape_functions_  # type: ignore[attr-defined]
    return [name for name, one in functions.items() if isinstance(one, PairEffect)]


@pytest.mark.parametrize(
    ("labels", "name"), [(PRODUCT, "a × b"), (TURNED, "a × side")], ids=["numbers", "category"]
)
def test_a_pair_that_matters_is_found(labels: np.ndarray, name: str) -> None:
    without = clone(PLAIN).fit(PAIRED[TRAIN], labels[TRAIN])
    one = clone(PLAIN).set_params(interactions=1).fit(PAIRED[TRAIN], labels[TRAIN])
    assert pairs(one) == [name]
    gain = one.score(PAIRED[TEST], labels[TEST]) - without.score(PAIRED[TEST], labels[TEST])
    assert gain > 0.2


def test_auto_finds_a_pair_that_matters() -> None:
    model = clone(PLAIN).set_params(interactions="auto", cv=3).fit(PAIRED[TRAIN], PRODUCT[TRAIN])
    assert pairs(model)[0] == "a × b"
    assert 1 <= len(pairs(model)) <= min(NUMBERS_TRIED[0], 6)  # four columns have six pairs


def test_auto_adds_none_to_an_additive_table() -> None:
    model = clone(PLAIN).set_params(interactions="auto", cv=3).fit(X[TRAIN], Y[TRAIN])
    assert pairs(model) == []


def test_there_are_no_more_pairs_than_columns_allow() -> None:
    model = clone(PLAIN).set_params(interactions=100).fit(PAIRED[TRAIN], PRODUCT[TRAIN])
    assert len(pairs(model)) == 6
    single = clone(PLAIN).set_params(interactions=3).fit(PAIRED[["a"]], PRODUCT)
    assert pairs(single) == []


def test_the_sign_of_a_product_is_seen_in_its_corners() -> None:
    model = clone(PLAIN).set_params(interactions=1).fit(PAIRED, PRODUCT)
    effect = model.shape_functions_["a × b"].effect
    assert min(effect[0, 0], effect[-1, -1]) > 1 > -1 > max(effect[0, -1], effect[-1, 0])


def test_the_same_pairs_are_found_again() -> None:
    model = clone(PLAIN).set_params(interactions=3)
    first, second = (clone(model).fit(PAIRED, PRODUCT) for _ in range(2))
    assert pairs(first) == pairs(second)
    np.testing.assert_array_equal(first.decision_function(PAIRED), second.decision_function(PAIRED))


def test_a_column_with_one_value_besides_missing_ones_is_in_no_pair() -> None:
    table = PAIRED.assign(seldom=np.where(RNG.random(N) < 0.3, np.nan, 7.0))
    model = clone(PLAIN).set_params(interactions=3).fit(table, PRODUCT)
    assert all("seldom" not in name for name in pairs(model))
    assert np.isfinite(model.decision_function(table)).all()


def test_a_number_that_is_mostly_0_can_be_in_a_pair() -> None:
    spike = np.where(RNG.random(N) < 0.97, 0.0, 5.0)
    table = pd.DataFrame({"spike": spike, "a": FIRST})
    model = clone(PLAIN).set_params(interactions=1).fit(table, PRODUCT)
    (name,) = pairs(model)
    assert model.shape_functions_[name].first.size >= 2
    assert np.isfinite(model.decision_function(table)).all()


def test_pairs_are_not_judged_by_rows_that_chose_them() -> None:
    """Pairs of noise that are chosen by all labels would look useful on held-out rows."""
    gaps = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=(1400, 15))
        y = rng.random(1400) < 1 / (1 + np.exp(2 - noise[:, 0]))
        model = clone(PLAIN).set_params(interactions=20, cv=5).fit(noise[:400], y[:400])
        held_out = average_precision(y[:400], model.out_of_fold_)
        gaps.append(held_out - model.score(noise[400:], y[400:]))
    assert np.mean(gaps) < 0.03  # 0.14 with pairs chosen by all rows


def test_columns_that_rank_rows_alike_are_one_in_pairs() -> None:
    charge = np.round(np.exp(FIRST), 3)  # increasing, with a few ties
    table = PAIRED.assign(charge=charge, opposite=-SECOND)
    model = clone(PLAIN).set_params(interactions=20)
    with pytest.warns(UserWarning, match="rank rows like another one") as caught:
        model.fit(table, PRODUCT)
    assert caught[0].filename == __file__
    used = {name for pair in pairs(model) for name in pair.split(" × ")}
    assert len(used & {"a", "charge"}) == len(used & {"b", "opposite"}) == 1
    assert len(pairs(model)) == 6
    assert {"a", "b", "charge", "opposite"} <= set(model.shape_functions_)


def test_pairs_of_sampled_rows_are_not_judged_by_them_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apmax.tabular.interactions.MOST_ROWS", 300)
    gaps = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=(1400, 15))
        y = rng.random(1400) < 1 / (1 + np.exp(2 - noise[:, 0]))
        model = clone(PLAIN).set_params(interactions=20, cv=5).fit(noise[:400], y[:400])
        held_out = average_precision(y[:400], model.out_of_fold_)
        gaps.append(held_out - model.score(noise[400:], y[400:]))
    assert np.mean(gaps) < 0.03
