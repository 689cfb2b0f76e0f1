"""The command `apmax train`."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import rich.console

from apmax.app import training
from apmax.app.cli.console import ProgressLog
from apmax.app.io import load
from apmax.app.model import load_model, save_model
from apmax.interrupts import CooperativeInterrupt, interrupt_on_hold
from apmax.tabular import NAMES
from apmax.tabular.budget import TooShortError
from apmax.tabular.search import Search
from tests.app.loans import as_json, made_loans, run
from tests.hang import SECONDS

FAST = ("--model", "logistic", "-o", "m.apmax")


@pytest.mark.parametrize("model", ["auto", "additive", "linear", "trees", "stack"])
def test_every_kind_of_model_trains(folder: Path, model: str) -> None:
    options = ("--target", "last", "--model", model, "--jobs", "1", "-o", "m.apmax")
    result = as_json(
        "train", "loans.csv", *options, "--test", "new-loans.csv", "--report", "r.html"
    )
    assert result["test_ap"] > 1.2 * result["test_prevalence"]
    assert result["test_rows"] == 400
    (chosen,) = [one for one in result["leaderboard"] if one["chosen"]]
    assert chosen["model"] == result["chosen"] == load_model("m.apmax").name
    assert result["cv_ap"] == chosen["ap"]
    assert load_model("m.apmax").facts["rows"] == 600
    assert result["bytes"] == Path("m.apmax").stat().st_size
    assert "<svg" in Path("r.html").read_text()


def test_the_leaderboard_advice_and_file_are_printed(folder: Path) -> None:
    shown = run("train", "loans.csv", "--target", "last", "--jobs", "1", "-o", "m.apmax").stdout
    assert "average precision in 5 folds" in shown
    for name in (*NAMES, "←"):
        assert name in shown
    assert "simple" in shown
    ending = r" → m.apmax \([\d.]+ .B\); positive: 'yes', negative: 'no'"
    kept = re.search(r"kept (\w\S*?)(?:, which has the highest AP)?" + ending, shown)
    assert kept is not None
    board = load_model("m.apmax").leaderboard
    assert board is not None
    assert [one.chosen for one in board] == [True] + [False] * (len(board) - 1)
    assert board[0].model == kept[1]


def test_the_model_is_trained_on_all_rows_unless_some_are_held_out(folder: Path) -> None:
    result = as_json("train", "loans.csv", "--target", "last", *FAST)
    assert result["rows"] == 600
    assert "test_ap" not in result
    assert result["warnings"] == []
    result = as_json("train", "loans.csv", "--target", "last", *FAST, "--holdout", "0.2")
    assert (result["rows"], result["test_rows"]) == (480, 120)
    low, high = result["test_ap_interval"]
    assert low < result["test_ap"] < high
    shown = run("train", "loans.csv", "--target", "last", *FAST, "--holdout", "0.2").stdout
    assert f"(95 % interval {low:.3f} to {high:.3f}, random " in shown
    again = as_json("train", "loans.csv", "--target", "last", *FAST, "--holdout", "20%")
    assert again["test_ap"] == result["test_ap"]
    both = ("--holdout", "0.2", "--test", "new-loans.csv")
    assert "exclude each other" in run("train", "loans.csv", *both, fails=True).stderr


def test_the_number_of_processes_does_not_change_the_model(folder: Path) -> None:
    for jobs in ("1", "2"):
        options = ("--target", "last", "--model", "trees", "--jobs", jobs, "-o", f"{jobs}.apmax")
        run("--quiet", "train", "loans.csv", *options)
    one, two = (load_model(f"{jobs}.apmax") for jobs in "12")
    frame = pd.read_csv("new-loans.csv")
    np.testing.assert_array_equal(one.log_odds(frame), two.log_odds(frame))


def test_time_trains_on_the_past_and_is_no_feature(folder: Path) -> None:
    result = as_json("train", "loans.csv", "--target", "last", "--time", "since", *FAST)
    assert "since" not in load_model("m.apmax").preprocessor.kinds_
    held_out = as_json(
        "train", "loans.csv", "--target", "last", "--time", "since", "--holdout", "0.25", *FAST
    )
    frame = pd.read_csv("loans.csv").sort_values("since")
    assert held_out["test_rows"] == pytest.approx(150, abs=2)
    latest = frame.tail(held_out["test_rows"])["defaulted"]
    assert held_out["test_prevalence"] == pytest.approx((latest == "yes").mean())
    assert 1 <= result["folds"] <= 5


def test_models_get_what_is_left_of_the_time_limit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets = []
    compare = training._compare_library

    def recorded(*arguments: Any) -> Any:
        budgets.append(arguments[4])
        return compare(*arguments[:4], None, *arguments[5:])

    monkeypatch.setattr(training, "_compare_library", recorded)
    run("--quiet", "train", "loans.csv", "--target", "last", *FAST, "--minutes", "100")
    assert 0 < budgets[0] < 0.9 * 6000


def test_quiet_prints_nothing(folder: Path) -> None:
    assert run("--quiet", "train", "loans.csv", "--target", "last", *FAST).output == ""


def test_the_positive_label_can_be_chosen(folder: Path) -> None:
    options = ("--target", "defaulted", "--positive", "No.")
    assert as_json("train", "loans.csv", *options, *FAST)["positive"] == "no"
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
    result = as_json("train", "cases.csv", *ONE, *FAST)
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
    run("--quiet", "train", "two.csv", "--target", "outcome", *FAST)
    refused = run("evaluate", "m.apmax", "cases.csv", fails=True)
    assert "trained to tell 'fraud' from 'fine': add --rest" in refused.stderr
    assert as_json("evaluate", "m.apmax", "cases.csv", "--rest")["rows"] == len(cases)


def test_one_class_of_many_in_libsvm(folder: Path) -> None:
    Path("many.libsvm").write_text("".join(f"{k % 3} 1:{k % 3 == 2:d} 2:{k}\n" for k in range(90)))
    result = as_json("train", "many.libsvm", "--positive", "2", "--rest", *FAST)
    assert result["cv_ap"] == 1
    assert as_json("evaluate", "m.apmax", "many.libsvm")["average_precision"] == 1


@pytest.mark.parametrize("positives", [1, 2, 3])
def test_very_few_positives(folder: Path, positives: int) -> None:
    frame = made_loans(200, 8)
    frame["defaulted"] = np.where(np.arange(200) < positives, "yes", "no")
    frame.to_csv("rare.csv", index=False)
    command = ("train", "rare.csv", "--target", "last", "--jobs", "1", "-o", "m.apmax")
    if positives == 1:
        refused = run(*command, fails=True).stderr
        assert "rare.csv: the label 'yes' of column 'defaulted' has only one row" in refused
    else:
        result = as_json(*command)
        assert result["folds"] == positives
        assert f"rare.csv has {positives} positive examples, and with" in result["warnings"][-1]


def test_unused_columns_are_reported(folder: Path) -> None:
    frame = pd.read_csv("loans.csv").assign(code=[f"word {k}" for k in range(600)])
    frame["income"] = frame["income"].astype(object).where(frame.index != 7, "-")
    frame.to_csv("odd.csv", index=False)
    result = run("train", "odd.csv", "--target", "defaulted", *FAST)
    assert "warning: 'code' is text whose values hardly ever repeat" in result.stderr
    assert run("train", "loans.csv", "--target", "defaulted", *FAST).stderr == ""
    pd.read_csv("new-loans.csv").assign(city="Bonn", code="x").to_csv("drifted.csv", index=False)
    options = ["--target", "defaulted", "--test", "drifted.csv"]
    notes = as_json("train", "odd.csv", *options, *FAST)["warnings"]
    assert [note.split()[0] for note in notes] == ["'income':", "'code'", "'city':"]


def test_names_that_look_like_markup_are_printed_as_they_are(folder: Path) -> None:
    frame = made_loans(300, 6).rename(columns={"city": "[red]city[/b]"})
    frame["word"] = [f"word {k}" for k in range(300)]
    frame.rename(columns={"word": "[/b]"}).to_csv("[red]odd.csv", index=False)
    shown = run("train", "[red]odd.csv", "--target", "defaulted", *FAST)
    assert "[red]odd.csv: average precision" in shown.stdout
    assert "'[/b]' is text" in shown.stderr


def test_tables_of_pandas_with_row_numbers_are_read(folder: Path) -> None:
    made_loans(300, 9).to_csv("numbered.csv")
    names = list(load("numbered.csv", target="defaulted").X.columns)
    assert names == ["column 1", "income", "city", "since"]


def test_an_interrupt_after_some_models_keeps_the_best_of_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, calls = Search.fit, list[str]()

    def third_is_interrupted(self: Any, name: str) -> Any:
        calls.append(name)
        if len(calls) == 3:
            raise CooperativeInterrupt
        return fit(self, name)

    monkeypatch.setattr(Search, "fit", third_is_interrupted)
    command = "train loans.csv --target last --jobs 1 -o m.apmax"
    result = run(*shlex.split(command), fails=True)
    assert result.exit_code == 130
    expected = "stopped; m.apmax contains the best of the models fitted so far"
    assert result.stderr.strip() == expected
    assert "interrupted: only logistic, additive" in result.stdout
    board = load_model("m.apmax").leaderboard
    assert board is not None
    assert {one.model for one in board} == {"logistic", "additive", "stack"}


@pytest.mark.parametrize("command", ["train loans.csv -o m.apmax", "compare loans.csv"])
def test_the_first_ctrl_c_keeps_the_models_that_are_complete(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    fit, calls = Search.fit, list[str]()

    def ctrl_c_in_the_third(self: Any, name: str) -> Any:
        calls.append(name)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return fit(self, name)

    monkeypatch.setattr(Search, "fit", ctrl_c_in_the_third)
    result = run(*shlex.split(command), "--target", "last", "--jobs", "1", fails=True)
    assert result.exit_code == 130
    assert "interrupted: only logistic, additive" in result.stdout
    assert len(calls) == 3


def test_two_interrupts_after_the_model_is_written_do_not_deny_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def pressed_at_the_end() -> Iterator[None]:
        with interrupt_on_hold():
            yield
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("apmax.interrupts.interrupt_on_hold", pressed_at_the_end)
    result = run("train", "loans.csv", "--target", "last", *FAST, fails=True)
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "stopped; m.apmax is complete"


def test_an_interrupt_while_the_model_is_written_lets_it_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> int:
        signal.raise_signal(signal.SIGINT)
        return save_model(*arguments)

    monkeypatch.setattr("apmax.app.model.save_model", interrupted)
    result = run("train", "loans.csv", "--target", "last", *FAST, "--report", "r.html", fails=True)
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "stopped; m.apmax is complete"
    assert load_model("m.apmax").facts["rows"] == 600
    assert Path("r.html").exists()


def test_an_interrupt_during_the_report_keeps_the_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("apmax.app.cli.train.write_training_report", interrupted)
    command = "--quiet train loans.csv --target last --model logistic -o m.apmax --report r.html"
    result = run(*shlex.split(command), fails=True)
    assert result.exit_code == 130
    assert result.stderr.strip() == "stopped; m.apmax is complete, r.html was not written"
    assert load_model("m.apmax").facts["rows"] == 600
    assert not Path("r.html").exists()


def test_progress_in_a_log_is_a_line_with_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    log = ProgressLog("boosting", rich.console.Console(file=stream), 10, 40, "AP 0.4000")
    monkeypatch.setattr(time, "monotonic", lambda: log.start + 60)
    assert log.line() == "progress: boosting, 10 of 40, AP 0.4000, 60 s, about 180 s left"
    deadline = time.perf_counter() + SECONDS
    with log.every(0.001):
        while stream.getvalue().count("progress: boosting") < 2:
            assert time.perf_counter() < deadline, "there was no second line"
            time.sleep(0.001)


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
REMEDIES = {**dict.fromkeys(LEAKS, "--drop"), "customer": "--id"}


@pytest.mark.parametrize("command", ["train", "compare"])
def test_leaks_and_identifiers_are_reported(folder: Path, command: str) -> None:
    with_leaks().to_csv("leaky.csv", index=False)
    options = ["leaky.csv", "--target", "defaulted"]
    fast = FAST if command == "train" else ("--folds", "2", "--model", "logistic")
    result = run("--json", command, *options, *fast)
    shown = json.loads(result.stdout)
    assert {one["column"]: one["kind"] for one in shown["findings"]} == LEAKS
    assert shown["warnings"] == [one["message"] for one in shown["findings"]]
    for name, line in zip(LEAKS, result.stderr.splitlines()[:4], strict=True):
        assert line.startswith("warning: ")
        assert f"{REMEDIES[name]} {name}" in line


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize(
    "options", ["--drop recovered,status,row --id customer", "--only income,city,since"]
)
def test_columns_that_are_left_out_are_not_reported(
    folder: Path, command: str, options: str
) -> None:
    with_leaks().to_csv("leaky.csv", index=False)
    fast = FAST if command == "train" else ("--folds", "2", "--model", "logistic")
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
    assert all(f"{REMEDIES[name]} {name}" in refused.stderr for name in LEAKS)
    assert set(os.listdir()) == before


def test_strict_accepts_clean_data(folder: Path) -> None:
    options = ("--target", "last", "--strict", "--test", "new-loans.csv")
    assert as_json("train", "loans.csv", *options, *FAST)["findings"] == []


def test_a_test_file_equal_to_the_training_file_is_reported(folder: Path) -> None:
    options = ("--target", "last", "--test", "loans.csv")
    (found,) = as_json("train", "loans.csv", *options, *FAST)["findings"]
    assert (found["column"], found["kind"]) == (None, "test")
    assert "same rows" in run("train", "loans.csv", *options, "--strict", fails=True).stderr


def test_a_time_limit_that_is_too_short_names_one_in_minutes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise TooShortError("the time limit is too small", 100.0)

    monkeypatch.setattr(training, "_compare_library", refuse)
    options = ("--target", "defaulted", "--minutes", "0.1")
    refused = run("train", "loans.csv", *options, fails=True).stderr
    assert "error: --minutes 0.1 is too short for one model" in refused
    enough = re.search(r"use --minutes ([\d.]+) or more", refused)
    assert enough is not None
    assert float(enough[1]) >= 1.9  # 100 s, with a tenth for everything else
