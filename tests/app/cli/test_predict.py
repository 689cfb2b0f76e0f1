"""The command `apmax predict`."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apmax.app.model import load_model
from tests.app.loans import as_json, made_loans, predicted, run


def test_predictions_as_csv_parquet_json_and_on_stdout(model: str) -> None:
    text = run("predict", model, "new-loans.csv").stdout
    predicted = pd.read_csv(io.StringIO(text))
    assert set(predicted["label"]) <= {"yes", "no"}
    np.testing.assert_array_equal(predicted["label"] == "yes", predicted["probability"] >= 0.5)
    run("predict", model, "new-loans.csv", "--out", "p.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet("p.parquet"), predicted)
    result = as_json("predict", model, "new-loans.csv")
    assert {shift["size"] for shift in result.pop("drift")} == {"small"}
    assert result == {
        **predicted.to_dict("list"),
        "decision": {
            "rule": "probability ≥ 0.5",
            "threshold": 0.5,
            "alerts": int((predicted["label"] == "yes").sum()),
        },
        "warnings": [],
    }


def test_a_row_gets_the_same_score_in_every_file(folder: Path) -> None:
    rng = np.random.default_rng(5)
    code = rng.choice(["01", "02", "A3"], 400)
    frame = pd.DataFrame({"code": code, "y": rng.random(400) < np.where(code == "01", 0.6, 0.2)})
    frame.to_csv("codes.csv", index=False)
    run("--quiet", "train", "codes.csv", "--target", "y", "--model", "logistic", "-o", "m.apmax")
    Path("all.csv").write_text("code\n01\n02\nA3\n")
    Path("some.csv").write_text("code\n01\n02\n")
    every = pd.read_csv(io.StringIO(run("predict", "m.apmax", "all.csv").stdout))
    some = pd.read_csv(io.StringIO(run("predict", "m.apmax", "some.csv").stdout))
    pd.testing.assert_frame_equal(every.iloc[:2], some)
    assert every["probability"].nunique() == 3


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


def test_rows_of_a_matrix_have_no_identifier(folder: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez("a.npz", X=rng.normal(size=(60, 2)), y=np.arange(60) % 3 == 0)
    run("--quiet", "train", "a.npz", "--model", "logistic", "-o", "m.apmax")
    refused = run("predict", "m.apmax", "a.npz", "--id", "customer", fails=True)
    assert "--id names a column, but a.npz is not a table" in refused.stderr


def test_predict_prints_the_threshold_of_a_cost(folder: Path) -> None:
    fast = ("--target", "defaulted", "--model", "logistic", "-o", "m.apmax")
    run("--quiet", "train", "loans.csv", *fast)
    result = run("predict", "m.apmax", "new-loans.csv", "--cost", "1:20", "-o", "p.csv")
    assert "(cost 1:20: probability ≥ 0.04761) → p.csv" in result.stdout
    shown = run("predict", "m.apmax", "new-loans.csv", "--cost", "1:20")
    assert "cost 1:20: probability ≥ 0.04761" in shown.stderr
    alerts = (pd.read_csv("p.csv")["probability"] >= 1 / 21).sum()
    assert f"400 rows, {alerts} labelled 'yes'" in shown.stderr
    assert np.isclose(as_json("predict", "m.apmax", "new-loans.csv", "--cost", "1:20")["decision"]
                      ["threshold"], 1 / 21)  # fmt: skip


def test_only_alerts_are_written_the_most_probable_first(model: str) -> None:
    every = predicted("valid.csv", "--top", "25")
    alerts = predicted("valid.csv", "--top", "25", "--only-alerts")
    every.insert(0, "row", np.arange(1, 2001))
    expected = every[every["label"] == "yes"].sort_values("probability", ascending=False)
    pd.testing.assert_frame_equal(alerts, expected.reset_index(drop=True))
    assert alerts["probability"].is_monotonic_decreasing
    result = run("predict", model, "valid.csv", "--top", "25", "--only-alerts", "-o", "p.csv")
    assert "2,000 rows, 25 labelled 'yes'" in result.stdout


def test_alerts_with_an_id_column_named_row(folder: Path) -> None:
    loans = made_loans(400, 0).assign(row=7)
    loans.to_csv("rows.csv", index=False)
    run("train", "rows.csv", "--target", "defaulted", "--id", "row", "--model", "logistic")
    shown = as_json("predict", "model.apmax", "rows.csv", "--only-alerts", "--top", "3")
    assert len(shown["row number"]) == 3
    assert shown["row"] == ["7", "7", "7"]


@pytest.mark.parametrize(("kind", "typical"), [("boosting-5x100", True), ("logistic", False)])
def test_reasons_of_trees_name_their_reference(kind: str, typical: bool, folder: Path) -> None:
    run("train", "loans.csv", "--target", "defaulted", "--model", kind)
    shown = run("predict", "model.apmax", "new-loans.csv", "--explain", "1", "-o", "p.csv")
    assert ("typical value of the column" in shown.stderr) == typical


def test_columns_of_the_output_do_not_depend_on_the_number_of_alerts(model: str) -> None:
    options = ("--threshold", "1", "--only-alerts", "--explain", "2")
    assert [*predicted("valid.csv", *options).columns] == [
        *("row", "probability", "log_odds", "label", "reason_1", "reason_2")
    ]


def test_shifts_since_training_are_noted_without_labels(model: str) -> None:
    frame = made_loans(400, 1).drop(columns="defaulted")
    frame.assign(income=frame["income"] * 3).to_csv("rich.csv", index=False)
    shown = run("predict", model, "rich.csv", "-o", "p.csv").stderr
    assert "note: shift since training: 'income' (PSI " in shown
    assert f"run `apmax evaluate {model} FILE` on labelled rows like these" in shown
    drift = as_json("predict", model, "rich.csv", "-o", "p.csv")["drift"]
    assert {one["column"]: one["size"] for one in drift}["income"] == "large"
    assert "shift" not in run("predict", model, "new-loans.csv", "-o", "p.csv").stderr
    assert "shift" not in run("--quiet", "predict", model, "rich.csv", "-o", "p.csv").stderr


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (None, "'income' is empty, but had values in 94.3 % of the rows in training"),
        ("lots", "'income': 30 of 30 values are not a number (first 'lots')"),
    ],
)
def test_a_column_that_lost_all_its_values_is_an_error(
    model: str, values: str | None, message: str
) -> None:
    made_loans(30, 1).assign(income=values).to_csv("lost.csv", index=False)
    refused = run("predict", model, "lost.csv", "-o", "p.csv", fails=True).stderr
    assert f"error: lost.csv: {message}" in refused
    assert "--allow-empty" in refused
    assert not Path("p.csv").exists()
    result = as_json("predict", model, "lost.csv", "-o", "p.csv", "--allow-empty")
    assert result["rows"] == 30
    assert result["warnings"][0].startswith(message)
    made_loans(1, 1).assign(income=None).to_csv("one.csv", index=False)
    assert as_json("predict", model, "one.csv", "-o", "p.csv")["rows"] == 1


def test_a_column_of_new_categories_is_an_error(model: str) -> None:
    made_loans(300, 1).assign(city="1").to_csv("codes.csv", index=False)
    for command in (("predict",), ("threshold", "--top", "5%", "--data")):
        name, *options = command
        refused = run(name, model, *options, "codes.csv", fails=True).stderr
        assert "error: codes.csv: 'city': none of the 300 values occurred in training" in refused
        assert "(first '1'; training had 'Oslo', 'Paris', 'Rome')" in refused
        run(name, model, *options, "codes.csv", "--allow-empty")
    assert "warning: 'city': none of the 300" in run("evaluate", model, "codes.csv").stderr


def test_a_threshold_is_not_chosen_on_unreadable_data(model: str) -> None:
    before = Path(model).read_bytes()
    made_loans(300, 1).assign(income="lots").to_csv("text.csv", index=False)
    command = ("threshold", model, "--top", "5%", "--data", "text.csv")
    assert "300 of 300 values are not a number" in run(*command, fails=True).stderr
    choose = ("predict", model, "new-loans.csv", "--recall", "0.5", "--valid", "text.csv")
    assert "300 of 300 values are not a number" in run(*choose, fails=True).stderr
    assert Path(model).read_bytes() == before
    assert "300 of 300" in as_json(*command, "--allow-empty")["warnings"][0]
    assert Path(model).read_bytes() != before


def test_absent_columns_are_reported_with_the_file_and_its_first_row(model: str) -> None:
    frame = made_loans(30, 1)
    frame.drop(columns=["income", "city"]).to_csv("few.csv", index=False)
    refused = run("predict", model, "few.csv", fails=True).stderr
    assert "error: few.csv has no columns 'income', 'city': the model needs all 3" in refused
    assert "header" not in refused
    frame[["income"]].to_csv("one.csv", index=False)
    assert (
        "one.csv has no columns 'city', 'since'"
        in run("predict", model, "one.csv", fails=True).stderr
    )
    for columns in (["income", "city", "since"], ["city", "since"]):  # numbers are no header
        frame[columns].dropna().to_csv("bare.csv", index=False, header=False)
        first = Path("bare.csv").read_text().split(",")[0]
        refused = run("predict", model, "bare.csv", fails=True).stderr
        assert f"its first row is {first!r}, " in refused
        assert "is the header missing?" in refused


def test_output_to_stdout_needs_no_option(model: str) -> None:
    refused = run("predict", model, "new-loans.csv", "--out", "-", fails=True)
    assert "leave --out away to write CSV to stdout" in refused.stderr
