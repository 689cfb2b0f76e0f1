"""The command `apmax threshold`."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apmax import operating_point
from apmax.app.model import load_model
from tests.app.loans import as_json, made_loans, predicted, run


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
    assert "(recall ≥ 0.7 on valid.csv, stored in the model: probability ≥ " in note
    assert (
        as_json("predict", model, "new-loans.csv")["decision"]["threshold"] == (result["threshold"])
    )


@pytest.mark.parametrize("option", ["--precision 20%", "--recall 0.8", "--top 5%", "--cost 1:20"])
def test_what_to_expect_is_printed_with_counts(model: str, option: str) -> None:
    shown = run("threshold", model, *shlex.split(option), "--data", "valid.csv")
    assert "valid.csv: probability ≥ 0." in shown.stdout
    point = load_model(model).operating_point
    assert point is not None
    for part, whole in [(point.alerts, 2000), (point.true_alerts, point.alerts),
                        (point.true_alerts, point.positives)]:  # fmt: skip
        assert f"{part:,} of {whole:,}" in shown.stdout
    assert shown.stderr == ""


def test_the_report_begins_with_the_stored_costs(model: str) -> None:
    run("threshold", model, "--cost", "2:50", "--data", "valid.csv")
    run("report", model, "new-loans.csv", "-o", "r.html")
    found = re.search(r'id="data">(.*?)</script>', Path("r.html").read_text(), flags=re.DOTALL)
    assert found is not None
    data = json.loads(found.group(1))
    assert data["costs"][data["cost"]] == 25


def test_a_later_choice_replaces_the_stored_one(model: str) -> None:
    for share in ("10%", "5%"):
        result = as_json("threshold", model, "--top", share, "--data", "valid.csv")
    assert result["alerts"] == 100
    assert as_json("predict", model, "valid.csv")["decision"]["alerts"] == 100


def test_few_alerts_are_reported_as_uncertain(model: str) -> None:
    result = run("threshold", model, "--top", "1%", "--data", "valid.csv")
    assert "uncertain with 20 alerts" in result.stderr


@pytest.mark.parametrize("unit", [0.001, 1000.0])
def test_intervals_and_warnings_do_not_depend_on_the_unit_of_weights(
    model: str, unit: float
) -> None:
    made_loans(2000, 2).assign(w=unit).to_csv("weighted.csv", index=False)
    for share in ("1%", "5%"):
        command = ("threshold", model, "--top", share, "--data")
        plain = run(*command, "valid.csv")
        weighted = run(*command, "weighted.csv", "--weight", "w")
        assert weighted.stderr == plain.stderr
        table = plain.stdout.splitlines()[1:7]
        assert "%" in table[-1]
        assert weighted.stdout.splitlines()[1:7] == table


def test_few_heavy_alerts_are_as_uncertain_as_few_alerts(model: str) -> None:
    heavy = 1 + 1e6 * (np.arange(2000) % 10 == 0)
    made_loans(2000, 2).assign(w=heavy).to_csv("weighted.csv", index=False)
    shown = run("threshold", model, "--top", "5%", "--data", "weighted.csv", "--weight", "w")
    probability = predicted("valid.csv")["probability"]
    alerts = probability >= load_model(model).operating_point.threshold
    few = int((heavy[alerts] > 1).sum())
    assert few < 30 < alerts.sum()
    assert f"uncertain with {alerts.sum()} alerts, as with {few} equal ones" in shown.stderr
    assert f"{alerts.sum()} of 2,000" in shown.stdout


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


def test_an_option_takes_precedence_over_the_stored_threshold(model: str) -> None:
    run("threshold", model, "--top", "50%", "--data", "valid.csv")
    result = run("predict", model, "valid.csv", "--top", "7", "-o", "p.csv")
    assert (pd.read_csv("p.csv")["label"] == "yes").sum() == 7
    assert "2,000 rows, 7 labelled 'yes' (top 7) → p.csv" in result.stdout
    assert result.stderr == ""


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
