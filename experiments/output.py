"""What the commands print and write: progress, tables, figures, errors."""

from __future__ import annotations

import io
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import typer
from rich.console import Console
from rich.progress import track
from typer.core import TyperGroup

from apmax.errors import ApmaxError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
RC_FILE = Path(__file__).with_name("matplotlibrc")
out = Console(soft_wrap=True, markup=False, emoji=False, highlight=False)
err = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)


class OneLineErrors(TyperGroup):
    """A group of commands that reports errors in one line; --debug shows the traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; exit code 1 for an error, 130 for Ctrl-C."""
        warnings.showwarning = lambda message, *_, **__: note(f"warning: {message}")
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            err.print("interrupted: run the same command again to resume", style="yellow")
            raise typer.Exit(130) from None
        except Exception as error:
            if ctx.params.get("debug") or hasattr(error, "exit_code"):  # typer's own
                raise
            line = " ".join(str(error).split())
            if not isinstance(error, (ApmaxError, OSError, ImportError)):
                # An error of a worker process ends with the error itself.
                last = str(error).strip().rpartition("\n")[2]
                line = f"{type(error).__name__}: {last}"
            as_json = ctx.params.get("as_json")
            sys.stderr.write((json.dumps({"error": line}) if as_json else f"error: {line}") + "\n")
            raise typer.Exit(1) from None


def note(text: str) -> None:
    """Print a remark to stderr."""
    err.print(text, style="dim")


def progress_bar(items: Iterable[T], title: str, total: int) -> Iterable[T]:
    """Iterate with a progress bar on a terminal, and silently elsewhere."""
    hidden = err.quiet or not err.is_terminal
    return track(items, title, total, console=err, transient=True, disable=hidden)


def show(context: typer.Context, markdown: str, data: Any) -> None:
    """Print a result: Markdown, or one JSON object under the name of the command with --json."""
    if context.find_root().params["as_json"]:
        name = str(context.info_name)
        sys.stdout.write(json.dumps({name: data}, indent=2, ensure_ascii=False) + "\n")
    else:
        out.print(markdown)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("| --- ", "|---")


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation; the deviation of a single value is 0."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def save_figures(folder: Path, draw: Callable[[], Mapping[str, Figure]]) -> list[Path]:
    """Write figures as SVG and PNG; the same figure gives the same bytes."""
    import matplotlib as mpl

    from experiments.store import write

    files = []
    with mpl.rc_context(fname=RC_FILE):
        for name, figure in draw().items():
            text, picture = io.StringIO(), io.BytesIO()
            figure.savefig(text, format="svg", metadata={"Date": None})
            figure.savefig(picture, format="png", dpi=180, metadata={"Software": None})
            # Two decimals of a point are enough, and halve the file.
            write(folder / f"{name}.svg", re.sub(r"(\d\.\d\d)\d+", r"\1", text.getvalue()))
            write(folder / f"{name}.png", picture.getvalue())
            files += [folder / f"{name}.svg", folder / f"{name}.png"]
    return files
