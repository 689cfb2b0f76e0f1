"""Output of the commands: results, notes, progress, errors and exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import rich.box
import rich.console
import typer
from rich.cells import cell_len
from rich.console import ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from apmax.app import cli
from apmax.errors import ApmaxError, FileError

FAILED = 1
"""Exit code of errors; wrong usage is 2 and Ctrl-C 130."""
LOG_SECONDS = 30.0
"""Time between two lines of progress in a log."""
TASKS_CANCELLED = r"\d+ tasks which were still being processed"
"""Beginning of a warning of joblib after Ctrl-C."""
Advance = Callable[..., None]
"""Called with the stage, the steps done, their number, and the AP so far."""


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters, except tab and newline, with which data could command a terminal."""


class Terminal(rich.console.Console):
    """Prints text as it is, because a category may be "[red]", but without control characters."""

    def __init__(self, *, stderr: bool) -> None:
        super().__init__(stderr=stderr, soft_wrap=True, markup=False, emoji=False, highlight=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Yield what is printed: lines, cells of tables and progress bars."""
        for one in super().render(renderable, options):
            yield one if one.control else one._replace(text=_CONTROL.sub("", one.text))


def write_csv(frame: Any) -> None:
    """Write a table to stdout, row by row; a terminal gets no control characters."""
    stream = PlainText() if sys.stdout.isatty() else sys.stdout
    frame.to_csv(stream, index=False)


class PlainText:
    """Writes text without control characters to stdout, as pandas does to a file."""

    def write(self, text: str) -> int:
        """Write text that may contain control characters."""
        return sys.stdout.write(_CONTROL.sub("", text))


def _json(data: dict[str, Any], indent: int | None = None) -> str:
    """Return JSON without control characters, of which `json` escapes a part only."""
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


@dataclass
class Console:
    """Where a command writes, and the options that all commands share."""

    as_json: bool = False
    quiet: bool = False
    debug: bool = False
    out: rich.console.Console = field(default_factory=lambda: Terminal(stderr=False))
    err: rich.console.Console = field(default_factory=lambda: Terminal(stderr=True))

    def say(self, text: str) -> None:
        """Print a line, except with --quiet and --json."""
        if not (self.quiet or self.as_json):
            self.out.print(text)

    def warn(self, notes: Sequence[str]) -> None:
        """Print warnings to stderr, one line each, except with --quiet."""
        for note in () if self.quiet else notes:
            self.err.print(f"warning: {note}", style="dim")

    def note(self, text: str) -> None:
        """Print a line to stderr, except with --quiet and --json."""
        if not (self.quiet or self.as_json):
            self.err.print(f"note: {text}", style="dim")

    def show(self, data: dict[str, Any], table: ResultTable | None = None) -> None:
        """Print a result: one JSON object with --json, and else the table."""
        if self.as_json:
            sys.stdout.write(_json(data, indent=2))
        elif table is not None and not self.quiet:
            self.out.print(table.fitted_to(self.out))

    def stop(self) -> NoReturn:
        """Exit after Ctrl-C."""
        self.err.print(cli.interrupt_message, style="yellow")
        raise typer.Exit(cli.INTERRUPTED)

    def fail(self, message: str) -> NoReturn:
        """Print an error on one line and exit."""
        line = " ".join(message.split())
        if self.as_json:
            sys.stderr.write(_json({"error": line}))
        else:
            self.err.print(Text("error: ", style="red").append(line, style="default"))
        raise typer.Exit(FAILED)

    @contextmanager
    def progress(self, stage: str, total: int | None = None) -> Iterator[Advance]:
        """Show a progress bar on a terminal, and a line every 30 seconds in a log."""
        shown = not self.quiet and self.err.is_terminal and not self.as_json
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[ap]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self.err,
            transient=True,
            disable=not shown,
        )
        log = ProgressLog(stage, self.err)
        with bar, nullcontext() if shown or self.quiet else log.every(LOG_SECONDS):
            task = bar.add_task(stage, total=total, ap="")

            def advance(stage: str, done: int, of: int | None, ap: float | None = None) -> None:
                text = "" if ap is None else f"AP {ap:.4f}"
                bar.update(task, description=stage, completed=done, total=of, ap=text)
                log.stage, log.done, log.total, log.ap = stage, done, of, text

            yield advance

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn exceptions into one line and an exit code, and warnings into one line each."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                warnings.filterwarnings("ignore", TASKS_CANCELLED)
                warnings.showwarning = lambda message, *_, **__: self.warn([str(message)])
                yield
        except typer.Exit:
            raise
        except BrokenPipeError:  # the reader is done, as in `apmax predict … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None
        except BaseException as error:
            if self.debug or isinstance(error, (SystemExit, GeneratorExit)):
                raise
            # Compiled code replaces KeyboardInterrupt by a SystemError that it causes.
            if any(isinstance(e, KeyboardInterrupt) for e in (error, error.__cause__)):
                self.stop()
            if isinstance(error, (ApmaxError, OSError, MemoryError, ImportError)):
                self.fail(str(error) or type(error).__name__)
            self.fail(
                f"internal error: {type(error).__name__}: {error}. Rerun with `apmax --debug …` "
                "and report it"
            )


@dataclass
class ProgressLog:
    """Writes the state of a long command to a log, also while a single fit takes long."""

    stage: str
    out: rich.console.Console
    done: int = 0
    total: int | None = None
    ap: str = ""
    start: float = field(default_factory=time.monotonic)

    @contextmanager
    def every(self, seconds: float) -> Iterator[None]:
        """Write a line after every so many seconds, from a thread."""
        ended = threading.Event()

        def write() -> None:
            while not ended.wait(seconds):
                self.out.print(self.line())

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def line(self) -> str:
        """Return stage, steps, AP, time and, after a fifth of the steps, the time left."""
        elapsed = time.monotonic() - self.start
        parts = [self.stage, f"{self.done} of {self.total}" if self.total else "", self.ap]
        parts.append(f"{elapsed:.0f} s")
        if self.total and self.done >= 0.2 * self.total:
            parts.append(f"about {elapsed * (self.total / self.done - 1):.0f} s left")
        return f"progress: {', '.join(filter(None, parts))}"


class ResultTable(Table):
    """A table for narrow terminals: headers wrap, cells do not, and columns may be left out."""

    less_important: Sequence[str] = ()
    """Headers of the columns that may be left out, the least important first."""

    def fitted_to(self, console: rich.console.Console) -> Table:
        """Return the table with as many columns as fit into the terminal."""
        for column in self.columns:
            texts = [*map(str, column.cells), *str(column.header).split()]
            column.min_width = max(map(cell_len, texts), default=0)
            column.no_wrap = column.min_width >= cell_len(str(column.header))
        unlimited = console.options.update(width=10_000)
        for header in self.less_important:
            if console.measure(self, options=unlimited).minimum <= console.width:
                break
            self.columns = [column for column in self.columns if column.header != header]
        return self


def make_table(title: str, *columns: str, less_important: Sequence[str] = ()) -> ResultTable:
    """Return a table whose first column is text and whose others are numbers."""
    table = ResultTable(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=rich.box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.less_important = less_important
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right")
    return table


def command_line() -> str:
    """Return the command that was run."""
    return shlex.join(["apmax", *sys.argv[1:]])


def check_outputs(*paths: Path | None, inputs: Sequence[Path | None] = ()) -> None:
    """Raise FileError before any work if an output cannot be written or would replace an input."""
    for path in filter(None, paths):
        for source in filter(None, inputs):
            if source.exists() and path.exists() and path.samefile(source):
                raise FileError(f"{path} is an input and would be overwritten: choose another file")
        if path.is_dir():
            raise FileError(f"{path} is a folder: give the name of a file")
        if not path.parent.is_dir():
            raise FileError(f"cannot write {path}: there is no folder {path.parent}; create it")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise FileError(f"cannot write {path}: permission denied; choose another file")
