"""The fitted model, and the `.apmax` file that stores it.

A model file is plain data: a JSON document and arrays of numbers in a ZIP archive
(:mod:`apmax.app.archive`). Reading one constructs the few classes that are named here, in
:mod:`apmax.app.stored_models` and in :mod:`apmax.app.stored_tables`, from fields whose types and
values are checked; nothing is unpickled or imported by name.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from apmax._version import __version__
from apmax.app.archive import MAX_BYTES, Fields, read_archive, write_archive
from apmax.app.column_values import CATEGORY, DATE, NUMBER
from apmax.app.decisions import Decision
from apmax.app.drift import Difference, Shift, checked_profile, differences, psi
from apmax.app.features import TablePreprocessor
from apmax.app.files import one_line
from apmax.app.io import Dataset
from apmax.app.numbers import PLAIN, NumberFormat, number_format
from apmax.app.reasons import contributions
from apmax.app.stored_models import classifier_document, classifier_from
from apmax.app.stored_tables import preprocessor_document, preprocessor_from
from apmax.atomic_files import write_file
from apmax.errors import ModelFileError, ShapeError
from apmax.tabular import Leaderboard, Standing
from apmax.validation import Floats, check_path

FORMAT, SCHEMA = "apmax-model", 6
TRIAL = {NUMBER: 0.0, CATEGORY: "", DATE: "2000-01-01"}
"""Values of the row that every loaded model is tried on."""


@dataclass(frozen=True)
class Model:
    """A fitted pipeline with the labels and the target that it was trained on."""

    pipeline: Pipeline
    """A `TablePreprocessor` or `TableEncoder` (for tables) and a classifier."""
    positive: str
    negative: str
    target: str | None = None
    """Name of the target column, for tables."""
    against_rest: bool = False
    """Whether every label other than `positive` counts as negative."""
    facts: dict[str, Any] = field(default_factory=dict)
    """How the model was trained, as plain data."""
    id: str | None = None
    """Name of the column that identifies rows, for tables."""
    weight: str | None = None
    """Name of the column of sample weights, for tables."""
    formats: dict[str, NumberFormat] = field(default_factory=dict)
    """How numbers are written, for columns that were not plain numbers in training."""
    leaderboard: Leaderboard | None = None
    """The models that were compared in training."""
    operating_point: Decision | None = None
    """The threshold chosen on labelled data with `apmax threshold`."""
    profile: dict[str, Any] | None = None
    """Distributions of the training data, from `apmax.app.drift.profile`."""

    @property
    def preprocessor(self) -> TablePreprocessor | None:
        """The first step for a table, or None for models of numbered features."""
        first = self.pipeline[0]
        return first if isinstance(first, TablePreprocessor) else None

    @property
    def classifier(self) -> Any:
        """The last step."""
        return self.pipeline[-1]

    @property
    def name(self) -> str:
        """The name of the model that predicts, as in the leaderboard."""
        return str(self.facts.get("model", type(self.classifier).__name__))

    @property
    def coef(self) -> Floats | None:
        """The weights of the features of a linear model, or None for others."""
        found = getattr(self.classifier, "coef_", None)
        return None if found is None else np.asarray(found[0])

    def log_odds(self, X: Any) -> Floats:
        """Return the calibrated log-odds of the positive label for each row."""
        features, classifier = self.features(X), self.classifier
        if hasattr(classifier, "predict_log_odds"):
            return np.asarray(classifier.predict_log_odds(features))
        log_odds = np.asarray(classifier.decision_function(features))
        return log_odds if str(classifier.classes_[1]) == self.positive else -log_odds

    def probability(self, X: Any) -> Floats:
        """Return the probability of the positive label for each row."""
        return np.asarray(expit(self.log_odds(X)))

    def feature_names(self) -> list[str]:
        """Return the names of the features, as the classifier sees them."""
        if self.preprocessor is not None:
            return [str(name) for name in self.preprocessor.get_feature_names_out()]
        return [f"feature {k + 1}" for k in range(self.classifier.n_features_in_)]

    def text_columns(self) -> list[str]:
        """Return the columns of a file that must be read as text."""
        return [] if self.preprocessor is None else self.preprocessor.text_columns()

    def number_formats(self) -> dict[str, NumberFormat]:
        """Return how the columns of numbers are expected to be written."""
        kinds = {} if self.preprocessor is None else self.preprocessor.kinds_
        plain = {name: PLAIN for name, kind in kinds.items() if kind == NUMBER}
        return {**plain, **self.formats}

    def features(self, X: Any) -> Any:
        """Return the rows as the classifier sees them."""
        if self.preprocessor is not None:
            return self.preprocessor.transform(X)
        width = self.classifier.n_features_in_
        if hasattr(X, "columns"):
            raise ShapeError(
                f"the model was trained on {width} numbered features (LIBSVM or NPZ): pass such a "
                "file, not a table"
            )
        matrix = sp.csr_matrix(X)
        if matrix.shape[1] > width:
            matrix = matrix[:, :width]
        else:  # LIBSVM files omit trailing features that are 0
            matrix.resize(matrix.shape[0], width)
        return matrix if self.coef is not None else matrix.toarray()

    def explain(self, X: Any) -> Any:
        """Return a frame with the contribution of each column to the log-odds of each row."""
        return contributions(self, X)

    def strongest_features(self, X: Any, count: int = 20) -> list[tuple[str, float]]:
        """Return the features of a linear model with the largest effect of one deviation."""
        if self.coef is None:
            return []
        scaler = StandardScaler(with_mean=False).fit(self.features(X))
        effect = self.coef * np.sqrt(scaler.var_)
        names = self.feature_names()
        order = np.argsort(-np.abs(effect), kind="stable")[:count]
        return [(names[k], float(effect[k])) for k in order]

    def differences(self, X: Any) -> list[Difference]:
        """Describe how the columns of new data differ from those of the training data."""
        if self.preprocessor is not None:
            return differences(self.preprocessor, X, self.profile)
        further = X.shape[1] - self.classifier.n_features_in_
        note = f"{further:,} features that the model does not have are ignored"
        return [Difference(note, False)] if further > 0 else []

    def warnings_for(self, dataset: Dataset) -> list[str]:
        """Describe how new data were read and differ from the training data."""
        return [*dataset.notes, *(one.text for one in self.differences(dataset.X))]

    def shifts(self, X: Any, probability: Floats) -> list[Shift]:
        """Return how far columns and probabilities moved since training, if that is known."""
        return [] if self.profile is None else psi(self.profile, X, probability)


def save_model(model: Model, path: str | os.PathLike[str]) -> int:
    """Write a model file atomically, and return its size in bytes."""
    content = model_content(model)
    write_file(Path(path), content)
    return len(content)


def model_content(model: Model) -> bytes:
    """Return the content of a model file."""
    document = {
        "format": FORMAT,
        "schema": SCHEMA,
        "version": __version__,
        "positive": model.positive,
        "negative": model.negative,
        "target": model.target,
        "against_rest": model.against_rest,
        "facts": model.facts,
        "id": model.id,
        "weight": model.weight,
        "formats": {name: list(one) for name, one in model.formats.items()},
        "profile": model.profile,
        "leaderboard": [one.plain() for one in model.leaderboard or ()],
        "operating_point": model.operating_point and asdict(model.operating_point),
        "preprocessor": preprocessor_document(model.preprocessor),
        "classifier": classifier_document(model.classifier),
    }
    return write_archive(document)


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file without executing anything in it.

    ModelFileError is raised if the file is damaged, truncated or of another version, or contains
    anything that a model does not have; FileError if there is no such file.
    """
    file = check_path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ModelFileError("too large for a model: is it a data file?")
        return model_from(file.read_bytes())
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except PermissionError:
        raise ModelFileError(f"cannot read {path}: permission denied") from None
    except Exception as error:  # whatever a damaged archive makes zipfile, json or NumPy raise
        raise ModelFileError(
            f"{path} is not a model of apmax, or is damaged ({one_line(error)}): commands take the "
            "model first and then the data; train a damaged model again with `apmax train`"
        ) from None


def model_from(content: bytes) -> Model:
    """Return the model of a file; ModelFileError or any other exception if it is damaged."""
    stored = read_archive(content)
    if stored.get("format") != FORMAT:
        raise ModelFileError("not a model of apmax")
    if (schema := stored.get("schema")) != SCHEMA:
        raise ModelFileError(
            f"written with schema {one_line(schema)}, and apmax {__version__} "
            f"reads schema {SCHEMA}: install the version that wrote it, or train again"
        )
    stored.text("version")
    classifier = classifier_from(stored.record("classifier"))
    steps: list[tuple[str, Any]] = [("classifier", classifier)]
    if "preprocessor" in stored:
        steps.insert(0, ("table", preprocessor_from(stored.record("preprocessor"))))
    point = stored.record("operating_point") if "operating_point" in stored else None
    formats = stored.plain("formats").items()
    model = Model(
        Pipeline(steps),
        stored.text("positive"),
        stored.text("negative"),
        stored.text("target") if "target" in stored else None,
        stored.flag("against_rest"),
        _facts_from(stored),
        stored.text("id") if "id" in stored else None,
        stored.text("weight") if "weight" in stored else None,
        {name: number_format(*pair) or PLAIN for name, pair in formats},
        Leaderboard(tuple(_standing_from(one) for one in stored.records("leaderboard"))) or None,
        None if point is None else Decision.stored(point),
        checked_profile(stored.plain("profile")) if "profile" in stored else None,
    )
    stored.check_all_read()
    if model.leaderboard and sum(one.chosen for one in model.leaderboard) != 1:
        raise ModelFileError("the leaderboard does not say which model was chosen")
    if {model.positive, model.negative} != set(map(str, classifier.classes_.tolist())):
        raise ModelFileError("the labels are not those of the classifier")
    _try(model)
    return model


def _try(model: Model) -> None:
    """Apply the model to an empty row and one with values; ModelFileError if it cannot be used."""
    preprocessor, width = model.preprocessor, model.classifier.n_features_in_
    row: Any = sp.csr_matrix((1, width))
    if preprocessor is not None:
        import pandas as pd

        names = model.feature_names()
        known = getattr(model.classifier, "feature_names_in_", None)
        if len(names) != width or (known is not None and names != known.tolist()):
            raise ModelFileError("the features of the table are not those of the classifier")
        kinds = preprocessor.kinds_
        row = pd.DataFrame({name: [None, TRIAL[kinds[name]]] for name in kinds}, dtype=object)
        differences(preprocessor, row)
    elif hasattr(model.classifier, "feature_names_in_"):
        raise ModelFileError("the features of the table are missing")
    if not np.isfinite(model.log_odds(row)).all():
        raise ModelFileError("the model gives scores that are not numbers")


def _facts_from(stored: Fields) -> dict[str, Any]:
    """Return how the model was trained: plain data, of which commands use the rows and the name."""
    facts = Fields(stored.plain("facts"), {})
    if "rows" in facts.values:
        facts.count("rows", at_least=1)
    if "model" in facts.values:
        facts.text("model")
    return facts.values


def _standing_from(stored: Fields) -> Standing:
    numbers = {
        name: stored.number(name) if name in stored else float("nan")
        for name in Standing._fields[1:-1]
    }
    return Standing(stored.text("model"), **numbers, chosen=stored.flag("chosen"))
