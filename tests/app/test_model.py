"""Models and their files: round trips, and refusal of damaged and hostile files."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import apmax
from apmax import AdditiveAPClassifier, AutoAPClassifier
from apmax.app import archive
from apmax.app.archive import Fields, read_archive, write_archive
from apmax.app.io import Dataset, load
from apmax.app.model import Model, load_model, save_model
from apmax.app.stored_models import classifier_document, classifier_from
from apmax.app.training import MODELS, TrainedModel, train_model
from apmax.errors import FileError, ModelFileError, ParameterError, ShapeError, UnknownNameError
from tests.app.loans import made_loans

NEW = made_loans(200, 5).replace({"city": {"Rome": "Ulm"}})


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    file = tmp_path_factory.mktemp("loans") / "loans.csv"
    made_loans(400, 0).to_csv(file, index=False)
    return load(file, target="defaulted")


@pytest.fixture(scope="module")
def trained(loans: Dataset) -> dict[str, TrainedModel]:
    return {name: train_model(loans, model=name, folds=2) for name in MODELS}


@pytest.fixture(scope="module")
def model(trained: dict[str, TrainedModel]) -> Model:
    return trained["stack"].model


@pytest.fixture(scope="module")
def stored(model: Model, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("model") / "m.apmax"
    assert save_model(model, file) == file.stat().st_size
    return file.read_bytes()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_returns_from_its_file_unchanged(
    trained: dict[str, TrainedModel], name: str, tmp_path: Path
) -> None:
    model = trained[name].model
    save_model(model, tmp_path / "m.apmax")
    again = load_model(tmp_path / "m.apmax")
    # Logistic regressions of the folds are stored as sums of contributions.
    np.testing.assert_allclose(again.log_odds(NEW), model.log_odds(NEW), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        again.pipeline.predict_proba(NEW), model.pipeline.predict_proba(NEW), atol=1e-14
    )
    assert again.feature_names() == model.feature_names()
    assert (again.positive, again.negative, again.target) == ("yes", "no", "defaulted")
    assert (again.facts, again.profile) == (model.facts, model.profile)
    assert str(again.leaderboard) == str(model.leaderboard)
    save_model(again, tmp_path / "again.apmax")
    assert (tmp_path / "again.apmax").read_bytes() == (tmp_path / "m.apmax").read_bytes()


@pytest.mark.parametrize("name", ["additive", "linear", "logistic"])
def test_explanations_sum_to_the_log_odds_and_return_from_the_file(
    trained: dict[str, TrainedModel], name: str, tmp_path: Path
) -> None:
    model = trained[name].model
    save_model(model, tmp_path / "m.apmax")
    parts = load_model(tmp_path / "m.apmax").explain(NEW)
    pd.testing.assert_frame_equal(parts, model.explain(NEW), rtol=1e-9)
    rest = model.log_odds(NEW) - parts.sum(axis=1)
    if name != "linear":  # whose probabilities are limited at the ends
        np.testing.assert_allclose(rest, rest[0], atol=1e-9)
    assert {"income", "city"} <= set(parts.columns)
    assert parts["city"].std() > 0.1


@pytest.mark.parametrize("name", ["logistic", "stack"])
def test_numbers_beyond_the_training_rows_count_as_their_end_in_a_file(
    trained: dict[str, TrainedModel], name: str, tmp_path: Path
) -> None:
    model = trained[name].model
    save_model(model, tmp_path / "m.apmax")
    again = load_model(tmp_path / "m.apmax")
    income = made_loans(400, 0)["income"]
    for end, beyond in ((income.max(), 1e12), (income.min(), -1e12)):
        at_end = model.log_odds(NEW.assign(income=end))
        np.testing.assert_allclose(
            again.log_odds(NEW.assign(income=beyond)), at_end, rtol=1e-12, atol=1e-12
        )
        assert np.ptp(at_end) > 0.1


@pytest.mark.parametrize("wrong", ["low", "high"])
def test_ranges_of_columns_in_a_file_are_checked(
    trained: dict[str, TrainedModel], wrong: str
) -> None:
    document = classifier_document(trained["logistic"].model.classifier)
    terms = document["models"]["logistic"][-1]
    terms[wrong] = terms["high"] + 1.0 if wrong == "low" else terms["low"] - 1.0
    with pytest.raises(ModelFileError, match="the range of a column is damaged"):
        classifier_from(read_archive(write_archive(document)))


@pytest.mark.parametrize("name", ["trees", "stack"])
def test_trees_are_explained_by_typical_values(
    trained: dict[str, TrainedModel], name: str, tmp_path: Path
) -> None:
    model = trained[name].model
    save_model(model, tmp_path / "m.apmax")
    parts = apmax.load(tmp_path / "m.apmax").explain(NEW)
    assert list(parts) == ["income", "city", "since"]
    assert model.preprocessor is not None
    typical = model.preprocessor.typical_
    assert typical["city"] == made_loans(400, 0)["city"].mode()[0]
    assert typical["income"] == made_loans(400, 0)["income"].quantile(interpolation="lower")
    changed = model.log_odds(NEW) - model.log_odds(NEW.assign(city=typical["city"]))
    np.testing.assert_allclose(parts["city"], changed, atol=1e-12)
    assert (parts["city"][NEW["city"] == typical["city"]] == 0).all()
    assert parts["since"].notna().all()


def test_the_positive_label_may_sort_first(loans: Dataset, tmp_path: Path) -> None:
    turned = copy.copy(loans)
    object.__setattr__(turned, "positive", "a")
    object.__setattr__(turned, "negative", "b")
    for name in ("logistic", "linear"):
        model = train_model(turned, model=name, folds=2).model
        save_model(model, tmp_path / "m.apmax")
        again = load_model(tmp_path / "m.apmax")
        np.testing.assert_allclose(again.log_odds(NEW), model.log_odds(NEW), rtol=1e-12)
        p = again.pipeline.predict_proba(NEW)[:, again.pipeline.classes_.tolist().index("a")]
        np.testing.assert_allclose(p, again.probability(NEW))
        positive = loans.labels()
        assert again.log_odds(loans.X)[positive].mean() > again.log_odds(loans.X)[~positive].mean()


def test_stored_trees_need_no_lightgbm(
    trained: dict[str, TrainedModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = trained["trees"].model
    expected = model.log_odds(NEW)
    save_model(model, tmp_path / "m.apmax")
    monkeypatch.setitem(__import__("sys").modules, "lightgbm", None)
    np.testing.assert_array_equal(load_model(tmp_path / "m.apmax").log_odds(NEW), expected)


@pytest.mark.parametrize("width", [4, 200])
def test_models_of_matrices_ignore_new_features_and_fill_in_trailing_zeros(
    tmp_path: Path, width: int
) -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.random((200, width)) * (rng.random((200, width)) < 0.5))
    dataset = Dataset(X, np.asarray(X[:, [0]].toarray()[:, 0] > 0.6), Path("a.libsvm"), 1, 0)
    found = train_model(dataset, folds=2, model="auto" if width > 4 else "additive")
    save_model(found.model, tmp_path / "m")
    model = load_model(tmp_path / "m")
    wide, narrow = sp.hstack([X, X]), X[:, : width - 1]
    np.testing.assert_array_equal(model.log_odds(wide), model.log_odds(X))
    padded = sp.hstack([narrow, sp.csr_matrix((200, 1))])
    np.testing.assert_array_equal(model.log_odds(narrow), model.log_odds(padded))
    wider = Dataset(wide, None, Path("b"))
    note = f"{width} features that the model does not have are ignored"
    assert model.warnings_for(wider) == [note]
    assert model.explain(X)["feature 1"].std() > 0.1
    with pytest.raises(ShapeError, match="numbered features"):
        model.log_odds(made_loans(3, 0))


def test_wide_sparse_matrices_are_compared_by_linear_models_only() -> None:
    rng = np.random.default_rng(0)
    X = sp.random(300, 500, density=0.05, random_state=rng, format="csr")
    dataset = Dataset(X, rng.random(300) < 0.3, Path("a.libsvm"), 1, 0)
    assert {one.model for one in train_model(dataset).leaderboard} == {"logistic", "linear"}
    with pytest.raises(ParameterError, match="--model linear"):
        train_model(dataset, model="stack")
    with pytest.raises(UnknownNameError, match="did you mean 'additive'"):
        train_model(dataset, model="aditive")
    with pytest.raises(ParameterError, match="--minutes"):
        train_model(dataset, model="linear", minutes=1)


def _members(stored: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(stored)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def changed(stored: bytes, edit: Callable[[dict[str, bytes]], None], method: int = 0) -> bytes:
    """Return the archive with its members edited."""
    members = _members(stored)
    edit(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression=method) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return buffer.getvalue()


def refused(content: bytes, folder: Path, message: str | None = None) -> None:
    file = folder / "hostile.apmax"
    file.write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as caught:
        load_model(file)
    assert "hostile.apmax" in str(caught.value)
    assert len(str(caught.value)) < 600


class Exploit:
    def __reduce__(self) -> Any:
        return os.system, ("touch executed",)


def test_files_with_code_are_refused_and_nothing_is_executed(
    tmp_path: Path, stored: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pickled = pickle.dumps(Exploit())
    refused(pickled, tmp_path)
    refused(changed(stored, lambda m: m.update({"data.pkl": pickled})), tmp_path, "not one that")
    objects = io.BytesIO()
    np.save(objects, np.array([Exploit()], dtype=object), allow_pickle=True)
    refused(changed(stored, lambda m: m.update({"0.npy": objects.getvalue()})), tmp_path)
    assert not (tmp_path / "executed").exists()


def test_archives_that_expand_are_refused(tmp_path: Path, stored: bytes) -> None:
    def add_zeros(members: dict[str, bytes]) -> None:
        members["999.npy"] = bytes(1 << 28)

    refused(changed(stored, add_zeros, zipfile.ZIP_DEFLATED), tmp_path, "not one that apmax writes")
    other = changed(stored, lambda m: None, method=zipfile.ZIP_BZIP2)
    refused(other, tmp_path, "not one that apmax writes")


def test_archives_have_an_absolute_limit(
    tmp_path: Path, stored: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(len(content) for content in _members(stored).values())
    monkeypatch.setattr(archive, "MAX_BYTES", size)
    read_archive(stored)
    monkeypatch.setattr(archive, "MAX_BYTES", size - 1)
    refused(stored, tmp_path, "not one that apmax writes")


def test_limits_and_codes_of_linear_models_are_checked() -> None:
    document = {"kind": "linear", "classes": ["a", "b"], "positive": 1, "intercept": 0.0}
    document |= {"coef": np.ones(2)}
    sound = read_archive(write_archive({**document, "limits": [-1, 2.5]}))
    assert classifier_from(sound).log_odds_limits_ == (-1.0, 2.5)
    for limits in ([2, 1], [1], [1, 2, 3], ["1", "2"], [True, 2], "12", [1, None]):
        with pytest.raises((ModelFileError, ValueError)):
            classifier_from(read_archive(write_archive({**document, "limits": limits})))


def test_a_model_whose_scores_overflow_is_refused(
    tmp_path: Path, trained: dict[str, TrainedModel]
) -> None:
    """Each of its numbers is finite, so it is found when the model is tried on two rows."""
    file = tmp_path / "m.apmax"
    save_model(trained["logistic"].model, file)

    def enlarge(members: dict[str, bytes]) -> None:
        document = json.loads(members["model.json"])
        classifier = document["classifier"]
        for record in (classifier, *classifier["models"]["logistic"]):
            record["intercept"] = 1.7e308
        members["model.json"] = json.dumps(document).encode()

    refused(changed(file.read_bytes(), enlarge), tmp_path, "overflow")


def test_wrong_fields_are_refused(tmp_path: Path, stored: bytes) -> None:
    for wrong, message in (
        ({"format": "other"}, "not a model"),
        ({"schema": 99}, "reads schema 6"),
        ({"positive": 1}, "'positive' is missing or has a wrong type"),
        ({"positive": "other"}, "labels are not those"),
        ({"against_rest": "abc"}, "'against_rest'"),
        ({"facts": []}, "'facts'"),
        ({"operating_point": {"threshold": 0.5}}, "'rows' is missing"),
        ({"profile": {"rows": 1}}, "profile"),
        ({"preprocessor": None}, "features of the table"),
        ({"classifier": {"kind": "system"}}, "'classes'"),
        ({"leaderboard": [{"model": "a"}]}, "'chosen'"),
        ({"target": "\ud800"}, "damaged"),
    ):

        def edit(members: dict[str, bytes], wrong: dict[str, Any] = wrong) -> None:
            document = {**json.loads(members["model.json"]), **wrong}
            members["model.json"] = json.dumps(document).encode()

        refused(changed(stored, edit), tmp_path, message)
    for content in (b"", b"{}", b"[" * 100_000, b"null"):
        refused(changed(stored, lambda m: m.update({"model.json": content})), tmp_path)  # noqa: B023
    refused(changed(stored, lambda m: m.pop("model.json") and None), tmp_path)


def test_every_field_of_the_classifier_is_checked(tmp_path: Path, stored: bytes) -> None:
    """Replace each value by one of another type; a number may be replaced by another number."""
    document = read_archive(stored).values
    classifier = json.dumps(document["classifier"])
    count = 0

    def places(value: Any, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        found = [(*path, key) for key, _ in inner]
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(one, (dict, list)) and "levels" not in path:
                found += places(one, (*path, key))
        return found

    for path in places(document["classifier"], ()):
        other = json.loads(classifier)
        holder = other
        for key in path[:-1]:
            holder = holder[key]
        if path[-1] in ("named", "knots", "best", "positive"):
            continue
        holder[path[-1]] = {"odd": [1.5, None]}
        edited = json.dumps({**document, "classifier": other}).encode()
        refused(changed(stored, lambda m: m.update({"model.json": edited})), tmp_path)  # noqa: B023
        count += 1
    assert count > 50


class CountedArrays(dict[str, Any]):
    """Arrays that count how often all of them are looked through."""

    looks = 0

    def keys(self) -> Any:
        self.looks += 1
        return super().keys()


def test_arrays_are_compared_once_not_for_each_column() -> None:
    arrays = CountedArrays({f"{k}.npy": np.zeros(1) for k in range(100)})
    stored = Fields({"effects": [{"grid": {"array": k}} for k in range(100)]}, arrays)
    for effect in stored.records("effects"):
        effect.floats("grid")
    stored.check_all_read()
    assert arrays.looks == 1


def test_arrays_of_another_type_are_not_in_an_archive() -> None:
    with pytest.raises(ModelFileError, match="type that no model"):
        read_archive(write_archive({"a": np.array(["text"])}))


def test_damaged_and_truncated_files_are_refused_or_unchanged(
    tmp_path: Path, stored: bytes, model: Model
) -> None:
    rng = np.random.default_rng(0)
    expected = model.log_odds(NEW.head(5))
    file = tmp_path / "m.apmax"
    for _ in range(150):
        content = bytearray(stored)
        if rng.random() < 0.3:
            content = content[: rng.integers(len(content))]
        else:
            for at in rng.integers(0, len(content), rng.integers(1, 4)):
                content[at] ^= int(rng.integers(1, 256))
        file.write_bytes(bytes(content))
        try:
            scores = load_model(file).log_odds(NEW.head(5))
        except ModelFileError:
            continue
        np.testing.assert_allclose(scores, expected)  # the byte was in unused ZIP fields


def test_files_that_are_not_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        load_model(tmp_path / "none")
    with pytest.raises(FileError, match="is a folder"):
        load_model(tmp_path)
    refused(b'{"format": "apmax-model", "schema": 1}', tmp_path, "train a damaged model again")


def test_a_member_that_is_larger_than_stated_is_refused_before_it_is_expanded() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("model.json", "{}")
        made.writestr("0.npy", bytes(50_000_000))
    content = bytearray(stream.getvalue())
    record = content.rindex(b"PK\x01\x02")  # of the last member, in the central directory
    content[record + 24 : record + 28] = (10).to_bytes(4, "little")
    tracemalloc.start()
    with pytest.raises((ModelFileError, zipfile.BadZipFile)):
        read_archive(bytes(content))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000


def test_an_additive_model_of_a_sample_keeps_its_own_columns() -> None:
    rng = np.random.default_rng(0)
    rare = np.zeros(4000)
    rare[:3] = 1.0
    X = pd.DataFrame({"a": rng.normal(size=4000), "rare": rare, "b": rng.normal(size=4000)})
    y = rng.random(4000) < 1 / (1 + np.exp(3 - 2 * X["b"].to_numpy()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = np.where(y, "yes", "no")
        model = AutoAPClassifier(["additive"], cv=3, pos_label="yes").fit(X, labels)
        model.models_["additive"] = [AdditiveAPClassifier(cv=3).fit(X[3:], y[3:])]
    assert model.models_["additive"][0].columns_.numeric != model.columns_.numeric
    stored = read_archive(write_archive(classifier_document(model)))
    again = classifier_from(stored)
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X))
