"""The command `apmax threshold`, and the alerts of `apmax predict`."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apmax import operating_point
from apmax.app.model import load_model
from tests.app.loans import as_json, made_loans, run


@pytest.fixture
def model(folder: Path) -> str:
    run("--quiet", "train", "loans.csv", "--target", "defaulted", "--model", "logistic",
        "-o", "m.apmax")  # fmt: skip
    frame = made_loans(2000, 2)
    frame.to_csv("valid.csv", index=False)
    return "m.apmax"


def predicted(*arguments: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(run("predict", "m.apmax", *arguments).stdout))


def test_the_stored_threshold_is_used_by_predict(model: str) -> None:
    y = made_loans(2000, 2)["defaulted"] == "yes"
    scores = predicted("valid.csv")["probability"]
    expected = operating_point(y, scores, recall=0.7)
    before = load_model(model)
    result = as_json("threshold", model, "--recall", "0.7", "--data", "valid.csv")
    assert result["threshold"] == pytest.approx(expected.threshold)
    assert result["precision"] == pytest.approx(expected.precision)
    assert result["recall"] == pytest.approx(expected.recall)
    assert result["alerts"] == round(2000 * expected.alert_rate)
    after = load_model(model)
    assert after.operating_point is not None
    assert after.operating_point.threshold == result["threshold"]
    assert after.facts == before.facts
    np.testing.assert_array_equal(after.coef, before.coef)
    flagged = predicted("valid.csv")
    np.testing.assert_array_equal(
        flagged["label"] == "yes", flagged["probability"] >= result["threshold"]
    )
    note = run("predict", model, "new-loans.csv").stderr
    assert "stored in the model for recall ≥ 0.7 on valid.csv" in note
    assert (
        as_json("predict", model, "new-loans.csv")["decision"]["threshold"] == (result["threshold"])
    )


@pytest.mark.parametrize("option", ["--precision 0.2", "--recall 0.8", "--top 5%", "--cost 1:20"])
def test_what_to_expect_is_printed_with_counts(model: str, option: str) -> None:
    shown = run("threshold", model, *shlex.split(option), "--data", "valid.csv")
    assert "valid.csv: probability ≥ 0." in shown.stdout
    point = load_model(model).operating_point
    assert point is not None
    for part, whole in [(point.alerts, 2000), (point.true_alerts, point.alerts),
                        (point.true_alerts, point.positives)]:  # fmt: skip
        assert f"{part:,} of {whole:,}" in shown.stdout
    assert shown.stderr == ""


def test_a_later_choice_replaces_the_stored_one(model: str) -> None:
    for share in ("10%", "5%"):
        result = as_json("threshold", model, "--top", share, "--data", "valid.csv")
    assert result["alerts"] == 100
    assert as_json("predict", model, "valid.csv")["decision"]["alerts"] == 100


def test_few_alerts_are_reported_as_uncertain(model: str) -> None:
    result = run("threshold", model, "--top", "1%", "--data", "valid.csv")
    assert "uncertain with 20 alerts" in result.stderr


REFUSED = {
    "threshold m.apmax --data valid.csv": "give one of",
    "threshold m.apmax --data valid.csv --top 50": "give it to `apmax predict`",
    "threshold m.apmax --data valid.csv --recall 2": "--recall",
    "threshold m.apmax --data valid.csv --precision 0.5 --recall 0.5": "exclude each other",
    "threshold m.apmax --data bare.csv --recall 0.5": "no column 'defaulted'",
    "threshold m.apmax --data m.apmax --recall 0.5": "would be overwritten",
    "predict m.apmax valid.csv -o p.csv --precision 0.5": "apmax threshold m.apmax --precision 0.5",
    "predict m.apmax valid.csv -o p.csv --top 5 --cost 1:2": "exclude each other",
    "predict m.apmax valid.csv -o p.csv --cost 5": "FP:FN",
    "predict m.apmax valid.csv -o p.csv --valid valid.csv": "leave it out",
    "predict m.apmax valid.csv -o p.csv --id citty": "did you mean 'city'?",
    "predict m.apmax odd.csv -o p.csv --id label": "rename it",
    "predict m.apmax valid.csv -o valid.csv --valid valid.csv": "would be overwritten",
}


@pytest.mark.parametrize("command", REFUSED)
def test_errors_change_no_file(model: str, command: str) -> None:
    made_loans(30, 3).drop(columns="defaulted").to_csv("bare.csv", index=False)
    made_loans(30, 3).assign(label=1).to_csv("odd.csv", index=False)
    before = {path: path.read_bytes() for path in Path().iterdir()}
    refused = run(*shlex.split(command), fails=True)
    assert refused.exit_code == 1
    assert REFUSED[command] in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_rules_of_predict_choose_the_rows(model: str) -> None:
    scores = predicted("valid.csv")["probability"]
    by_rule = {
        ("--threshold", "0.2"): scores >= 0.2,
        ("--cost", "1:9"): scores >= 0.1,
        ("--top", "40"): scores >= scores.nlargest(40).min(),
        ("--top", "2%"): scores >= scores.nlargest(40).min(),
    }
    for options, expected in by_rule.items():
        np.testing.assert_array_equal(predicted("valid.csv", *options)["label"] == "yes", expected)


def test_an_option_takes_precedence_over_the_stored_threshold(model: str) -> None:
    run("threshold", model, "--top", "50%", "--data", "valid.csv")
    result = run("predict", model, "valid.csv", "--top", "7", "-o", "p.csv")
    assert (pd.read_csv("p.csv")["label"] == "yes").sum() == 7
    assert "2,000 rows, 7 labelled 'yes' (top 7) → p.csv" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("option", ["--recall 0.5", "--precision 0.2", "--cost 1:5"])
def test_predict_can_choose_on_labelled_data_without_storing(model: str, option: str) -> None:
    before = Path(model).read_bytes()
    options = (*shlex.split(option), "--valid", "valid.csv")
    decision = as_json("predict", model, "new-loans.csv", *options)["decision"]
    assert Path(model).read_bytes() == before
    stored = as_json("threshold", model, *shlex.split(option), "--data", "valid.csv")
    assert decision["threshold"] == stored["threshold"]


def test_few_rows_above_one_half_are_pointed_out(model: str) -> None:
    result = run("predict", model, "valid.csv", "-o", "p.csv")
    count = (pd.read_csv("p.csv")["probability"] >= 0.5).sum()
    assert f"note: {count} of 2,000 rows have probability ≥ 0.5, and about" in result.stderr
    assert "`apmax threshold`" in result.stderr
    assert run("--quiet", "predict", model, "valid.csv", "-o", "p.csv").stderr == ""


def test_the_identifier_is_the_first_column_as_it_stands_in_the_file(model: str) -> None:
    frame = made_loans(30, 3).assign(customer=[f"{k:05d}" for k in range(30)])
    frame.to_csv("ids.csv", index=False)
    text = run("predict", model, "ids.csv", "--id", "customer").stdout
    assert text.splitlines()[0] == "customer,probability,log_odds,label"
    assert text.splitlines()[8].startswith("00007,")
    assert as_json("predict", model, "ids.csv", "--id", "customer")["customer"][7] == "00007"
    by_number = run("predict", model, "ids.csv", "--id", str(frame.shape[1])).stdout
    assert by_number == run("predict", model, "ids.csv", "--id", "last").stdout == text
    frame.assign(customer=range(30)).to_parquet("ids.parquet")
    run("predict", model, "ids.parquet", "--id", "customer", "-o", "p.parquet")
    assert pd.read_parquet("p.parquet")["customer"].tolist() == list(range(30))


def test_a_column_of_the_model_can_be_the_identifier(model: str) -> None:
    plain, with_income = predicted("new-loans.csv"), predicted("new-loans.csv", "--id", "income")
    pd.testing.assert_frame_equal(with_income.drop(columns="income"), plain)
    assert with_income["income"].isna().any()
    shown = json.loads(run("--json", "predict", model, "new-loans.csv", "--id", "income").stdout)
    assert None in shown["income"]


def test_the_id_of_the_model_is_the_default_and_can_be_replaced(folder: Path) -> None:
    frame = made_loans(600, 0).assign(customer=[f"{k:05d}" for k in range(600)])
    frame.assign(loan=range(600)).to_csv("ids.csv", index=False)
    train = "train ids.csv --target defaulted --id customer --drop loan --model logistic -o m.apmax"
    run("--quiet", *shlex.split(train))
    run("threshold", "m.apmax", "--top", "10%", "--data", "ids.csv")
    assert load_model("m.apmax").id == "customer"
    shown = as_json("predict", "m.apmax", "ids.csv")
    assert shown["customer"][:2] == ["00000", "00001"]
    assert shown["decision"]["alerts"] == 60
    replaced = as_json("predict", "m.apmax", "ids.csv", "--id", "loan")
    assert "customer" not in replaced
    assert replaced["loan"] == [str(k) for k in range(600)]


def test_numbers_with_decimal_commas_are_scored_alike_with_and_without_id(folder: Path) -> None:
    frame = made_loans(600, 0)
    frame.to_csv("german.csv", index=False, sep=";", decimal=",")
    run("--quiet", "train", "german.csv", "--target", "defaulted", "--model", "logistic",
        "-o", "m.apmax")  # fmt: skip
    plain = as_json("predict", "m.apmax", "german.csv")
    with_income = as_json("predict", "m.apmax", "german.csv", "--id", "income")
    assert with_income["probability"] == plain["probability"]
    expected = [None if pd.isna(one) else one for one in frame["income"]]
    assert with_income["income"] == pytest.approx(expected)
    stored = as_json("threshold", "m.apmax", "--recall", "0.5", "--data", "german.csv")
    options = ("--recall", "0.5", "--valid", "german.csv", "--decimal", ",")
    chosen = as_json("predict", "m.apmax", "german.csv", *options)["decision"]
    assert chosen["threshold"] == stored["threshold"]
    assert load_model("m.apmax").formats["income"].decimal == ","


def test_threshold_reads_data_like_evaluate(model: str) -> None:
    frame = made_loans(2000, 2).replace({"city": {"Rome": "Zürich"}})
    frame.loc[:9, "defaulted"] = None
    frame.to_csv("partly.csv", index=False, encoding="cp1252")
    command = ("threshold", model, "--top", "5%", "--data", "partly.csv", "--encoding", "cp1252")
    assert "--drop-unlabelled" in run(*command, fails=True).stderr
    shown = json.loads(run(*command, "--drop-unlabelled", "--json").stdout)
    assert shown["rows"] == 1990
    assert "10 of 2,000 rows have no label" in shown["warnings"][0]
    options = ("--recall", "0.5", "--valid", "partly.csv", "--encoding", "cp1252")
    assert "--drop-unlabelled" in run("predict", model, "partly.csv", *options, fails=True).stderr
    rows = as_json("predict", model, "partly.csv", *options, "--drop-unlabelled")["label"]
    assert len(rows) == 2000


def test_rows_of_a_matrix_have_no_identifier(folder: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez("a.npz", X=rng.normal(size=(60, 2)), y=np.arange(60) % 3 == 0)
    run("--quiet", "train", "a.npz", "--model", "logistic", "-o", "m.apmax")
    refused = run("predict", "m.apmax", "a.npz", "--id", "customer", fails=True)
    assert "--id names a column, but a.npz is not a table" in refused.stderr


def test_thresholds_and_measures_on_the_training_file_warn(folder: Path) -> None:
    run(
        "--quiet",
        "train",
        "loans.csv",
        "--target",
        "defaulted",
        "--model",
        "logistic",
        "-o",
        "m.apmax",
    )
    for command in (
        "threshold m.apmax --recall 0.8 --data loans.csv",
        "evaluate m.apmax loans.csv",
    ):
        assert "the file that the model was trained on" in run(*command.split()).stderr
    assert "was trained on" not in run("evaluate", "m.apmax", "new-loans.csv").stderr
