"""Options that name columns, rows without a label, and output options after the command."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apmax.app.folds import hold_out
from apmax.app.io import load
from apmax.app.model import load_model
from apmax.app.roles import Roles
from tests.app.loans import as_json, made_loans, run

TRAIN = ("train", "wide.csv", "--target", "defaulted", "--model", "logistic", "-o", "m.apmax")


@pytest.fixture
def wide(folder: Path) -> pd.DataFrame:
    """Loans with a number of the customer, a remark, weights and a branch, in wide.csv."""
    frame = made_loans(600, 0)
    rng = np.random.default_rng(3)
    frame.insert(0, "customer", [f"{k:05d}" for k in range(600)])
    frame["remark"] = [f"word {k}" for k in range(600)]
    frame["importance"] = rng.uniform(0.5, 2, 600)
    frame["branch"] = [f"b{k}" for k in rng.integers(0, 40, 600)]
    frame.to_csv("wide.csv", index=False)
    return frame


@pytest.mark.parametrize("option", ["target", "drop", "only", "id", "weight", "group", "time"])
@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_misspelt_column_is_suggested_before_any_work(
    wide: pd.DataFrame, option: str, command: str
) -> None:
    name = "Defaulted" if option == "target" else "Branches"
    target = [] if option == "target" else ["--target", "defaulted"]
    result = run(command, "wide.csv", *target, f"--{option}", name, fails=True)
    expected = "defaulted" if option == "target" else "branch"
    assert f"--{option} = {name!r} is not a column: did you mean {expected!r}?" in result.stderr
    assert not Path("model.apmax").exists()


def test_dropped_and_unused_columns_are_not_needed_by_a_model(wide: pd.DataFrame) -> None:
    notes = as_json(*TRAIN, "--drop", "branch,importance", "--drop", "customer")["warnings"]
    assert [note for note in notes if "'remark'" in note and "is not used" in note] == notes
    fewer = made_loans(50, 7)
    assert list(load_model("m.apmax").preprocessor.kinds_) == ["income", "city", "since"]
    fewer.to_csv("fewer.csv", index=False)
    assert len(as_json("predict", "m.apmax", "fewer.csv")["label"]) == 50
    assert as_json("evaluate", "m.apmax", "fewer.csv")["rows"] == 50


def test_only_keeps_the_named_columns(wide: pd.DataFrame) -> None:
    run("--quiet", *TRAIN, "--only", "income", "--only", "3")
    assert list(load_model("m.apmax").preprocessor.kinds_) == ["income", "city"]
    result = run(*TRAIN, "--only", "income", "--drop", "income", fails=True)
    assert "no column is left to learn from" in result.stderr


def test_a_name_with_a_comma_is_one_column(wide: pd.DataFrame) -> None:
    wide.rename(columns={"income": "income, yearly"}).to_csv("comma.csv", index=False)
    dataset = load("comma.csv", target="defaulted", roles=Roles(drop=("income, yearly",)))
    assert "income, yearly" not in dataset.X
    assert "city" in dataset.X


def test_the_id_is_kept_as_it_is_in_the_predictions(wide: pd.DataFrame) -> None:
    run("--quiet", *TRAIN, "--id", "customer")
    model = load_model("m.apmax")
    assert model.id == "customer"
    assert "customer" not in model.preprocessor.kinds_
    wide.tail(3).to_csv("new.csv", index=False)
    lines = run("--quiet", "predict", "m.apmax", "new.csv").stdout.splitlines()
    assert lines[0] == "customer,probability,log_odds,label"
    assert [line.split(",")[0] for line in lines[1:]] == ["00597", "00598", "00599"]
    wide.drop(columns="customer").to_csv("new.csv", index=False)
    assert "customer" not in as_json("predict", "m.apmax", "new.csv")


def test_weights_are_counts_of_rows(wide: pd.DataFrame) -> None:
    wide["importance"] = 1 + np.arange(600) % 3
    wide.to_csv("wide.csv", index=False)
    wide.loc[wide.index.repeat(wide["importance"])].to_csv("repeated.csv", index=False)
    options = ("--only", "income", "--test", "wide.csv")
    weighted = as_json(*TRAIN, *options, "--weight", "importance")
    log_odds = load_model("m.apmax").log_odds(wide)
    repeated = as_json("train", "repeated.csv", *TRAIN[2:], "--only", "income", "--test",
                       "repeated.csv")  # fmt: skip
    assert weighted["test_ap"] == pytest.approx(repeated["test_ap"], rel=1e-3)
    np.testing.assert_allclose(load_model("m.apmax").log_odds(wide), log_odds, rtol=0.1)


def test_weights_of_training_are_used_by_evaluate_and_threshold(wide: pd.DataFrame) -> None:
    wide["importance"] = 1 + np.arange(600) % 3
    wide.to_csv("wide.csv", index=False)
    wide.loc[wide.index.repeat(wide["importance"])].to_csv("repeated.csv", index=False)
    run("--quiet", *TRAIN, "--weight", "importance", "--drop", "customer,branch")
    weighted = as_json("evaluate", "m.apmax", "wide.csv")
    plain = pd.read_csv("repeated.csv").drop(columns="importance")
    plain.to_csv("plain.csv", index=False)
    repeated = as_json("evaluate", "m.apmax", "plain.csv")
    assert weighted["average_precision"] == pytest.approx(repeated["average_precision"])
    assert weighted["prevalence"] == pytest.approx(repeated["prevalence"])
    for rule in (("--precision", "0.3"), ("--recall", "0.5"), ("--cost", "1:5"), ("--top", "10%")):
        one = as_json("threshold", "m.apmax", *rule, "--data", "wide.csv")
        other = as_json("threshold", "m.apmax", *rule, "--data", "plain.csv")
        assert one["threshold"] == other["threshold"]
        assert one["alerts"] == pytest.approx(other["alerts"])
    wide.rename(columns={"importance": "w"}).to_csv("renamed.csv", index=False)
    given = as_json("evaluate", "m.apmax", "renamed.csv", "--weight", "w")
    assert given["average_precision"] == weighted["average_precision"]
    refused = run("evaluate", "m.apmax", "wide.csv", "--weight", "Importances", fails=True)
    assert "did you mean 'importance'" in refused.stderr


def test_unusable_weights_and_groups_are_refused(wide: pd.DataFrame) -> None:
    wide.loc[4, "importance"] = -1
    wide.loc[5, "branch"] = None
    wide.to_csv("wide.csv", index=False)
    assert "row 5 has '-1.0'" in run(*TRAIN, "--weight", "importance", fails=True).stderr
    assert "first in row 6" in run(*TRAIN, "--group", "branch", fails=True).stderr
    assert "is the target" in run(*TRAIN, "--group", "defaulted", fails=True).stderr


def test_no_group_is_in_both_parts(wide: pd.DataFrame) -> None:
    dataset = load("wide.csv", target="defaulted", roles=Roles(group="branch"))
    for seed in (0, 1):
        learnt, tested = hold_out(dataset, 0.2, seed=seed)
        assert not set(learnt.groups) & set(tested.groups)
        assert learnt.X.shape[0] + tested.X.shape[0] == 600
        assert 0.1 < tested.X.shape[0] / 600 < 0.3


def test_compare_uses_groups_and_weights(wide: pd.DataFrame) -> None:
    # The rows of a branch are copies: only folds that keep them together show a model's AP.
    copies = pd.concat([made_loans(100, 1).assign(branch=range(100), w=1.0)] * 4)
    copies["defaulted"] = np.random.default_rng(0).permutation(["yes"] * 30 + ["no"] * 70 * 1)[
        copies["branch"]
    ]
    copies.to_csv("copies.csv", index=False)
    options = ("--target", "defaulted", "--folds", "2", "--weight", "w", "--model", "trees")
    apart = as_json("compare", "copies.csv", *options, "--drop", "branch")["leaderboard"]
    together = as_json("compare", "copies.csv", *options, "--group", "branch")["leaderboard"]
    assert apart[0]["ap"] > 0.8
    assert together[0]["ap"] < 0.6


def test_rows_without_a_label_are_refused_or_left_out(folder: Path) -> None:
    frame = pd.read_csv("loans.csv")
    frame.loc[:9, "defaulted"] = None
    frame.to_csv("partly.csv", index=False)
    command = (
        "train",
        "partly.csv",
        "--target",
        "defaulted",
        "--model",
        "logistic",
        "-o",
        "m.apmax",
    )
    result = run(*command, fails=True)
    assert "is missing in 10 of 600 rows, first in row 1" in result.stderr
    assert "--drop-unlabelled" in result.stderr
    result = run(*command, "--drop-unlabelled")
    assert "10 of 600 rows have no label and are left out" in result.stderr
    assert load_model("m.apmax").facts["rows"] == 590
    evaluated = as_json("evaluate", "m.apmax", "partly.csv", "--drop-unlabelled")
    assert evaluated["rows"] == 590
    assert "10 of 600 rows have no label" in evaluated["warnings"][0]
    assert "--drop-unlabelled" in run("evaluate", "m.apmax", "partly.csv", fails=True).stderr


def test_output_options_work_after_the_command(folder: Path) -> None:
    command = shlex.split("train loans.csv --target last --model logistic -o m.apmax")
    assert json.loads(run(*command, "--json").stdout)["rows"] == 600
    assert run(*command, "--quiet").output == ""
    result = run("predict", "m.apmax", "none.csv", "--json", fails=True)
    assert "no such file" in json.loads(result.stderr)["error"]


def test_columns_of_a_matrix_cannot_be_named(folder: Path) -> None:
    Path("a.libsvm").write_text("1 1:1\n0 1:2\n1 1:3\n0 1:4\n")
    result = run("train", "a.libsvm", "--drop", "1", fails=True)
    assert "--drop names a column, but a.libsvm is not a table" in result.stderr


@pytest.mark.parametrize("names", [{"income": "debt"}, {"income": "2023"}], ids=["twice", "number"])
def test_predict_reads_the_header_of_training(folder: Path, names: dict[str, str]) -> None:
    table = made_loans(600, 0).rename(columns=names)
    table.to_csv("odd.csv", index=False)
    run("train", "odd.csv", "--target", "defaulted", "--model", "logistic", "-o", "m.apmax")
    run("predict", "m.apmax", "odd.csv", "-o", "scores.csv")
    assert len(pd.read_csv("scores.csv")) == 600


@pytest.mark.parametrize("first", [",,,,0.5", ",,,,"])
def test_predict_reads_a_first_row_of_empty_cells_as_data(folder: Path, first: str) -> None:
    rows = np.random.default_rng(0).normal(size=(200, 5))
    lines = [",".join(map(str, row)) for row in rows.round(3)]
    Path("train.csv").write_text("\n".join(f"{line},{k % 2}" for k, line in enumerate(lines)))
    run("train", "train.csv", "--target", "last", "--model", "logistic", "-o", "m.apmax")
    Path("new.csv").write_text("\n".join([first, *lines[:9]]))
    assert len(as_json("predict", "m.apmax", "new.csv")["label"]) == 10
