"""The fitted model, and the `.apmax` file that stores it.

A model file is a skops archive: a ZIP file with ``schema.json``, which describes a scikit-learn
pipeline as a tree of typed nodes, and one ``.npy`` member per array. ``metadata.json`` is added to
it. Before anything is constructed, the archive must be uncompressed and no larger than the file,
and every node must have a loader and a type of the two short lists below. Nothing is unpickled,
and no type outside the lists is imported.
"""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from apmax._version import __version__
from apmax.app.decisions import Decision
from apmax.app.drift import drift_warnings
from apmax.app.features import CATEGORY, DATE, NUMBER, TableEncoder
from apmax.app.files import check_path, one_line, write_file
from apmax.app.io import Dataset
from apmax.app.numbers import PLAIN, NumberFormat, number_format
from apmax.errors import ModelFileError, ShapeError
from apmax.linear import APClassifier, APClassifierCV, StochasticAPClassifier
from apmax.validation import Floats

FORMAT, SCHEMA = "apmax-model", 2
MAX_FILE_BYTES = 1 << 31
LOADERS = frozenset(
    {"DTypeNode", "DictNode", "JsonNode", "ListNode", "NdArrayNode", "ObjectNode", "TupleNode"}
    | {"TypeNode"}
)
PLAIN_TYPES = ("builtins.dict", "builtins.list", "builtins.str", "builtins.tuple")
NUMPY_TYPES = ("numpy.dtype", "numpy.float64", "numpy.ndarray")
TRIAL = {NUMBER: 0.0, CATEGORY: "", DATE: "2000-01-01"}
"""Values of the row that every loaded model is tried on."""
ESTIMATORS = (APClassifier, APClassifierCV, StochasticAPClassifier)


@dataclass(frozen=True)
class Model:
    """A fitted pipeline with the labels and the target that it was trained on."""

    pipeline: Pipeline
    """A `TableEncoder` (for tables) and a linear classifier."""
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
    formats: dict[str, NumberFormat] = field(default_factory=dict)
    """How numbers are written, for columns that were not plain numbers in training."""
    operating_point: Decision | None = None
    """The threshold chosen on labelled data with `apmax threshold`."""

    @property
    def encoder(self) -> TableEncoder | None:
        """The encoder of the table, or None for models of numbered features."""
        first = self.pipeline[0]
        return first if isinstance(first, TableEncoder) else None

    @property
    def coef(self) -> Floats:
        """The weights of the features."""
        return np.asarray(self.pipeline[-1].coef_[0])

    def log_odds(self, X: Any) -> Floats:
        """Return the log-odds of the positive label for each row."""
        return np.asarray(self.pipeline[-1].decision_function(self.features(X)))

    def feature_names(self) -> list[str]:
        """Return the names of the features, in the order of the weights."""
        if self.encoder is not None:
            return [str(name) for name in self.encoder.get_feature_names_out()]
        return [f"feature {k + 1}" for k in range(self.coef.size)]

    def text_columns(self) -> list[str]:
        """Return the columns of a file that must be read as text."""
        return [] if self.encoder is None else self.encoder.text_columns()

    def number_formats(self) -> dict[str, NumberFormat]:
        """Return how the columns of numbers are expected to be written."""
        kinds = {} if self.encoder is None else self.encoder.kinds_
        plain = {name: PLAIN for name, kind in kinds.items() if kind == NUMBER}
        return {**plain, **self.formats}

    def features(self, X: Any) -> Any:
        """Return the rows as the classifier sees them."""
        if self.encoder is not None:
            return self.encoder.transform(X)
        if hasattr(X, "columns"):
            raise ShapeError(
                f"the model was trained on {self.coef.size} numbered features (LIBSVM or NPZ): "
                "pass such a file, not a table"
            )
        matrix, width = sp.csr_matrix(X), self.coef.size
        if matrix.shape[1] > width:
            return matrix[:, :width]
        matrix.resize(matrix.shape[0], width)  # LIBSVM files omit trailing features that are 0
        return matrix

    def strongest_features(self, X: Any, count: int = 20) -> list[tuple[str, float]]:
        """Return the features with the largest effect of one standard deviation on the log-odds."""
        scaler = StandardScaler(with_mean=False).fit(self.features(X))
        effect = self.coef * np.sqrt(scaler.var_)
        names = self.feature_names()
        order = np.argsort(-np.abs(effect), kind="stable")[:count]
        return [(names[k], float(effect[k])) for k in order]

    def warnings_for(self, dataset: Dataset) -> list[str]:
        """Describe how new data differ from the training data, one sentence per problem."""
        if self.encoder is not None:
            return [*dataset.notes, *drift_warnings(self.encoder, dataset.X)]
        further = dataset.X.shape[1] - self.coef.size
        note = f"{further:,} features that the model does not have are ignored"
        return [*dataset.notes, *([note] if further > 0 else [])]


def save_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model file atomically."""
    import skops.io

    buffer = io.BytesIO()
    skops.io.dump(model.pipeline, buffer)
    metadata = {
        "format": FORMAT,
        "schema": SCHEMA,
        "version": __version__,
        "positive": model.positive,
        "negative": model.negative,
        "target": model.target,
        "against_rest": model.against_rest,
        "facts": model.facts,
        "id": model.id,
        "formats": {name: list(one) for name, one in model.formats.items()},
    }
    if model.operating_point is not None:
        metadata["operating_point"] = model.operating_point.as_metadata()
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("metadata.json", json.dumps(metadata, indent=1))
    write_file(Path(path), buffer.getvalue())


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file without executing anything in it.

    ModelFileError is raised if the file is damaged, truncated, of another version, or contains any
    type that a model does not have; FileError if there is no such file.
    """
    file = check_path(path)
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ModelFileError("too large for a model: is it a data file?")
        content = file.read_bytes()
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_archive(archive, len(content))
            metadata = json.loads(archive.read("metadata.json"))
            schema = json.loads(archive.read("schema.json"))
        _check_metadata(metadata)
        _check_types(schema)
        return _construct(content, metadata)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except PermissionError:
        raise ModelFileError(f"cannot read {path}: permission denied") from None
    except Exception as error:  # whatever a damaged archive makes zipfile, json or skops raise
        raise ModelFileError(
            f"{path} is not a model of apmax, or is damaged ({one_line(error)}): train it again "
            "with `apmax train`"
        ) from None


def _check_archive(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse archives that could expand, and members that skops does not write."""
    members = archive.infolist()
    names = [member.filename for member in members]
    sound = len(set(names)) == len(names) and all(
        name in ("schema.json", "metadata.json") or name.removesuffix(".npy").isdecimal()
        for name in names
    )
    stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    if not (sound and stored and sum(member.file_size for member in members) <= size):
        raise ModelFileError("the archive is not one that apmax writes: use another copy")
    if archive.testzip() is not None:
        raise ModelFileError("the file is damaged: a checksum does not match; use another copy")


def _check_metadata(metadata: Any) -> None:
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ModelFileError("not a model of apmax")
    if metadata.get("schema") != SCHEMA:
        raise ModelFileError(
            f"written with schema {one_line(metadata.get('schema'))}, and apmax {__version__} "
            f"reads schema {SCHEMA}: install the version that wrote it, or train again"
        )
    texts = [metadata["positive"], metadata["negative"], metadata["target"] or ""]
    texts.append(metadata.setdefault("id", None) or "")
    formats = metadata.setdefault("formats", {})
    metadata["formats"] = {name: number_format(*pair) or PLAIN for name, pair in formats.items()}
    sound = isinstance(metadata["against_rest"], bool) and isinstance(metadata["facts"], dict)
    if not (sound and all(isinstance(text, str) for text in texts)):
        raise ModelFileError("the metadata has fields of wrong types")
    json.dumps(metadata, ensure_ascii=False).encode()  # half a surrogate pair cannot be printed


def trusted_types() -> frozenset[str]:
    """Return the names of all types that a model file may contain."""
    classes = (TableEncoder, Pipeline, SimpleImputer, MissingIndicator, OneHotEncoder, *ESTIMATORS)
    names = (f"{cls.__module__}.{cls.__qualname__}" for cls in classes)
    return frozenset((*PLAIN_TYPES, *NUMPY_TYPES, *names))


def _check_types(schema: Any) -> None:
    """Refuse any node whose loader or type is not on the lists."""
    trusted, waiting = trusted_types(), [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if {"__loader__", "__module__", "__class__"} & node.keys():
                loader, kind = node.get("__loader__"), f"{node['__module__']}.{node['__class__']}"
                if loader not in LOADERS or kind not in trusted:
                    raise ModelFileError(
                        f"it contains {one_line(loader)} {one_line(kind)}, which no model of apmax "
                        "has: do not use this file"
                    )
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _construct(content: bytes, metadata: dict[str, Any]) -> Model:
    """Build the pipeline from checked nodes, and try it on an empty row and one with values."""
    import skops.io

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = skops.io.loads(content, trusted=sorted(trusted_types()))
    if not isinstance(pipeline, Pipeline) or not isinstance(pipeline[-1], ESTIMATORS):
        raise ModelFileError("the file does not contain a classifier")
    fields = ("positive", "negative", "target", "against_rest", "facts", "id", "formats")
    stored = metadata.get("operating_point")
    point = None if stored is None else Decision.from_metadata(stored)
    model = Model(pipeline, **{name: metadata[name] for name in fields}, operating_point=point)
    weights = pipeline[-1].coef_
    numbers = isinstance(weights, np.ndarray) and weights.dtype == np.float64
    sound = numbers and weights.ndim == 2 and weights.shape[0] == 1 and weights.size > 0
    if not (sound and np.isfinite(weights).all() and np.isfinite(pipeline[-1].intercept_).all()):
        raise ModelFileError("the weights are missing or not finite")
    if len(pipeline) != (1 if model.encoder is None else 2):
        raise ModelFileError("the pipeline has steps that apmax does not write")
    if len(model.feature_names()) != weights.size:
        raise ModelFileError("the number of weights differs from the number of features")
    row: Any = sp.csr_matrix((1, weights.size))
    if model.encoder is not None:
        import pandas as pd

        kinds = model.encoder.kinds_
        row = pd.DataFrame({name: [None, TRIAL[kinds[name]]] for name in kinds}, dtype=object)
        drift_warnings(model.encoder, row)
    if not np.isfinite(model.log_odds(row)).all():
        raise ModelFileError("the model gives scores that are not numbers")
    return model
