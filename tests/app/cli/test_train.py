"""The command `apmax train`."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from apmax.app.io import load
from apmax.app.model import load_model
from tests.app.loans import as_json, made_loans, run

LBFGS = ("--model", "logistic", "-o", "m.apmax")


@pytest.mark.parametrize("solver", ["soap-adam", "cv"])
def test_every_kind_of_solver_trains(folder: Path, solver: str) -> None:
    result = as_json("train", "loans.csv", "--target", "last", "--solver", solver, "-o", "m.apmax",
                     "--test", "new-loans.csv", "--report", "r.html")  # fmt: skip
    assert result["test_ap"] > 1.5 * result["test_prevalence"]
    assert result["test_rows"] == 400
    assert load_model("m.apmax").facts["rows"] == 600
    assert "<svg" in Path("r.html").read_text()


def test_the_final_model_is_trained_on_all_rows(folder: Path) -> None:
    result = as_json("train", "loans.csv", "--target", "last", *LBFGS)
    assert (result["rows"], result["test_rows"]) == (600, 120)
    assert result["warnings"] == []


def test_quiet_prints_nothing(folder: Path) -> None:
    assert run("--quiet", "train", "loans.csv", "--target", "last", *LBFGS).output == ""


def test_the_positive_label_can_be_chosen(folder: Path) -> None:
    options = ("--target", "defaulted", "--positive", "No.")
    assert as_json("train", "loans.csv", *options, *LBFGS)["positive"] == "no"
    assert load_model("m.apmax").positive == "no"


@pytest.fixture
def cases(folder: Path) -> pd.DataFrame:
    """Three outcomes in cases.csv, of which fraud is rare."""
    frame = made_loans(400, 1)
    frame["outcome"] = np.where(frame["defaulted"] == "yes", "fraud", "fine")
    frame.loc[::7, "outcome"] = "open"
    frame = frame.drop(columns="defaulted")
    frame.to_csv("cases.csv", index=False)
    return frame


ONE = ("--target", "outcome", "--positive", "fraud", "--rest")


def test_one_label_against_the_rest(cases: pd.DataFrame) -> None:
    result = as_json("train", "cases.csv", *ONE, *LBFGS)
    assert (result["positive"], result["negative"]) == ("fraud", "not fraud")
    assert load_model("m.apmax").against_rest
    positives = (cases["outcome"] == "fraud").sum()
    assert as_json("evaluate", "m.apmax", "cases.csv")["positives"] == positives
    labels = as_json("predict", "m.apmax", "cases.csv")["label"]
    assert set(labels) <= {"fraud", "not fraud"}


def test_a_third_label_is_refused_without_rest(cases: pd.DataFrame) -> None:
    refused = run("train", "cases.csv", "--target", "outcome", "--positive", "fraud", fails=True)
    assert "has 3 values" in refused.stderr
    assert "--positive VALUE --rest" in refused.stderr
    cases[cases["outcome"] != "open"].to_csv("two.csv", index=False)
    run("--quiet", "train", "two.csv", "--target", "outcome", *LBFGS)
    assert "has 3 values" in run("evaluate", "m.apmax", "cases.csv", fails=True).stderr
    assert as_json("evaluate", "m.apmax", "cases.csv", "--rest")["rows"] == len(cases)


def test_one_class_of_many_in_libsvm(folder: Path) -> None:
    Path("many.libsvm").write_text("".join(f"{k % 3} 1:{k % 3 == 2:d} 2:{k}\n" for k in range(90)))
    result = as_json("train", "many.libsvm", "--positive", "2", "--rest", *LBFGS)
    assert result["test_ap"] == 1
    assert as_json("evaluate", "m.apmax", "many.libsvm")["average_precision"] == 1


@pytest.mark.parametrize("positives", [1, 2, 3])
def test_very_few_positives(folder: Path, positives: int) -> None:
    frame = made_loans(200, 8)
    frame["defaulted"] = np.where(np.arange(200) < positives, "yes", "no")
    frame.to_csv("rare.csv", index=False)
    options = ("--target", "last", "--test", "loans.csv", "-o", "m.apmax")
    assert as_json("train", "rare.csv", *options)["positives"] == positives


def test_unused_columns_are_reported(folder: Path) -> None:
    frame = pd.read_csv("loans.csv").assign(code=[f"word {k}" for k in range(600)])
    frame["income"] = frame["income"].astype(object).where(frame.index != 7, "-")
    frame.to_csv("odd.csv", index=False)
    result = run("train", "odd.csv", "--target", "defaulted", *LBFGS)
    assert "warning: 'code' is text whose values hardly ever repeat" in result.stderr
    assert run("train", "loans.csv", "--target", "defaulted", *LBFGS).stderr == ""
    pd.read_csv("new-loans.csv").assign(city="Bonn", code="x").to_csv("drifted.csv", index=False)
    options = ["--target", "defaulted", "--test", "drifted.csv"]
    notes = as_json("train", "odd.csv", *options, *LBFGS)["warnings"]
    assert [note.split()[0] for note in notes] == ["'income':", "'code'", "'city':"]


def test_names_that_look_like_markup_are_printed_as_they_are(folder: Path) -> None:
    rng = np.random.default_rng(6)
    word = rng.choice(["[/b]", "[red]x", "plain"], 300)
    frame = pd.DataFrame({"w": word, "y": rng.random(300) < np.where(word == "[/b]", 0.7, 0.2)})
    frame.to_csv("odd.csv", index=False)
    assert "w = [/b]" in run("train", "odd.csv", "--target", "y", *LBFGS).stdout


def test_tables_of_pandas_with_row_numbers_are_read(folder: Path) -> None:
    made_loans(300, 9).to_csv("numbered.csv")
    names = list(load("numbered.csv", target="defaulted").X.columns)
    assert names == ["column 1", "income", "city", "since"]


@pytest.mark.parametrize("when", ["last fit", "report"])
def test_an_interrupt_after_the_first_fit_keeps_the_tested_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    from apmax.app import training

    train, calls = training.train_model, []

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    def second_is_interrupted(*data: Any, **options: Any) -> Any:
        calls.append(data)
        return interrupted() if len(calls) == 2 else train(*data, **options)

    if when == "report":
        monkeypatch.setattr("apmax.app.cli.train.write_model_report", interrupted)
    else:
        monkeypatch.setattr(training, "train_model", second_is_interrupted)
    command = "--quiet train loans.csv --target last --model logistic -o m.apmax --report r.html"
    result = run(*shlex.split(command), fails=True)
    assert result.exit_code == 130
    assert result.stderr.strip() == "stopped; m.apmax contains the model trained so far"
    assert load_model("m.apmax").facts["rows"] == (600 if when == "report" else 480)
    assert not Path("r.html").exists()


def with_leaks() -> pd.DataFrame:
    """Loans with the three leaks that once gave AP 1 without a warning, and an ID."""
    frame = made_loans(600, 0).sort_values("defaulted", kind="stable", ignore_index=True)
    bad = frame["defaulted"] == "yes"
    rng = np.random.default_rng(0)
    return frame.assign(
        recovered=np.where(bad, rng.normal(size=600), np.nan),
        status=np.where(bad, 3, 1),
        row=range(600),
        customer=rng.permutation(600) + 1000,
    )


LEAKS = {"recovered": "missing", "status": "copy", "row": "order", "customer": "identifier"}


@pytest.mark.parametrize("command", ["train", "compare"])
def test_leaks_and_identifiers_are_reported(folder: Path, command: str) -> None:
    with_leaks().to_csv("leaky.csv", index=False)
    options = ["leaky.csv", "--target", "defaulted"]
    fast = LBFGS if command == "train" else ("--folds", "2", "--repeats", "1")
    result = run("--json", command, *options, *fast)
    shown = json.loads(result.stdout)
    assert {one["column"]: one["kind"] for one in shown["findings"]} == LEAKS
    assert shown["warnings"] == [one["message"] for one in shown["findings"]]
    for name, line in zip(LEAKS, result.stderr.splitlines()[:4], strict=True):
        assert line.startswith("warning: ")
        assert f"--drop {name}" in line


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize(
    "options", ["--drop recovered,status,row --id customer", "--only income,city,since"]
)
def test_columns_that_are_left_out_are_not_reported(
    folder: Path, command: str, options: str
) -> None:
    with_leaks().to_csv("leaky.csv", index=False)
    fast = LBFGS if command == "train" else ("--folds", "2", "--repeats", "1")
    options = f"leaky.csv --target defaulted --strict {options}"
    assert as_json(command, *shlex.split(options), *fast)["findings"] == []


@pytest.mark.parametrize("command", ["train", "compare"])
def test_strict_makes_them_an_error_before_anything_is_written(folder: Path, command: str) -> None:
    with_leaks().to_csv("leaky.csv", index=False)
    before = set(os.listdir())
    options = ["--target", "defaulted", "--strict", "--report", "r.html"]
    refused = run(command, "leaky.csv", *options, fails=True)
    assert refused.exit_code == 1
    assert len(refused.stderr.splitlines()) == 1
    assert all(f"--drop {name}" in refused.stderr for name in LEAKS)
    assert set(os.listdir()) == before


def test_strict_accepts_clean_data(folder: Path) -> None:
    options = ("--target", "last", "--strict", "--test", "new-loans.csv")
    assert as_json("train", "loans.csv", *options, *LBFGS)["findings"] == []


def test_a_test_file_equal_to_the_training_file_is_reported(folder: Path) -> None:
    options = ("--target", "last", "--test", "loans.csv")
    (found,) = as_json("train", "loans.csv", *options, *LBFGS)["findings"]
    assert (found["column"], found["kind"]) == (None, "test")
    assert "same rows" in run("train", "loans.csv", *options, "--strict", fails=True).stderr
