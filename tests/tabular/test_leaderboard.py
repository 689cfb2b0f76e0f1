"""The leaderboard: order, differences on the same folds, and their standard errors."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest

from apmax.splits import standard_error
from apmax.tabular.leaderboard import Leaderboard, ranked, simplest_within_error

AP = {
    "plain": np.array([0.50, 0.60, 0.70, 0.60]),
    "better": np.array([0.56, 0.64, 0.74, 0.66]),
    "worse": np.array([0.40, 0.50, 0.60, 0.50]),
}
SHARE = 0.25
BOARD = Leaderboard.of(
    AP, dict.fromkeys(AP, 0.5), {"plain": 1.0, "better": 20.0, "worse": 3.0}, SHARE, "better"
)


def test_the_best_model_comes_first() -> None:
    assert [one.model for one in BOARD] == ["better", "plain", "worse"]
    assert [one.ap for one in BOARD] == pytest.approx([0.65, 0.60, 0.50])
    assert [one.seconds for one in BOARD] == [20.0, 1.0, 3.0]


def test_of_models_with_equal_ap_the_one_with_the_lowest_log_loss_comes_first() -> None:
    one = np.ones(2)
    losses = {"simple": 0.03, "sharp": 0.01, "complex": 0.02}
    assert ranked({"worse": one / 2, **dict.fromkeys(losses, one)}, {**losses, "worse": 0.0}) == [
        "sharp", "complex", "simple", "worse",
    ]  # fmt: skip


def test_differences_are_taken_fold_by_fold() -> None:
    assert [one.difference for one in BOARD] == pytest.approx([0.0, -0.05, -0.15])
    assert BOARD[0].difference_se == 0
    # 0.06, 0.04, 0.04, 0.06: the sample variance is 4 · 0.01² / 3
    variance = 4 * 0.01**2 / 3
    assert BOARD[1].difference_se == pytest.approx(math.sqrt((1 / 4 + 1 / 3) * variance))


def test_the_standard_error_is_that_of_nadeau_and_bengio() -> None:
    """(1/J + n_test/n_train)·s² with s² = 2/3·0.1² for 0.5, 0.6, 0.7, 0.6."""
    assert BOARD[1].ap_se == pytest.approx(math.sqrt((1 / 4 + 1 / 3) * 2 / 3 * 0.1**2))


def test_a_single_fold_has_no_standard_error() -> None:
    assert math.isnan(standard_error(np.array([0.5]), 0.2))
    ap = {"plain": np.array([0.5]), "better": np.array([0.6])}
    board = Leaderboard.of(ap, {"plain": 1, "better": 1}, {"plain": 1, "better": 1}, 0.2, "better")
    assert math.isnan(board[0].ap_se)
    assert "nan" not in str(board)
    assert simplest_within_error(["plain", "better"], ap, 0.2) == "better"


def test_the_simplest_model_within_one_standard_error_is_chosen() -> None:
    noisy = {"simple": np.array([0.5, 0.7, 0.6]), "best": np.array([0.6, 0.6, 0.63])}
    # Behind by 0.1, −0.1, 0.03: mean 0.01 and s = 0.1015, so an error of 0.0829
    assert simplest_within_error(["simple", "best"], noisy, 1 / 4) == "simple"
    # Behind by 0.06, 0.04, 0.04, 0.06: mean 0.05 and an error of 0.0088
    assert simplest_within_error(["worse", "plain", "better"], AP, SHARE) == "better"


def test_the_simplest_comes_first_among_equals() -> None:
    same = {"first": np.array([0.5, 0.6]), "second": np.array([0.5, 0.6])}
    assert simplest_within_error(["first", "second"], same, 0.5) == "first"


def test_print_shows_a_table() -> None:
    lines = str(BOARD).splitlines()
    assert lines[0].split() == [
        "model", "AP", "±", "SE", "to", "the", "best", "±", "SE", "log-loss", "seconds"
    ]  # fmt: skip
    assert lines[2].split() == [
        "plain", "0.6000", "±", "0.0624", "-0.0500", "±", "0.0088", "0.5000", "1.0"
    ]  # fmt: skip
    assert lines[1].split()[-4:] == ["best", "0.5000", "20.0", "←"]
    assert len({len(line.removesuffix("  ←")) for line in lines}) == 1


def test_it_converts_to_a_data_frame() -> None:
    table = pd.DataFrame(BOARD)
    assert [*table.columns] == [
        "model", "ap", "ap_se", "difference", "difference_se", "log_loss", "seconds", "chosen"
    ]  # fmt: skip
    assert table["model"].tolist() == ["better", "plain", "worse"]


def test_it_survives_pickling() -> None:
    stored = pickle.loads(pickle.dumps(BOARD))
    assert isinstance(stored, Leaderboard)
    assert stored == BOARD
