"""Model files in Python: a pipeline that predicts with the stored threshold and warns of drift."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

import apmax
from apmax.app.decisions import Rule, choose
from apmax.app.drift import DriftWarning, psi
from apmax.app.features import TableEncoder
from apmax.app.io import Dataset, load
from apmax.app.model import Model, save_model
from apmax.app.training import train_model
from apmax.errors import ParameterError
from tests.app.loans import made_loans

NEW = made_loans(200, 5).replace({"city": {"Rome": "Ulm"}})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    file = tmp_path_factory.mktemp("loans") / "loans.csv"
    made_loans(400, 0).to_csv(file, index=False)
    return train_model(load(file, target="defaulted"), model="boosting-5x100", folds=2).model


def test_the_python_api_returns_a_fitted_pipeline(model: Model, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m.apmax")
    pipeline = apmax.load(tmp_path / "m.apmax")
    check_is_fitted(pipeline)
    assert is_classifier(pipeline)
    assert pipeline.classes_.tolist() == ["no", "yes"]
    assert set(pipeline.predict(NEW)) <= {"yes", "no"}
    assert pipeline.predict_proba(NEW).shape == (200, 2)
    assert pipeline.score(NEW, NEW["defaulted"]) > 0.1
    assert [one.model for one in pipeline.leaderboard_ if one.chosen] == ["boosting-5x100"]
    assert pipeline.operating_point_ is None


def test_predict_uses_the_stored_threshold(model: Model, tmp_path: Path) -> None:
    point = choose(Rule("top", 0.3, "top 30%"), NEW["defaulted"] == "yes",
                   model.probability(NEW), "new.csv")  # fmt: skip
    save_model(replace(model, operating_point=point), tmp_path / "m.apmax")
    pipeline = apmax.load(tmp_path / "m.apmax")
    assert pipeline.operating_point_ == point
    np.testing.assert_array_equal(
        pipeline.predict(NEW) == "yes", pipeline.predict_proba(NEW)[:, 1] >= point.threshold
    )
    assert (pipeline.predict(NEW) == "yes").sum() == point.alerts
    pipeline.operating_point_ = apmax.operating_point(
        NEW["defaulted"] == "yes", pipeline.predict_proba(NEW)[:, 1], recall=1.0
    )
    assert (pipeline.predict(NEW)[NEW["defaulted"] == "yes"] == "yes").all()
    pipeline.operating_point_ = None
    assert (pipeline.predict(NEW) == "yes").sum() == (model.probability(NEW) >= 0.5).sum()


def test_a_clone_can_be_fitted_again(model: Model, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m.apmax")
    again = clone(apmax.load(tmp_path / "m.apmax"))
    again.set_params(classifier=LogisticRegression(), table=TableEncoder())
    labels = made_loans(200, 5)["defaulted"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # incomes are not scaled
        assert set(again.fit(NEW, labels).predict(NEW)) <= {"yes", "no"}
    with pytest.raises(ParameterError, match=r"apmax\.load"):
        again.explain(NEW)


def test_a_fit_removes_the_stored_threshold(model: Model, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m.apmax")
    pipeline = apmax.load(tmp_path / "m.apmax")
    pipeline.operating_point_ = apmax.operating_point(
        NEW["defaulted"] == "yes", pipeline.predict_proba(NEW)[:, 1], recall=1.0
    )
    pipeline.set_params(classifier=LogisticRegression(), table=TableEncoder())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # incomes are not scaled
        pipeline.fit(NEW, NEW["defaulted"])
    assert pipeline.operating_point_ is None
    assert pipeline.leaderboard_ is None


@pytest.mark.parametrize("name", ["logistic", "linear"])
def test_a_linear_model_of_a_file_can_be_fitted_to_fewer_features(
    name: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    X = sp.random(300, 500, density=0.05, random_state=rng, format="csr")
    y = rng.random(300) < 0.3
    trained = train_model(Dataset(X, y, Path("a.libsvm"), 1, 0), model=name, folds=2)
    save_model(trained.model, tmp_path / "m.apmax")
    again = apmax.load(tmp_path / "m.apmax").fit(X[:, :300], y.astype(int))
    apmax.save(again, tmp_path / "again.apmax")
    probabilities = apmax.load(tmp_path / "again.apmax").predict_proba(X[:, :300])
    np.testing.assert_allclose(probabilities, again.predict_proba(X[:, :300]))


def test_predictions_in_python_warn_of_drift(model: Model, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m.apmax")
    pipeline = apmax.load(tmp_path / "m.apmax")
    known = made_loans(200, 5)
    for method in (
        pipeline.predict,
        pipeline.predict_proba,
        pipeline.predict_log_proba,
        pipeline.decision_function,
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error", DriftWarning)
            method(known)
        with pytest.warns(DriftWarning, match="'income': 200 of 200 values are not a number") as w:
            method(known.assign(income="lots"))
        assert w[0].filename == __file__
    with pytest.raises(ParameterError, match="no column 'income'"):
        pipeline.predict(known.drop(columns="income"))


def test_a_pipeline_returns_the_shifts_since_training(model: Model, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m.apmax")
    pipeline = apmax.load(tmp_path / "m.apmax")
    rich = made_loans(400, 5).replace({"city": {"?": None}})
    rich["income"] *= 3
    assert model.profile is not None
    assert pipeline.shifts(rich) == psi(model.profile, rich, model.probability(rich))
    sizes = {shift.column: shift.size for shift in pipeline.shifts(rich)}
    assert (sizes["income"], sizes["city"]) == ("large", "small")


def test_there_are_no_shifts_without_the_training_data(model: Model, tmp_path: Path) -> None:
    save_model(replace(model, profile=None), tmp_path / "m.apmax")
    pipeline = apmax.load(tmp_path / "m.apmax")
    assert pipeline.shifts(NEW) == []
    with pytest.raises(ParameterError, match=r"apmax\.load"):
        clone(pipeline).shifts(NEW)


def test_unknown_parameters_of_predict_are_an_error(model: Model, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m.apmax")
    with pytest.raises(TypeError, match="nonsense"):
        apmax.load(tmp_path / "m.apmax").predict(NEW, nonsense=1)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (0.3, "result of apmax.operating_point"),
        (apmax.OperatingPoint(2.5, 0.8, 0.5, 0.1), "`threshold`"),
        (apmax.OperatingPoint(float("nan"), 0.8, 0.5, 0.1), "`threshold`"),
        (apmax.OperatingPoint(0.5, 1.8, 0.5, 0.1), "`precision`"),
        (apmax.OperatingPoint(0.5, 0.8, 0.5, 0.0), "`alert_rate`"),
    ],
)
def test_an_operating_point_is_checked_when_it_is_set(
    model: Model, tmp_path: Path, point: object, message: str
) -> None:
    save_model(model, tmp_path / "m.apmax")
    pipeline = apmax.load(tmp_path / "m.apmax")
    with pytest.raises(ParameterError, match=message):
        pipeline.operating_point_ = point
    assert pipeline.operating_point_ is None


@pytest.mark.parametrize("name", ["logistic", "linear"])
@pytest.mark.parametrize("labels", [(1, 0), (10, 9), (0, 1), (True, False)])
def test_labels_of_a_file_keep_their_type(
    name: str, labels: tuple[int, int], tmp_path: Path
) -> None:
    frame = made_loans(300, 0)
    frame["defaulted"] = np.where(frame["defaulted"] == "yes", *labels)
    frame.to_csv(tmp_path / "loans.csv", index=False)
    trained = train_model(load(tmp_path / "loans.csv", target="defaulted"), model=name, folds=2)
    save_model(trained.model, tmp_path / "m.apmax")
    pipeline = apmax.load(tmp_path / "m.apmax")
    assert pipeline.classes_.tolist() == sorted(labels)
    found = pipeline.predict_proba(frame)[:, pipeline.classes_.tolist().index(labels[0])]
    np.testing.assert_allclose(found, trained.model.probability(frame))
    assert found[frame["defaulted"] == labels[0]].mean() > found.mean()
    pipeline.operating_point_ = apmax.operating_point(
        frame["defaulted"] == labels[0], found, recall=1.0
    )
    assert (pipeline.predict(frame) == frame["defaulted"])[frame["defaulted"] == labels[0]].all()
