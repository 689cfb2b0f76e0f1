"""What is fuzzed: for each format, sound files, damage that reaches deep, and what reads it."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from tests.reliability.mutations import ODD_VALUES, mutate, mutate_tree

LIBSVM = (
    b"+1 1:0.5 3:1e-3 7:12345678901234567890 # comment\n-1 2:1 4:-2.5e+10\n"
    b"1 qid:3 7:1 1:2 3:0\n-1\n1 10:.5 11:5. 12:1E5\n\n# a line\n-1 1099511627776:1\n"
)
CSV = (
    b'age,job,"income, yearly",since,y\n39,clerk,1e3,2020-01-31,no\n50,"a ""b"" c",2.5,2021-12-01,'
    b"yes\n38,,?,2020-06-15,no\n28, 'it''s ',-7,,no\n44,clerk,0.5,2019-03-03,yes\n"
)
SEMICOLONS = b"a;b;y\n1,5;x;0\n2,5;'y ';1\n-3,25;;0\n"
ROWS = 40


def frame() -> Any:
    """Numbers, words, dates, gaps and labels."""
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


class Format(NamedTuple):
    """A row of the table."""

    suffix: str
    seeds: Callable[[], list[bytes]]
    make: Callable[[Random], bytes]
    read: Callable[[Path], Any]

    def warm_up(self, folder: Path) -> None:
        """Read all sound files, and LIBSVM, which is what an unknown file may be."""
        (folder / "any.svm").write_bytes(LIBSVM)
        _read_labelled(folder / "any.svm")
        path = folder / f"sound{self.suffix}"
        for seed in self.seeds():
            path.write_bytes(seed)
            self.read(path)


def _read_labelled(path: Path) -> Any:
    from apmax.app.data import load

    data = load(path)
    return data.X.shape, data.X.sum()


def _read_table(path: Path) -> Any:
    """A table through all that `train` does to it before the fit."""
    from apmax.app.data import load
    from apmax.app.pipeline.encoder import TableEncoder

    data = load(path, target="last")
    encoder = TableEncoder.fit(data.X)
    return encoder.transform(data.X).shape, encoder.to_json()


def _read_model(path: Path) -> Any:
    from apmax.app.pipeline.storage import load_model

    model = load_model(path)
    json.dumps(model.facts)
    " ".join([*model.feature_names(), model.positive, model.negative]).encode()
    X = frame() if model.encoder is not None else np.ones((2, 3))
    return model.probabilities(X)


def _mutated(*seeds: bytes) -> Callable[[Random], bytes]:
    return lambda rng: mutate(rng, rng.choice(seeds), rng.choice(seeds))


def _packed(*seeds: bytes, pack: Callable[[bytes], bytes]) -> Callable[[Random], bytes]:
    """Half of the damage is inside the compression, half is done to it."""

    def make(rng: Random) -> bytes:
        if rng.random() < 0.5:
            return pack(mutate(rng, rng.choice(seeds)))
        return mutate(rng, pack(rng.choice(seeds)), pack(rng.choice(seeds)))

    return make


@cache
def parquet_seeds() -> list[bytes]:
    """One small file for each way in which Parquet stores the same frame."""
    files = []
    for options in (
        {}, {"compression": None}, {"compression": "gzip", "use_dictionary": False},
        {"compression": "zstd", "version": "1.0"}, {"row_group_size": 7, "index": True},
        {"data_page_version": "2.0"}, {"column_encoding": "DELTA_BINARY_PACKED", "only": ["k"]},
    ):  # fmt: skip
        only, data = options.pop("only", None), io.BytesIO()
        chosen: Any = frame() if only is None else frame()[[*only, "flag"]]
        if only is not None:
            options |= {"use_dictionary": False, "column_encoding": {"k": "DELTA_BINARY_PACKED"}}
        chosen.to_parquet(data, **options)
        files.append(data.getvalue())
    return files


def _make_parquet(rng: Random) -> bytes:
    """Half of the damage hits the metadata at the end, which all sizes and offsets are in."""
    seeds = parquet_seeds()
    content = rng.choice(seeds)
    if rng.random() < 0.5:
        return mutate(rng, content, rng.choice(seeds))
    length = int.from_bytes(content[-8:-4], "little")
    footer = mutate(rng, content[-8 - length : -8])
    return content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


@cache
def npz_seeds() -> list[bytes]:
    """Dense and sparse archives, stored and deflated."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(6, 3)), np.array([0, 1, 0, 0, 1, 0])
    parts = {
        "data": np.array([1.5, 2.0, 1.0]), "indices": np.array([1, 0, 2]), "y": y,
        "indptr": np.array([0, 1, 2, 2, 2, 3, 3]), "shape": np.array([6, 3]),
    }  # fmt: skip
    files = []
    for save in (np.savez, np.savez_compressed):
        for arrays in ({"X": X, "y": y}, {"X": X.astype("f2"), "y": y.astype("U1")}, parts):
            stream = io.BytesIO()
            save(stream, **arrays)
            files.append(stream.getvalue())
    return files


def _make_npz(rng: Random) -> bytes:
    """Half of the archives are sound zip files with damaged arrays."""
    seeds = npz_seeds()
    content = rng.choice(seeds)
    if rng.random() < 0.5:
        return mutate(rng, content, rng.choice(seeds))
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w") as new:
        names = old.namelist()
        chosen = rng.choice(names)
        for name in names:
            raw = old.read(name)
            new.writestr(name, mutate(rng, raw) if name == chosen else raw)
    return stream.getvalue()


@cache
def model_trees() -> list[Any]:
    """Models of a table and of numbered features, as the JSON that they are stored as."""
    import tempfile

    from apmax.app.pipeline.encoder import TableEncoder
    from apmax.app.pipeline.model import Model
    from apmax.app.pipeline.storage import save_model

    encoder = TableEncoder.fit(frame().drop(columns="y"))
    size = len(encoder.feature_names())
    table = Model(np.linspace(-1, 1, size), 0.25, "yes", "no", "y", encoder, {"rows": 40})
    numbered = Model(np.ones(3), -1.0, "1", "-1")
    trees = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for model in (table, numbered):
            save_model(model, path)
            trees.append(json.loads(path.read_bytes()))
    return trees


def model_seeds() -> list[bytes]:
    """The same as files."""
    return [json.dumps(tree, indent=1).encode() for tree in model_trees()]


def sealed(body: Any, **envelope: Any) -> bytes:
    """A file with this body and the digest that belongs to it."""
    from apmax.app.pipeline import storage

    whole = {"format": "apmax-model", "schema": 1, "version": "0", "model": body}
    return json.dumps(whole | {"digest": storage._digest(body)} | envelope).encode()


def _make_model(rng: Random) -> bytes:
    """Half of the damage is done to the text, half to the content, under a right digest."""
    if rng.random() < 0.5:
        return mutate(rng, rng.choice(model_seeds()), rng.choice(model_seeds()))
    body = mutate_tree(rng, rng.choice(model_trees())["model"])
    if isinstance(body, dict) and isinstance(body.get("coef"), str) and rng.random() < 0.3:
        body["coef"] = base64.b64encode(rng.randbytes(8 * rng.randrange(40))).decode()
    envelope = {rng.choice(["schema", "format", "digest", "model"]): rng.choice(ODD_VALUES)}
    return sealed(body, **(envelope if rng.random() < 0.2 else {}))


FORMATS: dict[str, Format] = {
    "libsvm": Format(".svm", lambda: [LIBSVM], _mutated(LIBSVM), _read_labelled),
    "libsvm.gz": Format(
        ".svm.gz",
        lambda: [gzip.compress(LIBSVM)],
        _packed(LIBSVM, pack=gzip.compress),
        _read_labelled,
    ),
    "libsvm.bz2": Format(
        ".svm.bz2",
        lambda: [bz2.compress(LIBSVM)],
        _packed(LIBSVM, pack=bz2.compress),
        _read_labelled,
    ),
    "libsvm.xz": Format(
        ".svm.xz",
        lambda: [lzma.compress(LIBSVM, preset=0)],
        _packed(LIBSVM, pack=lambda raw: lzma.compress(raw, preset=0)),
        _read_labelled,
    ),
    "csv": Format(".csv", lambda: [CSV, SEMICOLONS], _mutated(CSV, SEMICOLONS), _read_table),
    "txt": Format(
        ".txt", lambda: [CSV, SEMICOLONS], _mutated(CSV, SEMICOLONS, LIBSVM), _read_table
    ),
    "csv.gz": Format(
        ".csv.gz", lambda: [gzip.compress(CSV)], _packed(CSV, pack=gzip.compress), _read_table
    ),
    "parquet": Format(".parquet", parquet_seeds, _make_parquet, _read_table),
    "npz": Format(".npz", npz_seeds, _make_npz, _read_labelled),
    "model": Format(".apmax", model_seeds, _make_model, _read_model),
}
