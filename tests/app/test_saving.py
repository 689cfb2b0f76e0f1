"""Models that were fitted in Python, as model files."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import apmax
from apmax import AdditiveAPClassifier, APClassifier, APClassifierCV, AutoAPClassifier
from apmax.app import TablePreprocessor
from apmax.app.model import load_model
from apmax.errors import ApmaxError, LabelError, ParameterError, ShapeError
from tests.app.loans import as_json, made_loans, predicted, run

LOANS, NEW = (made_loans(*of).replace({"city": {"?": None}}) for of in ((600, 0), (200, 5)))
X, Y = LOANS[["income", "city"]], (LOANS["defaulted"] == "yes").astype(int)
NUMBERS = pd.DataFrame({"a": np.log(X["income"].fillna(1e4)), "b": Y.index % 7})
STACK = AutoAPClassifier(["boosting-5x100", "extra-trees", "stack"], select="stack", cv=3)


@pytest.mark.parametrize("model", [APClassifierCV(cv=2), AdditiveAPClassifier(cv=2)])
def test_a_fit_that_ctrl_c_ended_can_be_saved(model: Any, tmp_path: Path) -> None:
    """It has no held-out log-odds."""

    def press(stage: str, *_: Any) -> None:
        if stage.startswith("path over alpha"):
            signal.raise_signal(signal.SIGINT)

    model.on_progress = press
    with pytest.warns(ConvergenceWarning, match="kept logistic regression"):
        model.fit(NUMBERS, Y)
    assert np.isnan(model.out_of_fold_).all()
    apmax.save(model, tmp_path / "m.apmax", NUMBERS)
    loaded = apmax.load(tmp_path / "m.apmax")
    expected = model.predict_proba(NUMBERS)
    np.testing.assert_allclose(loaded.predict_proba(NUMBERS), expected)
    assert {shift.size for shift in loaded.shifts(NUMBERS)} == {"small"}


def test_rows_to_save_with_need_the_columns_of_the_fit(tmp_path: Path) -> None:
    model = AdditiveAPClassifier(cv=2, interactions=0).fit(NUMBERS, Y)
    for rows, named in (
        (NUMBERS[["a"]], "has no column 'b'"),
        (NUMBERS.assign(c=1), "also has the column 'c'"),
        (NUMBERS[["b", "a"]], "in another order"),
    ):
        with pytest.raises(ShapeError, match=named):
            apmax.save(model, tmp_path / "m.apmax", rows)


def fitted(model: Any, X: Any, y: Any = Y) -> Any:
    return model.fit(X, y)


@pytest.mark.parametrize(
    ("model", "X", "new"),
    [
        (STACK, X, NEW),
        (AutoAPClassifier(["logistic", "additive"], cv=3), X, NEW),
        (AdditiveAPClassifier(cv=3), X, NEW),
        (APClassifierCV(cv=3), NUMBERS, NUMBERS[::-1]),
        (LogisticRegression(), NUMBERS, NUMBERS[::-1]),
        (AdditiveAPClassifier(cv=3), NUMBERS.to_numpy(), NUMBERS.to_numpy()[::-1]),
        (AutoAPClassifier(["boosting-5x100"], cv=3), NUMBERS.to_numpy(), NUMBERS.to_numpy()),
        (APClassifierCV(cv=3), NUMBERS.to_numpy(), NUMBERS.to_numpy()[::-1]),
        (make_pipeline(TablePreprocessor(), AdditiveAPClassifier(cv=3)), LOANS.iloc[:, :3], NEW),
    ],
)
def test_a_saved_model_predicts_as_before(model: Any, X: Any, new: Any, tmp_path: Path) -> None:
    if hasattr(new, "columns"):
        new = new[[*X.columns]]
    fitted(model, X)
    apmax.save(model, tmp_path / "m.apmax", X)
    again = apmax.load(tmp_path / "m.apmax")
    np.testing.assert_allclose(again.predict_proba(new), model.predict_proba(new), atol=1e-12)
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    assert again.classes_.tolist() == [0, 1]
    assert again.predict(new).dtype == model.predict(new).dtype


def test_a_loaded_stack_explains_rows_like_the_fitted_one(tmp_path: Path) -> None:
    model = fitted(STACK, X)
    parts = model.explain(NEW[["income", "city"]])
    assert list(parts) == ["income", "city"]
    typical = X["income"].quantile(interpolation="lower")
    changed = NEW[["income", "city"]].assign(income=typical)
    expected = model.predict_log_odds(NEW[["income", "city"]]) - model.predict_log_odds(changed)
    np.testing.assert_allclose(parts["income"], expected, atol=1e-12)
    apmax.save(model, tmp_path / "m.apmax", X)
    again = apmax.load(tmp_path / "m.apmax")
    np.testing.assert_allclose(again.explain(NEW), parts, atol=1e-9)
    np.testing.assert_allclose(again[-1].explain(NEW[["income", "city"]]), parts, atol=1e-9)


@pytest.mark.parametrize("labels", [["b", "a"], [True, False], [10, 2], [2.0, 1.0]])
def test_labels_keep_their_type(labels: list[Any], tmp_path: Path) -> None:
    y = np.where(Y == 1, labels[0], labels[1])
    model = AdditiveAPClassifier(cv=3, interactions=0, pos_label=labels[0]).fit(X, y)
    apmax.save(model, tmp_path / "m.apmax", X)
    again = apmax.load(tmp_path / "m.apmax")
    assert again.classes_.tolist() == sorted(labels)
    assert again[-1].pos_label_ == labels[0]
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_allclose(
        load_model(tmp_path / "m.apmax").probability(X).mean(), Y.mean(), rtol=0.1
    )


def test_an_operating_point_of_python_is_used_by_the_commands(folder: Path) -> None:
    model = make_pipeline(TablePreprocessor(), AutoAPClassifier(["additive"], cv=3))
    apmax.save(model.fit(LOANS.iloc[:, :3], LOANS["defaulted"]), "m.apmax", target="defaulted")
    again = apmax.load("m.apmax")
    probability = again.predict_proba(NEW)[:, 1]
    again.operating_point_ = apmax.operating_point(
        NEW["defaulted"] == "yes", probability, recall=0.7
    )
    apmax.save(again, "m.apmax")
    NEW.to_csv("new.csv", index=False)
    threshold = again.operating_point_.threshold
    np.testing.assert_array_equal(predicted("new.csv")["label"] == "yes", probability >= threshold)
    shown = as_json("predict", "m.apmax", "new.csv")["decision"]
    assert shown["rule"].startswith("set in Python, with precision 0.")
    assert shown["rule"].endswith("stored in the model")
    stored = as_json("evaluate", "m.apmax", "new.csv")["stored_threshold"]
    assert stored["threshold"] == threshold
    point = apmax.load("m.apmax").operating_point_
    assert point.precision == pytest.approx(again.operating_point_.precision)
    assert point.recall == pytest.approx(again.operating_point_.recall)


def test_a_fitted_estimator_is_saved_with_its_operating_point(folder: Path) -> None:
    model = fitted(AdditiveAPClassifier(cv=3), X)
    probability = model.predict_proba(X)[:, 1]
    point = apmax.operating_point(Y, probability, recall=0.6)
    apmax.save(model, "m.apmax", X, operating_point=point)
    again = apmax.load("m.apmax")
    assert again.operating_point_.threshold == point.threshold
    np.testing.assert_array_equal(again.predict(X) == 1, probability >= point.threshold)


def test_a_loaded_pipeline_that_is_fitted_again_takes_and_saves_a_threshold(folder: Path) -> None:
    model = make_pipeline(TablePreprocessor(), AutoAPClassifier(["additive"], cv=3))
    apmax.save(model.fit(LOANS.iloc[:, :3], LOANS["defaulted"]), "m.apmax")
    again = apmax.load("m.apmax").fit(LOANS.iloc[:, :3], LOANS["defaulted"])
    probability = again.predict_proba(NEW)[:, 1]
    point = apmax.operating_point(NEW["defaulted"] == "yes", probability, recall=0.9)
    again.operating_point_ = point
    np.testing.assert_array_equal(again.predict(NEW) == "yes", probability >= point.threshold)
    apmax.save(again, "again.apmax")
    assert apmax.load("again.apmax").operating_point_.threshold == point.threshold


def test_a_model_that_is_fitted_again_is_saved_without_the_earlier_fit(tmp_path: Path) -> None:
    rows = NUMBERS.to_numpy()
    model = fitted(AutoAPClassifier(["logistic"], cv=3), rows)
    model.set_params(models=["boosting-5x100"]).fit(rows[:, :1], Y)
    apmax.save(model, tmp_path / "m.apmax", rows[:, :1])
    again = apmax.load(tmp_path / "m.apmax")
    np.testing.assert_allclose(again.predict_proba(rows[:, :1]), model.predict_proba(rows[:, :1]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": 5}, "name of a column"),
        ({"X": X.head(0)}, "no rows"),
        ({"operating_point": 0.5}, "result of apmax.operating_point"),
    ],
)
def test_what_load_would_refuse_is_not_written(
    arguments: dict[str, Any], message: str, folder: Path
) -> None:
    model = make_pipeline(TablePreprocessor(), AdditiveAPClassifier(cv=3))
    model.fit(LOANS.iloc[:, :3], LOANS["defaulted"])
    with pytest.raises(ApmaxError, match=message):
        apmax.save(model, "m.apmax", **arguments)
    assert not Path("m.apmax").exists()


def test_a_model_of_an_array_needs_an_array(folder: Path) -> None:
    numbers = X.select_dtypes("number").fillna(0.0)
    model = APClassifier().fit(numbers.to_numpy(), LOANS["defaulted"])
    with pytest.raises(ShapeError, match=r"to_numpy"):
        apmax.save(model, "m.apmax", numbers)
    apmax.save(model, "m.apmax", numbers.to_numpy())
    with pytest.raises(ValueError, match="features"):
        apmax.load("m.apmax").predict(numbers.to_numpy().repeat(2, axis=1))


def test_training_data_give_the_file_a_profile(folder: Path) -> None:
    model = fitted(AutoAPClassifier(["additive"], cv=3), X)
    apmax.save(model, "m.apmax", X, target="defaulted")
    NEW.assign(income=NEW["income"] * 3).to_csv("rich.csv", index=False)
    drift = as_json("predict", "m.apmax", "rich.csv")["drift"]
    assert {one["column"]: one["size"] for one in drift}["income"] == "large"
    assert as_json("evaluate", "m.apmax", "new-loans.csv", "--positive", "yes")["rows"] == 400


@pytest.mark.parametrize(
    "model",
    [
        AdditiveAPClassifier(cv=3, pos_label="a"),
        APClassifierCV(cv=3, pos_label="a"),
        AutoAPClassifier(["logistic", "additive"], cv=3, pos_label="a"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_training_rows_show_no_shift_if_the_positive_label_sorts_first(
    model: Any, folder: Path
) -> None:
    apmax.save(fitted(model, NUMBERS, np.where(Y == 1, "a", "b")), "m.apmax", NUMBERS)
    NUMBERS.to_csv("same.csv", index=False)
    drift = as_json("predict", "m.apmax", "same.csv")["drift"]
    assert {one["size"] for one in drift} == {"small"}


@pytest.mark.parametrize(
    ("model", "given", "error", "message"),
    [
        (GaussianNB(), NUMBERS, ParameterError, "cannot hold GaussianNB"),
        (
            make_pipeline(StandardScaler(), APClassifierCV(cv=3)),
            NUMBERS,
            ParameterError,
            "cannot hold the steps StandardScaler",
        ),
        (AdditiveAPClassifier(cv=3), None, ShapeError, "a sample of its rows as a frame `X`"),
    ],
)
def test_what_the_file_cannot_hold_is_refused(
    model: Any, given: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    fitted(model, NUMBERS)
    with pytest.raises(error, match=message):
        apmax.save(model, tmp_path / "m.apmax", given)
    assert not (tmp_path / "m.apmax").exists()


def test_models_of_several_classes_are_refused(tmp_path: Path) -> None:
    model = LogisticRegression().fit(NUMBERS.to_numpy(), Y.index % 3)
    with pytest.raises(LabelError, match=r"labels \[0, 1, 2\]"):
        apmax.save(model, tmp_path / "m.apmax")


def test_categories_that_are_numbers_return(tmp_path: Path) -> None:
    frame = NUMBERS.assign(b=(Y.index % 5).astype(float)).astype({"a": float})
    frame.loc[3, "b"] = np.nan
    model = AdditiveAPClassifier(cv=3, categorical_features=["b"]).fit(frame, Y)
    apmax.save(model, tmp_path / "m.apmax", frame)
    again = apmax.load(tmp_path / "m.apmax")
    np.testing.assert_allclose(again.predict_proba(frame), model.predict_proba(frame), atol=1e-12)


def test_the_name_of_the_target_stays_when_a_model_is_fitted_again(folder: Path) -> None:
    loans = made_loans(600, 0)
    X, y = loans.drop(columns="defaulted"), loans["defaulted"]
    steps = (TablePreprocessor(), AdditiveAPClassifier(cv=2))
    fitted = make_pipeline(*steps).fit(X, y)
    apmax.save(fitted, "m.apmax", X)
    shown = run("evaluate", "m.apmax", "new-loans.csv", fails=True).stderr
    assert "m.apmax does not store the name of its target" in shown
    assert "--target" in shown
    run("evaluate", "m.apmax", "new-loans.csv", "--target", "defaulted")
    apmax.save(fitted, "m.apmax", X, target="defaulted")
    loaded = apmax.load("m.apmax")
    apmax.save(loaded.fit(X[::2], y[::2]), "again.apmax", X)
    assert apmax.load("again.apmax").target_ == loaded.target_ == "defaulted"
    as_json("evaluate", "again.apmax", "new-loans.csv")
    apmax.save(loaded, "other.apmax", X, target="late")
    assert apmax.load("other.apmax").target_ == "late"
