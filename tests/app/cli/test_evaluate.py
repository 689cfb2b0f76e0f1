"""The commands `apmax evaluate` and `report` on a trained model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apmax import average_precision
from tests.app.loans import as_json, made_loans, run


def test_evaluate_agrees_with_the_predictions(model: str) -> None:
    result = as_json("evaluate", model, "new-loans.csv")
    run("predict", model, "new-loans.csv", "--out", "p.csv")
    predicted = pd.read_csv("p.csv")
    y = made_loans(400, 1)["defaulted"] == "yes"
    assert result["average_precision"] == pytest.approx(average_precision(y, predicted["log_odds"]))
    assert result["average_precision"] > 1.5 * result["prevalence"]
    assert set(result["operating_points"]) == {"0.5", "0.8", "0.9", "0.95"}
    assert result["calibration"].startswith("The probabilities are ")
    assert result["calibration"] in run("evaluate", model, "new-loans.csv").stdout


def test_labels_may_be_spelled_differently(model: str) -> None:
    frame = made_loans(400, 1)
    frame["defaulted"] = frame["defaulted"].str.upper() + "."
    frame.to_csv("shouted.csv", index=False)
    plain, shouted = (as_json("evaluate", model, f"{n}.csv") for n in ("new-loans", "shouted"))
    assert plain == shouted


def test_the_negative_label_of_the_model_is_refused_as_positive(model: str) -> None:
    refused = run("evaluate", model, "new-loans.csv", "--positive", "No", fails=True)
    assert "it finds 'yes'" in refused.stderr


@pytest.mark.parametrize(
    ("labels", "advice"),
    [
        ({"yes": "bad", "no": "good"}, "name the label that means 'yes' here with --positive"),
        ({"yes": "no"}, "use rows of both labels"),
    ],
)
def test_unknown_labels_are_compared_with_those_of_the_model(
    model: str, labels: dict[str, str], advice: str
) -> None:
    frame = made_loans(400, 1)
    frame.assign(defaulted=frame["defaulted"].replace(labels)).to_csv("other.csv", index=False)
    refused = run("evaluate", model, "other.csv", fails=True).stderr
    assert "the model was trained to tell 'yes' from 'no'" in refused
    assert advice in refused


def test_labels_of_another_name_can_be_evaluated(model: str) -> None:
    frame = made_loans(400, 1)
    named = frame["defaulted"].replace({"yes": "bad", "no": "good"})
    frame.assign(defaulted=named).to_csv("other.csv", index=False)
    result = as_json("evaluate", model, "other.csv", "--positive", "bad")
    assert result == as_json("evaluate", model, "new-loans.csv")


def test_the_stored_threshold_is_evaluated_on_new_data(model: str) -> None:
    assert as_json("evaluate", model, "new-loans.csv")["stored_threshold"] is None
    shown = run("evaluate", model, "new-loans.csv").stdout
    assert "apmax threshold m.apmax --top 5% --data FILE" in shown
    run("threshold", model, "--recall", "0.5", "--data", "valid.csv")
    stored = as_json("evaluate", model, "new-loans.csv")["stored_threshold"]
    run("predict", model, "new-loans.csv", "--out", "p.csv")
    alerts = pd.read_csv("p.csv")["label"] == "yes"
    y = made_loans(400, 1)["defaulted"] == "yes"
    assert (stored["alerts"], stored["true_alerts"]) == (alerts.sum(), (alerts & y).sum())
    assert "stored threshold" in run("evaluate", model, "new-loans.csv").stdout


def test_the_top_rows_are_evaluated(model: str) -> None:
    top = as_json("evaluate", model, "new-loans.csv")["top"]
    assert [one["share"] for one in top] == [0.01, 0.02, 0.05, 0.1]
    assert [one["rows"] for one in top] == [4, 8, 20, 40]


def test_each_rule_is_shown_with_the_precision_that_it_reaches(model: str) -> None:
    made_loans(20_000, 4).to_csv("many.csv", index=False)
    points = as_json("evaluate", model, "many.csv")["operating_points"]
    lines = {line.split("  ")[0].strip(): line for line in
             run("evaluate", model, "many.csv").stdout.splitlines()}  # fmt: skip
    for target, point in points.items():
        shown = "never" if point is None else f"{point['precision']:.1%}"
        assert shown in lines[f"precision ≥ {float(target):.0%}"]


def test_data_without_labels_need_predict(model: str) -> None:
    made_loans(50, 3).drop(columns="defaulted").to_csv("bare.csv", index=False)
    assert "use `apmax predict`" in run("evaluate", model, "bare.csv", fails=True).stderr
    assert as_json("predict", model, "bare.csv", "-o", "p.csv")["rows"] == 50


def test_drift_is_reported_on_stderr_in_json_and_in_the_report(model: str) -> None:
    pd.read_csv("new-loans.csv").assign(income="lots").to_csv("odd.csv", index=False)
    for command, *option in (["predict", "--allow-empty"], ["evaluate"]):
        result = run(command, model, "odd.csv", *option)
        assert "warning: 'income': 400 of 400 values are not a number" in result.stderr
        assert "warning" not in result.stdout
        found = as_json(command, model, "odd.csv", *option)["warnings"]
        assert found[0].startswith("'income': 400")
        assert "warning" not in run(command, model, "new-loans.csv").stderr
    run("report", model, "odd.csv", "-o", "odd.html")
    assert "Warning: &#39;income&#39;: 400 of 400" in Path("odd.html").read_text()


def test_reports_can_be_written_by_both_commands(model: str) -> None:
    result = as_json("report", model, "new-loans.csv", "-o", "r.html")
    assert result == {"report": "r.html", "tables": [], "warnings": []}
    run("--quiet", "evaluate", model, "new-loans.csv", "--report", "e.html")
    for page in ("r.html", "e.html"):
        assert "new-loans.csv" in Path(page).read_text()


def test_report_exports_its_tables(model: str) -> None:
    result = as_json("report", model, "new-loans.csv", "--csv", "tables")
    assert {Path(table).stem for table in result["tables"]} >= {"metrics", "deciles", "calibration"}
    evaluated = as_json("evaluate", model, "new-loans.csv")
    assert pd.read_csv("tables/metrics.csv")["ap"][0] == pytest.approx(
        evaluated["average_precision"]
    )
    refused = run("report", model, "new-loans.csv", "--csv", "new-loans.csv", fails=True)
    assert "give `--csv` the name of a folder" in refused.stderr


def test_drift_is_reported_against_the_training_data(model: str) -> None:
    same = as_json("evaluate", model, "new-loans.csv")["drift"]
    assert {shift["size"] for shift in same} == {"small"}
    assert same[0]["column"] == "predicted probability"
    frame = made_loans(400, 1)
    frame.assign(income=frame["income"] * 3).to_csv("rich.csv", index=False)
    shown = run("evaluate", model, "rich.csv")
    assert "shift since training: 'income' (PSI " in shown.stderr
    assert "if AP has fallen since earlier rows" in shown.stderr
    run("report", model, "rich.csv", "-o", "rich.html", "--csv", "tables")
    drift = pd.read_csv("tables/drift.csv").set_index("column")
    assert drift.loc["income", "size"] == "large"
    assert "Drift since training" in Path("rich.html").read_text()
    assert "AP in training, by cross-validation" in Path("rich.html").read_text()


def test_a_threshold_that_is_measured_where_it_was_chosen_is_noted(folder: Path) -> None:
    run("train", "loans.csv", "--target", "defaulted", "--out", "m.apmax", "--model", "logistic")
    chosen = run("threshold", "m.apmax", "--top", "5%", "--data", "new-loans.csv")
    assert "95 % interval" in chosen.stdout
    note = "the stored threshold was chosen on new-loans.csv"
    assert note in run("evaluate", "m.apmax", "new-loans.csv").stderr
    assert note not in run("evaluate", "m.apmax", "loans.csv").stderr
    again = run("threshold", "m.apmax", "--top", "6%", "--data", "new-loans.csv")
    assert note not in again.stderr
    trained = run("train", "loans.csv", "--target", "defaulted", "--out", "m.apmax")
    assert "the earlier threshold (top 6% on new-loans.csv) is not that of this" in trained.stdout


@pytest.mark.parametrize(("heavy", "advice"), [(1.0, "--precision 50%"), (1e6, "--top 5%")])
def test_a_precision_is_proposed_if_enough_alerts_of_equal_weight_have_it(
    folder: Path, heavy: float, advice: str
) -> None:
    x = np.arange(600) % 10
    frame = pd.DataFrame({"x": x, "y": (x == 9) & (np.arange(600) % 30 != 29), "w": 1.0})
    frame.to_csv("t.csv", index=False)
    frame.assign(w=[heavy] * 100 + [1.0] * 500).to_csv("v.csv", index=False)
    command = "train t.csv --target y --model logistic -o m.apmax --drop w"
    run("--quiet", *command.split())
    assert advice in run("evaluate", "m.apmax", "v.csv", "--weight", "w").stdout
