"""Models and their files: round trips, and refusal of damaged and hostile files."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from apmax.app.io import Dataset, load
from apmax.app.model import LOADERS, Model, load_model, save_model, trusted_types
from apmax.app.training import hold_out, make_estimator, train_model
from apmax.errors import FileError, ModelFileError, ParameterError, ShapeError, UnknownNameError
from tests.app.loans import made_loans


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    file = tmp_path_factory.mktemp("loans") / "loans.csv"
    made_loans(400, 0).to_csv(file, index=False)
    return load(file, target="defaulted")


@pytest.fixture(scope="module")
def model(loans: Dataset) -> Model:
    return train_model(loans, model="logistic").model


@pytest.fixture(scope="module")
def stored(model: Model, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("model") / "m.apmax"
    save_model(model, file)
    return file.read_bytes()


def test_a_file_written_before_pos_label_existed_loads(
    model: Model, loans: Dataset, tmp_path: Path
) -> None:
    old = copy.deepcopy(model)
    for name in ("pos_label", "pos_label_"):
        del vars(old.pipeline[-1])[name]
    save_model(old, tmp_path / "old.apmax")
    again = load_model(tmp_path / "old.apmax")
    np.testing.assert_array_equal(again.log_odds(loans.X), model.log_odds(loans.X))
    assert again.pipeline[-1].get_params()["pos_label"] is None
    y = np.where(loans.labels(), "yes", "no")
    assert again.pipeline.score(loans.X, y) == model.pipeline.score(loans.X, y)


def test_a_model_returns_from_its_file_unchanged(
    model: Model, loans: Dataset, stored: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "m.apmax"
    file.write_bytes(stored)
    again = load_model(file)
    np.testing.assert_array_equal(again.log_odds(loans.X), model.log_odds(loans.X))
    assert again.feature_names() == model.feature_names()
    assert (again.positive, again.negative, again.target) == ("yes", "no", "defaulted")
    assert again.facts == model.facts
    assert set(again.pipeline.predict(loans.X)) <= {"yes", "no"}
    assert again.strongest_features(loans.X, 3) == model.strongest_features(loans.X, 3)


@pytest.mark.filterwarnings("ignore:`y` holds .* positive examples")
@pytest.mark.parametrize("solver", ["cv", "soap-adam"])
def test_every_estimator_can_be_stored(loans: Dataset, solver: str, tmp_path: Path) -> None:
    trained = train_model(loans, solver=solver)
    save_model(trained.model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.log_odds(loans.X), trained.model.log_odds(loans.X))


def test_models_of_matrices_ignore_new_features_and_fill_in_trailing_zeros(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.random((200, 4)))
    dataset = Dataset(X, np.asarray(X[:, [0]].toarray()[:, 0] > 0.8), Path("a.libsvm"), 1, 0)
    save_model(train_model(dataset, model="logistic").model, tmp_path / "m")
    model = load_model(tmp_path / "m")
    wide, narrow = sp.hstack([X, X]), X[:, :3]
    np.testing.assert_array_equal(model.log_odds(wide), model.log_odds(X))
    padded = sp.hstack([narrow, sp.csr_matrix((200, 1))])
    np.testing.assert_array_equal(model.log_odds(narrow), model.log_odds(padded))
    wider = Dataset(wide, None, Path("b"))
    assert model.warnings_for(wider) == ["4 features that the model does not have are ignored"]
    with pytest.raises(ShapeError, match="numbered features"):
        model.log_odds(made_loans(3, 0))


def test_the_trusted_types_are_few_and_a_model_uses_all_but_the_other_estimators(
    stored: bytes,
) -> None:
    found: set[str] = set()
    loaders: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "__loader__" in node:
                loaders.add(node["__loader__"])
                found.add(f"{node['__module__']}.{node['__class__']}")
            for child in node.values():
                walk(child)
        elif isinstance(node, list):
            for child in node:
                walk(child)

    with zipfile.ZipFile(io.BytesIO(stored)) as archive:
        walk(json.loads(archive.read("schema.json")))
    unused = {name.rsplit(".", 1)[1] for name in trusted_types() - found}
    assert unused == {"APClassifierCV", "StochasticAPClassifier"}
    assert loaders == LOADERS
    assert len(trusted_types()) <= 16


def changed(stored: bytes, edit: Callable[[dict[str, bytes]], None], method: int = 0) -> bytes:
    """Return the archive with its members edited."""
    with zipfile.ZipFile(io.BytesIO(stored)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    edit(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression=method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
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
    function = make_pipeline(FunctionTransformer(os.system), LogisticRegression())
    function.steps[-1][1].coef_ = np.ones((1, 2))
    with zipfile.ZipFile(io.BytesIO(stored)) as archive:
        metadata = archive.read("metadata.json")
    for pipeline in (function, make_pipeline(LogisticRegression()), [1, 2]):
        dumped = skops.io.dumps(pipeline)
        refused(changed(dumped, lambda m: m.update({"metadata.json": metadata})), tmp_path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"TableEncoder"', '"system"'),
        ('"apmax.app.features"', '"os"'),
        ('"__loader__": "ObjectNode"', '"__loader__": "FunctionNode"'),
        ('"__loader__": "ListNode"', '"__loader__": "OperatorFuncNode"'),
        ('"sklearn.preprocessing._encoders"', '"subprocess"'),
        ('"__loader__": "DictNode"', '"__loader__": "MethodNode"'),
    ],
)
def test_nodes_that_are_not_on_the_lists_are_refused(
    tmp_path: Path, stored: bytes, old: str, new: str
) -> None:
    def edit(members: dict[str, bytes]) -> None:
        assert old.encode() in members["schema.json"]
        members["schema.json"] = members["schema.json"].replace(old.encode(), new.encode(), 1)

    refused(changed(stored, edit), tmp_path, "do not use this file")


def test_archives_that_expand_are_refused(tmp_path: Path, stored: bytes) -> None:
    packed = changed(stored, lambda m: None, method=zipfile.ZIP_DEFLATED)
    refused(packed, tmp_path, "not one that apmax writes")


def test_wrong_metadata_is_refused(tmp_path: Path, stored: bytes) -> None:
    for wrong, message in (
        ({"format": "other"}, "not a model"),
        ({"schema": 99}, "reads schema 2"),
        ({"positive": 1}, "wrong types"),
        ({"against_rest": "abc"}, "wrong types"),
        ({"facts": []}, "wrong types"),
        ({"operating_point": {"threshold": 0.5}}, "operating point"),
        ({"target": "\ud800"}, "damaged"),
    ):

        def edit(members: dict[str, bytes], wrong: dict[str, Any] = wrong) -> None:
            metadata = {**json.loads(members["metadata.json"]), **wrong}
            members["metadata.json"] = json.dumps(metadata).encode()

        refused(changed(stored, edit), tmp_path, message)
    for member in ("metadata.json", "schema.json"):
        for content in (b"", b"{}", b"[" * 100_000, b"null"):
            refused(changed(stored, lambda m: m.update({member: content})), tmp_path)  # noqa: B023
        refused(changed(stored, lambda m: m.pop(member) and None), tmp_path)  # noqa: B023


def test_wrong_weights_are_refused(tmp_path: Path, model: Model) -> None:
    classifier = model.pipeline[-1]
    good = classifier.coef_
    try:
        for coef in (good * np.nan, good[:, :-1], good[0], good.astype(np.float32), good[:, :0]):
            classifier.coef_ = coef
            save_model(model, tmp_path / "m")
            with pytest.raises(ModelFileError):
                load_model(tmp_path / "m")
    finally:
        classifier.coef_ = good


def test_damaged_and_truncated_files_are_refused_or_unchanged(
    tmp_path: Path, stored: bytes, model: Model, loans: Dataset
) -> None:
    rng = np.random.default_rng(0)
    expected = model.log_odds(loans.X.head(5))
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
            scores = load_model(file).log_odds(loans.X.head(5))
        except ModelFileError:
            continue
        np.testing.assert_array_equal(scores, expected)  # the byte was in unused ZIP fields


def test_files_that_are_not_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        load_model(tmp_path / "none")
    with pytest.raises(FileError, match="is a folder"):
        load_model(tmp_path)
    refused(b'{"format": "apmax-model", "schema": 1}', tmp_path, "train it again")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="a pipe or a device"):
        load_model(tmp_path / "pipe")


def test_solvers_and_held_out_rows(loans: Dataset) -> None:
    assert type(make_estimator("cv")).__name__ == "APClassifierCV"
    assert type(make_estimator("cv", rarer=1)).__name__ == "APClassifier"
    with pytest.raises(UnknownNameError, match="did you mean 'soap-adam'"):
        make_estimator("soap-adma")
    train, test = hold_out(loans)
    assert train.labels().size + test.labels().size == loans.labels().size
    assert test.labels().mean() == pytest.approx(loans.labels().mean(), abs=0.01)
    with pytest.raises(ParameterError, match="--test"):
        hold_out(loans.rows(np.r_[np.flatnonzero(loans.y)[:1], np.flatnonzero(~loans.labels())]))
