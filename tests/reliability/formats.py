"""The file formats: valid files of each, how to damage them, and the function that reads them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tests.reliability import fitted_files
from tests.reliability.mutations import mutate, mutate_parquet, mutate_tree

LIBSVM = (
    b"+1 1:0.5 3:1e-3 7:12345678901234567890 # comment\n-1 2:1 4:-2.5e+10\n"
    b"1 qid:3 1:2 3:0 7:1\n-1\n1 10:.5 11:5. 12:1E5\n\n# a line\n-1 2147483000:1\n"
)
CSV = (
    b'age,job,"income, yearly",since,y\n39,clerk,1e3,2020-01-31,no\n50,"a ""b"" c",2.5,2021-12-01,'
    b"yes\n38,,?,2020-06-15,no\n28, 'it''s ',-7,,no\n44,clerk,0.5,2019-03-03,yes\n"
)
JSON_LINES = (
    b'{"age": 39, "job": "clerk", "since": "2020-01-31", "more": 0, "y": "no"}\n'
    b'{"age": null, "job": "a \\"b\\" c", "since": "2021-12-01", "y": "yes"}\n'
    b'{"age": 2.5e3, "job": "clerk", "more": [1, {"a": 2}], "y": "no"}\n'
    b'{"age": -7, "job": "\\u00fc", "since": "2019-03-03", "y": "yes"}\n'
)
SEMICOLONS = b"a;b;y\n1,5;x;0\n2,5;'y ';1\n-3,25;;0\n"
ODD_NUMBERS = [0, -1, 1, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, -(2**63), 1e300, np.nan]
"""Entries of arrays where others were expected; the last ones wrap or are undefined as integers."""
ROWS = 40
Pack = Callable[[bytes], bytes]
Reader = Callable[[Path], Any]


def frame() -> Any:
    """Return numbers, text, dates, missing values and labels."""
    import pandas as pd

    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "x": np.where(rng.random(ROWS) < 0.1, np.nan, rng.normal(size=ROWS)),
            "k": rng.integers(0, 9, ROWS),
            "word": rng.choice(["a", "b", "ü"], ROWS),
            "day": pd.date_range("2020-01-01", periods=ROWS),
            "flag": rng.random(ROWS) < 0.5,
            "y": np.where(rng.random(ROWS) < 0.3, "yes", "no"),
        }
    )


def training_frame() -> Any:
    """Return rows that trees and pairs of columns can learn from."""
    import pandas as pd

    rng, many = np.random.default_rng(1), pd.concat([frame()] * 8, ignore_index=True)
    many["x"] += rng.normal(size=len(many))
    chance = np.where(many["word"].eq("a") ^ many["x"].gt(0), 0.7, 0.1)
    return many.assign(y=np.where(rng.random(len(many)) < chance, "yes", "no"))


class Format(NamedTuple):
    """Suffix, valid files, a damaged file, and what `apmax` does with a file."""

    suffix: str
    valid: Callable[[], list[bytes]]
    damaged: Callable[[Random], bytes]
    read: Callable[[Path], Any]


def read_dataset(path: Path) -> Any:
    """Load a matrix and use all of it."""
    from apmax.app.io import load

    data = load(path)
    return data.X.shape, data.X.sum()


def read_training_table(path: Path) -> Any:
    """Load a table, preprocess and encode it, as `apmax train` does."""
    from apmax.app.features import TableEncoder, TablePreprocessor
    from apmax.app.io import load

    data = load(path, target="last")
    parts = TablePreprocessor().fit_transform(data.X)
    encoder = TableEncoder().fit(data.X)
    return parts.shape, encoder.transform(data.X).shape, encoder.get_feature_names_out()


def use_model(path: Path) -> Any:
    """Load a model and use all of it, as `predict --explain`, `evaluate` and `report` do."""
    from apmax.app.drift import psi
    from apmax.app.io import Dataset
    from apmax.app.model import load_model
    from apmax.app.reasons import reasons_of
    from apmax.app.report import model_report
    from apmax.app.report.calibration import calibration
    from apmax.app.report.measures import operating_points, top_rows

    model = load_model(path)
    json.dumps(model.facts)
    " ".join([*model.feature_names(), *model.text_columns(), model.positive, model.name]).encode()
    str(model.leaderboard)
    X = frame() if model.preprocessor is not None else np.ones((2, 3))
    model.warnings_for(Dataset(X, None, path))
    model.strongest_features(X)
    model.explain(X)
    if model.profile is not None:
        psi(model.profile, X, model.probability(X))
    log_odds = model.log_odds(X)
    reasons_of(model, X, 2)
    labelled = Dataset(X, np.arange(len(log_odds)) % 2 == 0, path, model.positive, model.negative)
    result = model_report(model, labelled, log_odds).winner
    operating_points(result), top_rows(result), calibration(result)
    return log_odds


def _training_file(folder: Path) -> Path:
    """Return a small file to fit, which is written once."""
    import pandas as pd

    path = folder / "training.parquet"
    if not path.exists():
        rng = np.random.default_rng(3)
        X = rng.normal(size=(200, 3))
        y = X[:, 0] + rng.normal(size=200) > 1
        pd.DataFrame(X, columns=list("abc")).assign(y=y).to_parquet(path)
    return path


def resume_fit(path: Path) -> Any:
    """Resume a fit of files from a checkpoint."""
    from apmax import APClassifier

    model = APClassifier(alpha=0.1)
    model.fit_files(_training_file(path.parent), "y", checkpoint=path)
    assert np.isfinite(model.coef_).all()
    return model.coef_.shape


@cache
def checkpoint_seeds() -> list[bytes]:
    """Return checkpoints of the logistic regression and of the AP objective."""
    from apmax import APClassifier

    seen: list[bytes] = []
    with tempfile.TemporaryDirectory() as folder:
        path, model = Path(folder, "fit.json"), APClassifier(alpha=0.1)
        model.on_progress = lambda *_: seen.append(path.read_bytes() if path.exists() else b"")
        model.fit_files(_training_file(Path(folder)), "y", checkpoint=path)
    return [one for one in seen if one][:: max(1, len(seen) // 4)]


def _damaged_checkpoint(rng: Random) -> bytes:
    """Damage any bytes, or the values of a line of JSON."""
    content = rng.choice(checkpoint_seeds())
    if rng.random() < 0.5:
        return mutate(rng, content, rng.choice(checkpoint_seeds()))
    lines = content.split(b"\n")
    place = rng.choice([k for k, line in enumerate(lines) if line])
    lines[place] = json.dumps(mutate_tree(rng, json.loads(lines[place]))).encode()
    return b"\n".join(lines)


def _mutated(*seeds: bytes) -> Callable[[Random], bytes]:
    return lambda rng: mutate(rng, rng.choice(seeds), rng.choice(seeds))


def _packed(*seeds: bytes, pack: Callable[[bytes], bytes]) -> Callable[[Random], bytes]:
    """Damage the content before compression, or the compressed file."""

    def damaged(rng: Random) -> bytes:
        if rng.random() < 0.5:
            return pack(mutate(rng, rng.choice(seeds)))
        return mutate(rng, pack(rng.choice(seeds)), pack(rng.choice(seeds)))

    return damaged


@cache
def parquet_seeds() -> list[bytes]:
    """Return one file for each of several encodings of the same frame."""
    files = []
    for options in (
        {}, {"compression": None}, {"compression": "gzip", "use_dictionary": False},
        {"row_group_size": 7, "index": True}, {"data_page_version": "2.0"},
    ):  # fmt: skip
        files.append(frame().to_parquet(None, **options))
    return files


@cache
def npz_seeds() -> list[bytes]:
    """Return dense and sparse archives, stored and deflated."""
    X, y = np.random.default_rng(1).normal(size=(6, 3)), np.array([0, 1, 0, 0, 1, 0])
    csr = {"data": X[:3, 0], "indices": [1, 0, 2], "indptr": [0, 1, 2, 2, 2, 3, 3], "shape": [6, 3]}
    files = []
    for save in (np.savez, np.savez_compressed):
        for arrays in (
            {"X": X, "y": y},
            {"X": X.astype("f2"), "y": y.astype("U1")},
            {**csr, "y": y},
        ):
            stream = io.BytesIO()
            save(stream, **arrays)
            files.append(stream.getvalue())
    return files


def unzip(content: bytes) -> dict[str, bytes]:
    """Return the members of an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def make_zip(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive of these members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _damaged_npz(rng: Random) -> bytes:
    """Damage any bytes, or an array inside a valid archive."""
    seeds = npz_seeds()
    content = rng.choice(seeds)
    if rng.random() < 0.5:
        return mutate(rng, content, rng.choice(seeds))
    members = unzip(content)
    name = rng.choice(list(members))
    return make_zip({**members, name: mutate(rng, members[name])})


@cache
def feather_seeds() -> list[bytes]:
    """Return compressed and uncompressed files."""
    files = []
    for compression in ("lz4", "zstd", "uncompressed"):
        stream = io.BytesIO()
        frame().to_feather(stream, compression=compression)
        files.append(stream.getvalue())
    return files


@cache
def excel_seeds() -> list[bytes]:
    """Return a workbook with numbers, text, dates and missing values."""
    stream = io.BytesIO()
    frame().to_excel(stream, index=False)
    return [stream.getvalue()]


def _damaged_excel(rng: Random) -> bytes:
    """Damage any bytes, or the XML of a member inside a valid archive."""
    (content,) = excel_seeds()
    if rng.random() < 0.3:
        return mutate(rng, content)
    members = unzip(content)
    name = rng.choice([*members, "xl/worksheets/sheet1.xml"])
    return make_zip({**members, name: mutate(rng, members[name])}, zipfile.ZIP_DEFLATED)


@cache
def model_seeds() -> list[bytes]:
    """Return models of each kind: trees, forests, effects, and linear models of two sorts."""
    from apmax.app.io import Dataset
    from apmax.app.model import save_model
    from apmax.app.training import train_model

    table, rng = training_frame(), np.random.default_rng(2)
    X, y = table.drop(columns="y"), (table["y"] == "yes").to_numpy()
    matrix = sp.csr_matrix(rng.normal(size=(y.size, 200)) * (rng.random((y.size, 200)) < 0.1))
    of_table = Dataset(X, y, Path("a"), "yes", "no", "y")
    files = []
    for dataset, model in (
        *((of_table, name) for name in ("stack", "additive", "trees", "linear", "logistic")),
        (Dataset(matrix, y, Path("a"), 1, 0), "auto"),
        (Dataset(matrix.toarray()[:, :3], y, Path("a"), 1, 0), "trees"),
    ):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
            settings: Any = {"model": model, "folds": 2, "jobs": 1}
            save_model(train_model(dataset, **settings).model, Path(folder, "model"))
            files.append(Path(folder, "model").read_bytes())
    return files


def _damaged_model(rng: Random) -> bytes:
    """Damage any bytes, or a member of an archive whose checksums are right."""
    seeds = model_seeds()
    content = rng.choice(seeds)
    if rng.random() < 0.3:
        return mutate(rng, content, rng.choice(seeds))
    members = unzip(content)
    name = rng.choice(["model.json", rng.choice(list(members))])
    if name == "model.json":
        members[name] = json.dumps(mutate_tree(rng, json.loads(members[name]))).encode()
    elif rng.random() < 0.3:
        members[name] = mutate(rng, members[name])
    else:
        members[name] = _changed_entries(rng, members[name])
    return make_zip(members)


def _changed_entries(rng: Random, content: bytes) -> bytes:
    """Replace some numbers of a valid array: children, columns, offsets, thresholds, weights."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.size == 0:
        return content
    flat = array.reshape(-1)
    for _ in range(rng.choice([1, 1, 3, 20])):
        old = flat[rng.randrange(flat.size)]
        new = rng.choice([*ODD_NUMBERS, old + 1, old - 1, -old])
        with np.errstate(all="ignore"):
            flat[rng.randrange(flat.size)] = np.array(new).astype(array.dtype)
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _xz(content: bytes) -> bytes:
    return lzma.compress(content, preset=0)


def _text(suffix: str, read: Reader, *seeds: bytes) -> Format:
    return Format(suffix, lambda: list(seeds[:1]), _mutated(*seeds), read)


def _compressed(suffix: str, content: bytes, pack: Pack, read: Reader) -> Format:
    return Format(suffix, lambda: [pack(content)], _packed(content, pack=pack), read)


def _binary(suffix: str, seeds: Callable[[], list[bytes]], read: Reader) -> Format:
    def damaged(rng: Random) -> bytes:
        if suffix == ".parquet":
            return mutate_parquet(rng, seeds())
        return mutate(rng, rng.choice(seeds()), rng.choice(seeds()))

    return Format(suffix, seeds, damaged, read)


FORMATS: dict[str, Format] = {
    "libsvm": _text(".svm", read_dataset, LIBSVM),
    "libsvm.gz": _compressed(".svm.gz", LIBSVM, _gzip, read_dataset),
    "libsvm.bz2": _compressed(".svm.bz2", LIBSVM, bz2.compress, read_dataset),
    "libsvm.xz": _compressed(".svm.xz", LIBSVM, _xz, read_dataset),
    "csv": _text(".csv", read_training_table, CSV, SEMICOLONS),
    "csv.gz": _compressed(".csv.gz", CSV, _gzip, read_training_table),
    "parquet": _binary(".parquet", parquet_seeds, read_training_table),
    "feather": _binary(".feather", feather_seeds, read_training_table),
    "jsonl": _text(".jsonl", read_training_table, JSON_LINES),
    "xlsx": Format(".xlsx", excel_seeds, _damaged_excel, read_training_table),
    "npz": Format(".npz", npz_seeds, _damaged_npz, read_dataset),
    "checkpoint": Format(".json", checkpoint_seeds, _damaged_checkpoint, resume_fit),
    "fitted parquet": _binary(".parquet", fitted_files.parquet_seeds, fitted_files.fit),
    "fitted feather": _binary(".feather", fitted_files.feather_seeds, fitted_files.fit),
    "fitted csv": _binary(".csv", fitted_files.csv_seeds, fitted_files.fit),
    "model": Format(".apmax", model_seeds, _damaged_model, use_model),
}
