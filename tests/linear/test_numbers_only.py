"""Text and missing values in tables for linear models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from apmax import APClassifier, APClassifierCV, StochasticAPClassifier
from apmax.errors import NonFiniteError, NotNumericError

RNG = np.random.default_rng(0)
PLAIN = pd.DataFrame({"amount": RNG.normal(size=200)})
Y = np.asarray(PLAIN["amount"] + RNG.normal(size=200) > 1)
TEXT = PLAIN.assign(term=["36 months", "60 months"] * 100)
GAPS = PLAIN.assign(income=PLAIN["amount"].where(PLAIN["amount"] < 1))


@pytest.mark.parametrize(
    "X",
    [
        TEXT,
        TEXT.astype({"term": "category"}),
        TEXT.assign(term=TEXT["term"].where(PLAIN["amount"] > 0)),
        pl.from_pandas(TEXT),
        TEXT.to_numpy(),
    ],
)
def test_text_is_refused_with_its_column_and_models_that_take_it(X: Any) -> None:
    where = "column 'term'" if hasattr(X, "columns") else "`X`"
    for model in (APClassifier(), APClassifierCV(), StochasticAPClassifier()):
        with pytest.raises(NotNumericError, match=f"{where} holds text: .*AdditiveAPClassifier"):
            model.fit(X, Y)


@pytest.mark.parametrize(
    "X",
    [
        GAPS,
        GAPS.round().astype({"income": "Int64"}),
        pl.from_pandas(GAPS),
        GAPS.to_numpy(),
        sp.csr_matrix(GAPS.to_numpy()),
    ],
)
def test_missing_values_are_refused_with_models_that_take_them(X: Any) -> None:
    where = "column 'income'" if hasattr(X, "columns") else "`X`"
    with pytest.raises(NonFiniteError, match=f"{where} contains NaN: .*AutoAPClassifier accept"):
        APClassifier().fit(X, Y)


def test_new_rows_are_checked_like_training_rows() -> None:
    model = APClassifier().fit(PLAIN, Y)
    with pytest.raises(NonFiniteError, match="column 'amount' contains NaN"):
        model.predict(PLAIN * np.nan)
    with pytest.raises(NotNumericError, match="column 'amount' holds text"):
        model.predict_proba(PLAIN.assign(amount="much"))


@pytest.mark.parametrize("X", [None, [1.0, np.nan], np.full(2, np.nan), 3.0])
def test_the_error_of_what_is_no_table_is_about_its_shape(X: Any) -> None:
    with pytest.raises(ValueError, match="Expected 2D array"):
        APClassifier().fit(X, [0, 1])


def test_columns_of_arrow_tables_are_named() -> None:
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(NotNumericError, match="column 'term' holds text"):
        APClassifier().fit(pa.Table.from_pandas(TEXT), Y)
    with pytest.raises(NotNumericError, match="column 'term' holds text"):
        APClassifier().fit(pa.RecordBatch.from_pandas(TEXT), Y)
    with pytest.raises(NonFiniteError, match="column 'income' contains NaN"):
        APClassifier().fit(pa.Table.from_pandas(GAPS), Y)


def test_text_of_numbers_is_read_and_other_errors_stay() -> None:
    text = PLAIN.assign(amount=PLAIN["amount"].astype(str).astype(object))
    np.testing.assert_allclose(
        APClassifier().fit(text, Y).coef_, APClassifier().fit(PLAIN, Y).coef_
    )
    with pytest.raises(ValueError, match="infinity"):
        APClassifier().fit(PLAIN.replace(PLAIN["amount"][0], np.inf), Y)
