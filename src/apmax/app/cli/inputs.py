"""Groups of options about the input, and the output options that every command accepts."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.numbers import NumberFormat
    from apmax.app.roles import Roles

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
OUTPUT = {"as_json": AsJson, "quiet": Quiet, "debug": Debug}


@dataclass(frozen=True)
class Columns:
    """Which columns of the training table are features."""

    drop: Annotated[
        list[str] | None, typer.Option(help="Columns to leave out: repeat, or separate by commas.")
    ] = None
    only: Annotated[list[str] | None, typer.Option(help="Use these columns only.")] = None
    id: Annotated[
        str | None, typer.Option(help="Column that identifies rows: not used, kept by predict.")
    ] = None
    weight: Annotated[str | None, typer.Option(help="Column of sample weights.")] = None
    group: Annotated[
        str | None, typer.Option(help="Column of groups that no test or fold divides.")
    ] = None
    time: Annotated[
        str | None, typer.Option(help="Column of times: every fold tests later rows. Not used.")
    ] = None

    def roles(self) -> Roles:
        """Return the same as the library of the application takes it."""
        from apmax.app.roles import Roles

        drop, only = tuple(self.drop or ()), tuple(self.only or ())
        return Roles(drop, only, self.id, self.weight, self.group, self.time)


@dataclass(frozen=True)
class Reading:
    """How text is read."""

    decimal: Annotated[
        str | None, typer.Option(help='Decimal separator: "." or ",". Default: detected.')
    ] = None
    thousands: Annotated[
        str | None, typer.Option(help="Separator of thousands. Default: detected.")
    ] = None
    encoding: Annotated[str | None, typer.Option(help="Text encoding. Default: UTF-8.")] = None

    def arguments(self, known: Mapping[str, NumberFormat] | None = None) -> dict[str, Any]:
        """Return the arguments of `load`; `known` are the formats of a model's columns."""
        from apmax.app.numbers import NumberReader, number_format

        given = number_format(self.decimal, self.thousands)
        return {"numbers": NumberReader(given, known or {}), "encoding": self.encoding}


DropUnlabelled = Annotated[
    bool, typer.Option("--drop-unlabelled", help="Leave out rows without a label.")
]


@dataclass(frozen=True)
class Labels:
    """Where the labels are, and what they mean."""

    target: Annotated[
        str | None,
        typer.Option(
            help='Column to predict: name, number from 1, or "last". Not for LIBSVM and NPZ.'
        ),
    ] = None
    positive: Annotated[str | None, typer.Option(help="Label to find. Default: the rarer one.")] = (
        None
    )
    rest: Annotated[bool, typer.Option("--rest", help="Treat all other labels as negative.")] = (
        False
    )
    drop_unlabelled: DropUnlabelled = False


@dataclass(frozen=True)
class Fitting:
    """Which models are fitted, to which rows, and how long it may take."""

    model: Annotated[
        str, typer.Option("--model", help="auto, trees, linear, or a name of the leaderboard.")
    ] = "auto"
    minutes: Annotated[float | None, typer.Option(help="Time limit in minutes. Default: none.")] = (
        None
    )
    jobs: Annotated[
        int | None,
        typer.Option(help="Number of processes. Default: one per core; one for small tables."),
    ] = None
    rows: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of rows to train on: all positives, and other rows, weighted. "
            "Default: all, or those that fit into memory."
        ),
    ] = None
    seed: Annotated[int, typer.Option(help="Random seed of folds, held-out rows and models.")] = 0
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop if a column may reveal the target or is an ID.")
    ] = False
    started: float = field(default_factory=time.perf_counter, init=False)
    """When the time limit began."""

    def settings(self) -> dict[str, Any]:
        """Return the arguments of `train_model`."""
        names = ("model", "minutes", "jobs", "seed", "started")
        return {name: getattr(self, name) for name in names}


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace parameters that are groups of options by these, and add the output options."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    shown = []
    for one in inspect.signature(command).parameters.values():
        if one.name in groups:
            types = get_type_hints(groups[one.name], include_extras=True)
            options = _options(groups[one.name])
            shown += [_option(each.name, types[each.name], each.default) for each in options]
        else:
            shown.append(_option(one.name, hints[one.name], one.default))
    shown += [_option(name, kind, False) for name, kind in OUTPUT.items()]

    @wraps(command)
    def run(context: typer.Context, **values: Any) -> None:
        for name in OUTPUT:
            setattr(context.obj, name, values.pop(name) or getattr(context.obj, name))
        made = {
            name: kind(**{one.name: values.pop(one.name) for one in _options(kind)})
            for name, kind in groups.items()
        }
        command(context=context, **values, **made)

    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in shown}
    return run


def _options(group: Any) -> list[Any]:
    return [one for one in fields(group) if one.init]


def _option(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
