"""What files may hold, which label is meant, and what is told of what is not used."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.datasets import data_folder
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler
from tests.cli.loans import as_json, made_loans, run

from apmax import average_precision
from apmax.app.data import load
from apmax.errors import LabelError
from apmax.app.pipeline.encoder import TableEncoder
from apmax.app.pipeline.storage import load_model


def test_the_positive_label_can_be_chosen(folder: Path) -> None:
    options = ("--target", "defaulted", "--positive", "no", "--solver", "lbfgs", "-o", "m.apmax")
    assert as_json("train", "loans.csv", *options)["positive"] == "no"
    assert load_model("m.apmax").positive == "no"


def test_labels_may_be_spelled_a_bit_otherwise(folder: Path) -> None:
    frame = made_loans(400, 1)
    frame["defaulted"] = frame["defaulted"].str.upper() + "."
    frame.to_csv("shouted.csv", index=False)
    plain = load("new-loans.csv", target="defaulted", positive="yes")
    shouted = load("shouted.csv", target="defaulted", positive="yes")
    np.testing.assert_array_equal(plain.y, shouted.y)
    flipped = load("new-loans.csv", target="defaulted", positive="no")
    np.testing.assert_array_equal(plain.y, ~flipped.y)


@pytest.mark.skipif(data_folder() is None, reason="needs adult and w8a: set APMAX_DATA")
@pytest.mark.parametrize("name", ["adult", "w8a"])
def test_real_data_needs_no_option_but_the_target(name: str, tmp_path: Path) -> None:
    """And the test AP is at least that of logistic regression on the same features."""
    shared = data_folder()
    assert shared is not None
    if name == "adult":
        files = [shared / "tabular" / f"adult-{part}.csv.xz" for part in ("train", "test")]
        target: list[str] = ["--target", "last"]
    else:
        files = [shared / "libsvm" / f"w8a{part}.xz" for part in ("", ".t")]
        target = []
    out = str(tmp_path / "m.apmax")
    told = as_json("train", str(files[0]), *target, "--test", str(files[1]), "--out", out)
    learnt = load(files[0], target="last" if target else None)
    tested = load(files[1], target=learnt.target, positive=str(learnt.positive_label))
    encoder = TableEncoder.fit(learnt.X) if target else None
    X, X_test = (
        part if encoder is None else encoder.transform(part) for part in (learnt.X, tested.X)
    )
    scaler = MaxAbsScaler().fit(X)
    logistic = LogisticRegression(max_iter=3000).fit(scaler.transform(X), learnt.y)
    assert tested.y is not None
    expected = average_precision(tested.y, logistic.decision_function(scaler.transform(X_test)))
    assert told["test_ap"] >= expected - 0.0005


def test_a_row_gets_the_same_score_whatever_else_is_in_its_file(folder: Path) -> None:
    rng = np.random.default_rng(5)
    code = rng.choice(["01", "02", "A3"], 400)
    frame = pd.DataFrame({"code": code, "y": rng.random(400) < np.where(code == "01", 0.6, 0.2)})
    frame.to_csv("codes.csv", index=False)
    run("--quiet", "train", "codes.csv", "--target", "y", "--solver", "lbfgs", "-o", "m.apmax")
    Path("all.csv").write_text("code\n01\n02\nA3\n")
    Path("some.csv").write_text("code\n01\n02\n")
    every = pd.read_csv(io.StringIO(run("predict", "m.apmax", "all.csv").stdout))
    some = pd.read_csv(io.StringIO(run("predict", "m.apmax", "some.csv").stdout))
    pd.testing.assert_frame_equal(every.iloc[:2], some)
    assert every["probability"].nunique() == 3


def test_labels_that_differ_in_case_only_are_told_apart(folder: Path) -> None:
    frame = made_loans(300, 7)
    frame["defaulted"] = np.where(frame["defaulted"] == "yes", "m", "M")
    frame.to_csv("case.csv", index=False)
    for label in ("m", "M"):
        found = load("case.csv", target="defaulted", positive=label)
        np.testing.assert_array_equal(found.y, frame["defaulted"] == label)


def test_a_spelling_that_fits_two_labels_is_not_guessed(folder: Path) -> None:
    Path("two.csv").write_text("x,y\n1,Yes\n2,YES\n3,Yes\n")
    with pytest.raises(LabelError, match="'YES', 'Yes', and which of them is 'yes' is not clear"):
        load("two.csv", target="y", positive="yes")


@pytest.fixture
def cases(folder: Path) -> pd.DataFrame:
    """Three outcomes in cases.csv; the rare one is fraud."""
    frame = made_loans(400, 1)
    frame["outcome"] = np.where(frame["defaulted"] == "yes", "fraud", "fine")
    frame.loc[::7, "outcome"] = "open"
    frame = frame.drop(columns="defaulted")
    frame.to_csv("cases.csv", index=False)
    return frame


def test_one_value_is_found_among_all_others(cases: pd.DataFrame) -> None:
    one = ("--target", "outcome", "--positive", "fraud", "--rest")
    told = as_json("train", "cases.csv", *one, "--solver", "lbfgs", "-o", "m.apmax")
    assert (told["positive"], told["negative"]) == ("fraud", "not fraud")
    dataset = load("cases.csv", target="outcome", positive="Fraud", against_rest=True)
    np.testing.assert_array_equal(dataset.y, cases["outcome"] == "fraud")
    assert as_json("evaluate", "m.apmax", "cases.csv")["positives"] == int(dataset.y.sum())
    labels = as_json("predict", "m.apmax", "cases.csv")["label"]
    assert set(labels) == {"fraud", "not fraud"}


def test_a_third_value_is_refused_unless_it_may_count_as_the_rest(cases: pd.DataFrame) -> None:
    refused = run("train", "cases.csv", "--target", "outcome", "--positive", "fraud", fails=True)
    assert "holds 3 values" in refused.stderr
    assert "--positive VALUE --rest" in refused.stderr
    refused = run("train", "cases.csv", "--target", "outcome", "--rest", fails=True)
    assert "say which with --positive VALUE" in refused.stderr
    two = cases[cases["outcome"] != "open"]
    two.to_csv("two.csv", index=False)
    run("--quiet", "train", "two.csv", "--target", "outcome", "--solver", "lbfgs", "-o", "m.apmax")
    assert "holds 3 values" in run("evaluate", "m.apmax", "cases.csv", fails=True).stderr
    told = as_json("evaluate", "m.apmax", "cases.csv", "--rest")
    assert told["rows"] == len(cases)


def test_labels_that_training_did_not_have_are_told(cases: pd.DataFrame) -> None:
    one = ("--target", "outcome", "--positive", "fraud", "--rest")
    run("--quiet", "train", "cases.csv", *one, "--solver", "lbfgs", "-o", "m.apmax")
    assert load_model("m.apmax").rest == ["fine", "open"]
    cases.loc[:5, "outcome"] = "fruad"
    cases.to_csv("new.csv", index=False)
    (note,) = as_json("evaluate", "m.apmax", "new.csv")["notes"]
    assert note == "labels that training did not have count as 'not fraud': 'fruad' (6)"
    renamed = cases.replace({"outcome": {"fraud": "betrug", "fruad": "open"}})
    renamed.to_csv("renamed.csv", index=False)
    told = as_json("evaluate", "m.apmax", "renamed.csv", "--positive", "betrug")
    assert told["positives"] == (renamed["outcome"] == "betrug").sum()
    assert told["notes"] == []


def test_labels_named_like_a_rest_are_two_labels(cases: pd.DataFrame) -> None:
    cases = cases.replace({"outcome": {"fine": "not fraud"}})
    cases.to_csv("three.csv", index=False)
    cases[cases["outcome"] != "open"].to_csv("two.csv", index=False)
    run("--quiet", "train", "two.csv", "--target", "outcome", "--solver", "lbfgs", "-o", "m.apmax")
    assert load_model("m.apmax").negative == "not fraud"
    assert "holds 3 values" in run("evaluate", "m.apmax", "three.csv", fails=True).stderr


def test_the_positive_in_other_letters_is_not_the_rest(cases: pd.DataFrame) -> None:
    cases.replace({"outcome": {"open": "FRAUD"}}).to_csv("letters.csv", index=False)
    one = ("--target", "outcome", "--positive", "fraud", "--rest")
    refused = run("train", "letters.csv", *one, fails=True)
    assert "has 'fraud' and 'FRAUD', which would count as the rest" in refused.stderr


def test_a_rest_of_numbers_from_training_to_the_report(folder: Path) -> None:
    rng = np.random.default_rng(3)
    grade = rng.integers(0, 3, 300)
    x = grade == 1
    pd.DataFrame({"x": x + rng.random(300), "grade": grade}).to_csv("whole.csv", index=False)
    wide = pd.DataFrame({"x": x + rng.random(300), "grade": grade.astype(float)})
    wide.to_csv("decimal.csv", index=False)
    one = ("--target", "grade", "--positive", "1", "--rest")
    options = ("--test", "decimal.csv", "--solver", "lbfgs", "-o", "m.apmax")
    assert as_json("train", "whole.csv", *one, *options)["test_ap"] > 0.9
    refused = run("evaluate", "m.apmax", "decimal.csv", "--positive", "2", fails=True)
    assert "it finds 1.0" in refused.stderr
    told = as_json("evaluate", "m.apmax", "decimal.csv", "--positive", "1.0")
    assert told["average_precision"] > 0.9
    run("report", "m.apmax", "decimal.csv", "-o", "r.html")
    assert f"{int(x.sum())} of them positive" in Path("r.html").read_text()
    only = wide[wide["grade"] == 1]
    only.to_csv("only.csv", index=False)
    assert "holds 1 value" in run("evaluate", "m.apmax", "only.csv", fails=True).stderr
    compared = as_json("compare", "whole.csv", *one, "--folds", "2", "--repeats", "1")
    assert compared["models"]["apmax (APClassifierCV)"]["mean"] > 0.9


def test_one_class_of_many_in_libsvm(folder: Path) -> None:
    Path("many.libsvm").write_text("".join(f"{k % 3} 1:{k % 3 == 2:d} 2:{k}\n" for k in range(90)))
    options = ("--positive", "2", "--rest", "--solver", "lbfgs", "-o", "m.apmax")
    assert as_json("train", "many.libsvm", *options)["test_ap"] == 1


@pytest.mark.parametrize("positives", [1, 2, 3])
def test_very_few_positives_still_train(folder: Path, positives: int) -> None:
    frame = made_loans(200, 8)
    frame["defaulted"] = np.where(np.arange(200) < positives, "yes", "no")
    frame.to_csv("rare.csv", index=False)
    options = ("--target", "last", "--test", "loans.csv", "-o", "m.apmax")
    assert as_json("train", "rare.csv", *options)["positives"] == positives


def test_a_table_with_row_numbers_from_pandas_is_read(folder: Path) -> None:
    made_loans(300, 9).to_csv("numbered.csv")
    dataset = load("numbered.csv", target="defaulted")
    assert dataset.names == ["column 1", "income", "city", "since"]


def test_decimal_commas_and_headers_that_look_like_data_are_understood(folder: Path) -> None:
    Path("comma.csv").write_text("x;y\n1,5;a\n2,25;b\n-3,0;a\n")
    assert load("comma.csv", target="y").X["x"].tolist() == [1.5, 2.25, -3.0]
    Path("years.csv").write_text("2019,2020,y\n1,2,a\n3,4,b\n5,6,a\n")
    assert load("years.csv", target="y").names == ["2019", "2020"]


def test_the_models_negative_label_cannot_be_asked_for(folder: Path) -> None:
    run("--quiet", "train", "loans.csv", "--target", "last", "--solver", "lbfgs", "-o", "m.apmax")
    refused = run("evaluate", "m.apmax", "new-loans.csv", "--positive", "No", fails=True)
    assert "it finds 'yes'" in refused.stderr


def test_rows_that_the_model_cannot_use_are_told_beside_the_result(folder: Path) -> None:
    run("train", "loans.csv", "--target", "defaulted", "-o", "m.apmax", "--solver", "lbfgs")
    frame = pd.read_csv("new-loans.csv").assign(income="lots")
    frame.to_csv("odd.csv", index=False)
    for command in ("predict", "evaluate"):
        told = run(command, "m.apmax", "odd.csv")
        assert "note: 'income': 400 of 400 values are no number" in told.stderr
        assert "note" not in told.stdout
        assert as_json(command, "m.apmax", "odd.csv")["notes"][0].startswith("'income': 400")
        assert "note" not in run(command, "m.apmax", "new-loans.csv").stderr


def test_a_report_tells_what_the_model_could_not_use(folder: Path) -> None:
    run("train", "loans.csv", "--target", "defaulted", "-o", "m.apmax", "--solver", "lbfgs")
    pd.read_csv("new-loans.csv").assign(income="lots").to_csv("odd.csv", index=False)
    run("report", "m.apmax", "odd.csv", "-o", "odd.html")
    assert "values are no number" in Path("odd.html").read_text()


def test_a_comparison_tells_what_no_model_uses(folder: Path) -> None:
    prices = [f"${1000 + k:,}" for k in range(600)]
    pd.read_csv("loans.csv").assign(price=prices).to_csv("odd.csv", index=False)
    options = ("--target", "defaulted", "--folds", "2", "--repeats", "1", "--report", "c.html")
    (note,) = as_json("compare", "odd.csv", *options)["notes"]
    assert note.startswith("'price' is text that hardly ever repeats, and is not used")
    assert "Take care: &#x27;price&#x27; is text" in Path("c.html").read_text()


def test_training_tells_what_it_does_not_use(folder: Path) -> None:
    frame = pd.read_csv("loans.csv").assign(code=[f"word {k}" for k in range(600)])
    frame["income"] = frame["income"].astype(object).where(frame.index != 7, "-")
    frame.to_csv("odd.csv", index=False)
    told = run("train", "odd.csv", "--target", "defaulted", "-o", "m.apmax", "--solver", "lbfgs")
    assert "'code' is text that hardly ever repeats, and is not used" in told.stderr
    plain = run("train", "loans.csv", "--target", "defaulted", "-o", "p.apmax", "--solver", "lbfgs")
    assert plain.stderr == ""
    assert "income" in load_model(Path("m.apmax")).feature_names()
    pd.read_csv("new-loans.csv").assign(city="Bonn", code="x").to_csv("drifted.csv", index=False)
    options = ["--target", "defaulted", "--test", "drifted.csv", "-o", "m.apmax"]
    notes = as_json("train", "odd.csv", *options, "--solver", "lbfgs")["notes"]
    assert [note.split()[0] for note in notes] == ["'income':", "'code'", "'city':"]


def test_data_without_labels_are_for_predict(folder: Path) -> None:
    run("train", "loans.csv", "--target", "defaulted", "-o", "m.apmax", "--solver", "lbfgs")
    pd.read_csv("new-loans.csv").drop(columns="defaulted").to_csv("bare.csv", index=False)
    assert "use apmax predict" in run("evaluate", "m.apmax", "bare.csv", fails=True).stderr


@pytest.mark.skipif(data_folder() is None, reason="needs w6a: set APMAX_DATA")
def test_getting_a_set_says_where_its_files_lie() -> None:
    told = as_json("data", "get", "w6a")
    rows = [load(path).X.shape[0] for path in told["files"]]
    assert rows == [told["train"]["rows"], told["test"]["rows"]]
