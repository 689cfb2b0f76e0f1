"""What all commands share: where words and numbers go, progress, errors and exit codes."""

from __future__ import annotations

import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from apmax.errors import ApmaxError, FileError

FAILED, INTERRUPTED = 1, 130
"""Exit codes: something was wrong with the input; Ctrl-C. Wrong usage is 2."""


@dataclass
class Settings:
    """The options that every command has."""

    as_json: bool = False
    quiet: bool = False
    debug: bool = False
    kept: Path | None = None
    """The model that a command has written so far, for whoever stops it."""
    out: Console = field(default_factory=lambda: _console(stderr=False))
    err: Console = field(default_factory=lambda: _console(stderr=True))

    def say(self, text: str) -> None:
        """A line for a person; nothing with --quiet or --json."""
        if not (self.quiet or self.as_json):
            self.out.print(text)

    def note(self, text: str) -> None:
        """A remark that is no result: to stderr, so that pipes stay clean."""
        if not self.quiet:
            self.err.print(text, style="dim")

    def show(self, table: Table, data: dict[str, Any]) -> None:
        """The result: a table for a person, or one JSON object for a program."""
        if self.as_json:
            sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
        elif not self.quiet:
            self.out.print(table)


def _console(*, stderr: bool) -> Console:
    """Words as they are: a category may be called "[red]"."""
    return Console(stderr=stderr, soft_wrap=True, markup=False, emoji=False, highlight=False)


def make_table(title: str, *columns: str) -> Table:
    """A table whose first column is text and the others numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim")
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right")
    return table


@contextmanager
def progress(settings: Settings, what: str, total: int | None = None) -> Iterator[Advance]:
    """A bar with the AP so far and the time left, on a terminal; nothing elsewhere."""
    hidden = settings.quiet or settings.as_json or not settings.err.is_terminal
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[ap]}"),
        TimeRemainingColumn(),
        console=settings.err,
        transient=True,
        disable=hidden,
    )
    with bar:
        task = bar.add_task(what, total=total, ap="")

        def advance(stage: str, done: int, of: int | None, ap: float | None = None) -> None:
            shown = "" if ap is None else f"AP {ap:.4f}"
            bar.update(task, description=stage, completed=done, total=of, ap=shown)

        yield advance


Advance = Callable[..., None]
"""(stage, done, of, AP so far)."""


@contextmanager
def one_line_errors(settings: Settings) -> Iterator[None]:
    """Every error is one line with a remedy; --debug lets the traceback through.

    Warnings are one line each, too, and without the place in the code.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_, **__: settings.note(f"note: {message}")
            yield
    except KeyboardInterrupt:
        if settings.debug:
            raise
        stop(settings)
    except BrokenPipeError:  # the reader has seen enough, as in `apmax predict … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None
    except (ApmaxError, OSError, MemoryError, ImportError) as error:
        if settings.debug:
            raise
        fail(settings, str(error) or type(error).__name__)
    except typer.Exit:
        raise
    except Exception as error:  # a defect of ours: one line, and how to see where
        if settings.debug:
            raise
        if isinstance(error.__cause__, KeyboardInterrupt):  # on the way out of compiled code
            stop(settings)
        what = f"{type(error).__name__}: {error}"
        fail(settings, f"{what} - this should not happen; --debug before the command shows where")


def stop(settings: Settings) -> NoReturn:
    """Say that Ctrl-C came, and what there is; leave with the exit code for it."""
    there = f": {settings.kept} holds the best model so far" if settings.kept else ""
    settings.err.print(f"stopped before the end{there}", style="yellow")
    raise typer.Exit(INTERRUPTED) from None


def fail(settings: Settings, message: str) -> None:
    """Say what is wrong and leave with the exit code for it."""
    line = " ".join(message.split())
    if settings.as_json:
        sys.stderr.write(json.dumps({"error": line}, ensure_ascii=False) + "\n")
    else:
        settings.err.print(Text("error: ", style="red").append(line, style="default"))
    raise typer.Exit(FAILED)


def command_line() -> str:
    """What to type to run this again."""
    return shlex.join(["apmax", *sys.argv[1:]])


def check_writable(*paths: Path | None, read: Sequence[Path | None] = ()) -> None:
    """Before the work: that what it makes can be written, and is none of what it reads."""
    for path in paths:
        if path is None:
            continue
        for source in read:
            if source is not None and source.exists() and path.exists() and path.samefile(source):
                raise FileError(
                    f"{path} is to be read, and writing would replace it: choose another"
                )
        if path.is_dir():
            raise FileError(f"{path} is a folder: give the name of a file")
        if not path.parent.is_dir():
            raise FileError(f"cannot write {path}: there is no folder {path.parent}; make it first")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise FileError(f"cannot write {path}: permission denied; choose another place")
