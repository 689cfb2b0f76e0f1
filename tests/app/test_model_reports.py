"""Reports of a training and of a stored model."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from apmax import average_precision
from apmax.app.io import Dataset, load
from apmax.app.report import model_report, training_report
from apmax.app.report.page import render
from apmax.app.training import TrainedModel, train_model
from tests.app.loans import made_loans


@pytest.fixture
def loans(tmp_path: Path) -> Dataset:
    return saved(tmp_path, 600, 0)


def saved(folder: Path, rows: int, seed: int) -> Dataset:
    file = folder / f"loans-{seed}.csv"
    made_loans(rows, seed).to_csv(file, index=False)
    return load(file, target="defaulted")


@cache
def trained_on(dataset_rows: int, model: str) -> TrainedModel:
    frame = made_loans(dataset_rows, 0)
    y = (frame.pop("defaulted") == "yes").to_numpy()
    dataset = Dataset(frame, y, Path("loans-0.csv"), "yes", "no", "defaulted")
    return train_model(dataset, model=model, folds=3, jobs=1)


def test_a_training_is_reported_on_rows_that_were_held_out(loans: Dataset) -> None:
    trained = trained_on(600, "additive")
    report = training_report(trained, loans, warnings=["careful"], command="apmax train")
    assert [one.name for one in report.results] == [one.model for one in trained.leaderboard]
    assert report.winner.name == report.effects_of == "additive"
    assert {effect.name for effect in report.effects} >= {"income", "city"}
    held_out = trained.out_of_fold["additive"]
    np.testing.assert_allclose(report.winner.probabilities, expit(held_out))
    assert report.advice == trained.advice
    assert report.title == report.facts["data"] == "loans-0.csv"
    assert len(report.facts["SHA-256 of the data"]) == 64
    assert report.facts["positive label"] == "yes"
    assert "careful" in render(report)


def test_rows_that_no_fold_held_out_are_left_out(loans: Dataset) -> None:
    trained = trained_on(600, "additive")
    late = np.arange(600) >= 200
    held_out = {k: np.where(late, v, np.nan) for k, v in trained.out_of_fold.items()}
    report = training_report(replace(trained, out_of_fold=held_out), loans)
    np.testing.assert_array_equal(report.winner.y, loans.labels()[200:])


def test_effects_of_a_stack_are_those_of_its_additive_part(loans: Dataset) -> None:
    trained = trained_on(600, "stack")
    report = training_report(trained, loans)
    assert report.winner.name == "stack"
    named = {True: "additive, a part of the stack", False: ""}
    # The stack may give the additive model no weight.
    assert report.effects_of == named["additive" in trained.model.classifier.models_]
    assert bool(report.effects) == bool(report.effects_of)


def test_a_report_says_why_trees_have_no_effects(loans: Dataset) -> None:
    report = training_report(trained_on(600, "boosting-5x100"), loans)
    assert not report.effects
    assert "train with --model additive" in report.no_effects
    page = render(report)
    assert "Effects in boosting-5x100" in page
    assert "is not a sum of effects of columns" in page
    assert training_report(trained_on(600, "additive"), loans).no_effects == ""


def test_effects_of_logistic_regression_are_lines_and_levels(loans: Dataset) -> None:
    trained = trained_on(600, "logistic")
    report = training_report(trained, loans)
    effects = {effect.name: effect for effect in report.effects}
    income, city = effects["income"], effects["city"]
    slopes = np.diff(income.effect) / np.diff(income.grid)
    inner = slopes[1:-1]  # the ends can be beyond the training rows of a fold
    np.testing.assert_allclose(inner, inner[0])
    assert inner[0] < 0  # poorer people default more often
    assert (inner[0] * (1 + 1e-9) <= slopes[[0, -1]]).all()
    assert city.levels[int(np.argmax(city.effect))] == "Oslo"
    parts = trained.model.explain(loans.X)
    for name in ("income", "city"):  # contributions have mean 0, and importance is their spread
        assert effects[name].importance == pytest.approx(parts[name].std(ddof=0), rel=0.15)
    assert "Effects in logistic" in render(report)


def test_a_linear_model_is_reported_with_its_weights(loans: Dataset) -> None:
    report = training_report(trained_on(600, "linear"), loans)
    names = [name for name, _ in report.coefficients]
    assert "city = Oslo" in names
    assert "Change of the log-odds" in render(report)


def test_a_model_is_reported_on_new_data_with_its_drift(tmp_path: Path) -> None:
    model = trained_on(600, "additive").model
    new = saved(tmp_path, 400, 1)
    log_odds = model.log_odds(new.X)
    report = model_report(model, new, log_odds, note="from the file")
    assert report.leaderboard == model.leaderboard
    assert report.standing is None  # its AP is that of the training
    assert "Leaderboard of the training" in render(report)
    assert average_precision(report.winner.y, report.winner.probabilities) == pytest.approx(
        average_precision(new.labels(), log_odds)
    )
    assert {shift.column for shift in report.drift} == {"predicted probability", "income", "city"}
    assert report.facts["probabilities"] == "from the file"
    assert report.facts["training rows"] == "600"
    assert "AP in training, by cross-validation" in report.facts
    assert report.warnings == []


def test_rows_that_look_like_the_training_data_give_a_warning(tmp_path: Path) -> None:
    model, new = trained_on(600, "additive").model, saved(tmp_path, 400, 1)
    perfect = np.where(new.labels(), 3.0, -3.0)
    (warning,) = model_report(model, new, perfect).warnings
    assert warning.startswith("AP is 1.000 on these rows but 0.")
    assert "used for training" in warning


def test_sample_weights_count(tmp_path: Path) -> None:
    weighted = replace(saved(tmp_path, 600, 0), weight=np.arange(600.0), weight_column="amount")
    report = training_report(trained_on(600, "additive"), weighted)
    assert report.facts["sample weights"] == "amount"
    assert report.winner.prevalence == pytest.approx(
        np.average(weighted.labels(), weights=weighted.weight)
    )
