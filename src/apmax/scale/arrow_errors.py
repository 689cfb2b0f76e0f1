"""Errors of pyarrow as errors of files: it raises many kinds for damaged content."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apmax.errors import ApmaxError, FileError, FileFormatError
from apmax.interrupts import raise_if_interrupted

DAMAGED = "correct the file, or write it again"


def require_pyarrow() -> None:
    """Raise ImportError with the name of the extra if pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError(
            "reading files in batches needs pyarrow: pip install 'apmax[files]'"
        ) from None


@contextmanager
def file_errors(what: object, advice: str, verb: str = "read") -> Iterator[None]:
    """Raise FileError in place of whatever pyarrow raises while it reads or converts `what`."""
    try:
        yield
    except ApmaxError:
        raise
    except MemoryError as error:  # pyarrow's is one, too
        raise FileError(
            f"{what} claims more memory than there is ({_one_line(error)}): {advice}, or use a "
            "machine with more memory"
        ) from None
    except NotImplementedError as error:
        raise FileFormatError(
            f"{what} has a column of a type that cannot be read ({_one_line(error)}): leave it out "
            "with columns=[…], or write it as numbers or text"
        ) from error
    except Exception as error:  # extension types read their metadata with code of other packages
        raise_if_interrupted()
        raise FileFormatError(f"{what} cannot be {verb} ({_one_line(error)}): {advice}") from error


def data_frame(table: Any, what: object) -> Any:
    """Return a table or record batch as a data frame with its columns, also those of an index."""
    with file_errors(what, DAMAGED, "converted to a data frame"):
        return table.to_pandas(ignore_metadata=True)


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:200]
