"""Types of Arrow that many functions of pyarrow do not take, such as those that Polars writes."""

from __future__ import annotations

from typing import Any


def plain_type(kind: Any) -> Any:
    """Return a type of the same values that all functions of pyarrow take."""
    from pyarrow import binary, dictionary, string, types

    if types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if types.is_dictionary(kind):
        return dictionary(kind.index_type, plain_type(kind.value_type), ordered=kind.ordered)
    if types.is_string_view(kind):
        return string()
    return binary() if types.is_binary_view(kind) else kind


def plain_columns(batch: Any) -> Any:
    """Return a record batch whose columns are of plain types."""
    import pyarrow as pa

    if all(plain_type(kind) == kind for kind in {*batch.schema.types}):
        return batch
    schema = pa.schema([field.with_type(plain_type(field.type)) for field in batch.schema])
    columns = [_converted(*both) for both in zip(batch.columns, schema.types, strict=True)]
    return pa.record_batch(columns, schema)


def _converted(column: Any, kind: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_run_end_encoded(column.type):  # values of some types cannot be decoded
        positions = pa.array(range(len(column.values)), pa.int64())
        encoded = pa.RunEndEncodedArray.from_arrays(column.run_ends, positions)
        decoded = pc.run_end_decode(encoded.slice(column.offset, len(column)))
        return _converted(column.values, kind).take(decoded)
    return column if column.type == kind else column.cast(kind)
