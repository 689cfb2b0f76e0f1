"""Folds over the partitions of Dask collections.

Every evaluation is one graph of pure tasks: a task per partition, and merges of up to `FAN_IN`
results in the order of the partitions. No task depends on which worker runs it, so a worker that
ends is replaced by any other, and results are the same bits for any number of workers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from dask.task_spec import List, Task, TaskRef
from distributed import Client, KilledWorker, futures_of, wait
from numpy.typing import NDArray

from apmax.errors import (
    ApmaxError,
    LabelError,
    NotNumericError,
    NoWorkerError,
    PartitionError,
    ShapeError,
)
from apmax.interrupts import raise_if_interrupted
from apmax.objective._pair_sums import NO_WEIGHTS
from apmax.scale.blocks import Block, Engine
from apmax.scale.sums import check_block_weights
from apmax.validation import Floats

T = TypeVar("T")
FAN_IN = 8
"""Results that one task merges."""
POLL = 0.5
"""Seconds between checks for Ctrl-C."""
WAIT = 5.0
"""Seconds between checks that there are workers."""


class RawBlock(NamedTuple):
    """Rows of a partition with their labels as given."""

    X: Any
    y: NDArray[Any]
    weight: Floats


class Description(NamedTuple):
    """Classes with their weights, the number of features, and whether X is sparse."""

    totals: dict[Any, float]
    features: int
    sparse: bool


class ClusterBlocks(Engine):
    """Blocks that are partitions in the memory of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    parts : list of Delayed
        Blocks.
    description : Description
        Of all partitions.
    timeout : float
        Seconds without any worker after which a fold fails.
    """

    def __init__(
        self, client: Client, parts: Sequence[Any], description: Description, timeout: float
    ) -> None:
        self.client, self.parts, self.timeout = client, parts, timeout
        self.features, self.sparse = description.features, description.sparse

    def fold(
        self,
        function: Callable[..., T],
        merge: Callable[[T, T], T],
        *arguments: Any,
        finish: Callable[..., Any] | None = None,
    ) -> Any:
        """Compute a fold as one graph."""
        result = tree(self.parts, function, merge, *arguments, finish=finish)
        return result_of(self.client, result, self.timeout)


def result_of(client: Client, graph: Any, timeout: float) -> Any:
    """Compute a Delayed object.

    Raises
    ------
    PartitionError
        If the workers of a task end repeatedly.
    NoWorkerError
        If the cluster has had no worker for `timeout` seconds.
    KeyboardInterrupt
        If Ctrl-C is pressed. As after any error, what is not computed yet is cancelled.
    """
    future = client.compute(graph, optimize_graph=False)
    try:
        _wait(client, future, timeout)
    except BaseException:
        with suppress(Exception):  # of a cluster that has ended
            future.cancel()
        raise
    try:
        return future.result()
    except KilledWorker as error:
        raise partition_error(client, error, future.key) from None


def _wait(client: Client, future: Any, timeout: float) -> None:
    """Wait for a future; Ctrl-C and a cluster without workers raise."""
    seen = checked = time.monotonic()
    while not _finished(future, min(timeout, POLL)):
        raise_if_interrupted()
        if time.monotonic() - checked < min(timeout, WAIT):
            continue
        checked = time.monotonic()
        if client.nthreads():
            seen = checked
        elif checked - seen >= timeout:
            raise NoWorkerError(
                f"the Dask cluster has had no worker for {timeout:g} seconds: start workers and "
                "look into the logs of those that ended, or increase worker_timeout"
            )


def _finished(future: Any, timeout: float) -> bool:
    """Wait for a future; an error of its task counts as an end, too."""
    try:
        with future.client.as_current():  # wait() needs a default client
            wait(future, timeout=timeout)
    except TimeoutError:
        return False
    return True


def tree(
    parts: Sequence[Any],
    function: Callable[..., T],
    merge: Callable[[T, T], T],
    *arguments: Any,
    finish: Callable[..., Any] | None = None,
) -> Any:
    """Return the graph of a fold over Delayed parts as one Delayed object."""
    name = f"apmax-{function.__name__}-{uuid4().hex[:12]}"
    graph: dict[str, Task] = {}

    def task(which: str, *call: Any) -> TaskRef:
        graph[f"{name}-{which}"] = Task(f"{name}-{which}", *call)
        return TaskRef(f"{name}-{which}")

    given = task("arguments", tuple, arguments)
    level = [
        task(str(i), _apply, function, TaskRef(part.key), i, given) for i, part in enumerate(parts)
    ]
    depth = 0
    while len(level) > FAN_IN:
        depth += 1
        level = [
            task(f"merge-{depth}-{i}", _combine, merge, List(*level[i : i + FAN_IN]))
            for i in range(0, len(level), FAN_IN)
        ]
    task("result", _finish, merge, List(*level), finish, given)
    # Much cheaper to build than a Delayed object per task.
    layers = HighLevelGraph.from_collections(name, graph, dependencies=parts)
    return Delayed(f"{name}-result", layers, layer=name)


def _apply(function: Callable[..., T], part: Any, index: int, arguments: tuple[Any, ...]) -> T:
    try:
        return function(part, *arguments)
    except ApmaxError as error:
        raise type(error)(f"partition {index}: {error}") from None


def _combine(merge: Callable[[T, T], T], results: list[T]) -> T:
    merged = results[0]
    for one in results[1:]:
        merged = merge(merged, one)
    return merged


def _finish(
    merge: Callable[[T, T], T],
    results: list[T],
    finish: Callable[..., Any] | None,
    arguments: tuple[Any, ...],
) -> Any:
    merged = _combine(merge, results)
    return merged if finish is None else finish(merged, *arguments)


def persisted(client: Client, parts: Sequence[Any]) -> list[Any]:
    """Start to compute the parts and keep them in the cluster, where they can be recomputed."""
    return list(client.persist(list(parts), optimize_graph=False))


def persisted_evenly(client: Client, parts: Sequence[Any], sources: Sequence[Any]) -> list[Any]:
    """Persist parts where their sources lie, but as many per thread on each worker.

    The workers are a hint: others compute the parts of a worker that ends.
    """
    threads = client.nthreads()
    if not threads:
        return persisted(client, parts)
    holders = client.who_has(futures_of(list(sources)))
    workers = even_workers([holders.get(one.key, ()) for one in sources], threads)
    kept = list(parts)
    for worker in dict.fromkeys(workers):
        which = [k for k, one in enumerate(workers) if one == worker]
        found = client.persist(
            [parts[k] for k in which],
            optimize_graph=False,
            workers=[worker],
            allow_other_workers=True,
        )
        for k, part in zip(which, found, strict=True):
            kept[k] = part
    return kept


def even_workers(holders: Sequence[Sequence[str]], threads: Mapping[str, int]) -> list[str]:
    """Return a worker for each part: one that holds it, unless that holds more than its share.

    Parameters
    ----------
    holders : sequence of sequences of str
        Workers that hold each part.
    threads : dict of str to int
        Number of threads of each worker.
    """
    share = len(holders) / sum(threads.values())
    room = {worker: int(share * count) for worker, count in threads.items()}
    chosen: list[str | None] = []
    for held in holders:
        chosen.append(next((one for one in held if room.get(one, 0) > 0), None))
        if chosen[-1] is not None:
            room[chosen[-1]] -= 1

    def most_room(held: Sequence[str]) -> str:
        found = max(room, key=lambda one: (room[one] / threads[one], one in held))
        room[found] -= 1
        return found

    return [one or most_room(held) for one, held in zip(chosen, holders, strict=True)]


def raw_block(X: Any, y: Any, weight: Any, index: int, dtype: str) -> RawBlock:
    """Return a partition as arrays; labels and weights may be columns of a frame, by name."""
    where = f"partition {index}: "
    roles = [one for one in (y, weight) if isinstance(one, str)]
    table, X = X, X.drop(columns=roles) if roles else X
    y, weight = (table[one] if isinstance(one, str) else one for one in (y, weight))
    if _any_missing(y):
        raise LabelError(f"{where}y has missing labels: drop these rows")
    if not sp.issparse(X):
        try:
            X = np.ascontiguousarray(X, dtype=dtype)
        except (TypeError, ValueError) as error:
            raise NotNumericError(
                f"{where}features cannot be converted to numbers ({error}): select numeric "
                "columns, or encode the others first"
            ) from None
    else:
        X = sp.csr_matrix(X, dtype=dtype)
        X.sum_duplicates()
    labels = np.asarray(y).reshape(-1)
    if labels.dtype.kind == "O":
        labels = np.array(labels.tolist())
    if X.ndim != 2 or labels.size != X.shape[0]:
        raise ShapeError(
            f"{where}X has shape {X.shape} and y {labels.size} rows: give both the same partitions"
        )
    v = NO_WEIGHTS if weight is None else np.array(weight, dtype=np.float64).reshape(-1)
    if weight is not None and v.size != labels.size:
        raise ShapeError(
            f"{where}sample_weight has {v.size} rows and y {labels.size}: give both the same "
            "partitions"
        )
    try:
        check_block_weights(v)
    except ApmaxError as error:
        raise type(error)(f"{where}{error}") from None
    return RawBlock(X, labels, v)


def _any_missing(y: Any) -> bool:
    """Return whether labels of any type are missing; a conversion to text would hide it."""
    if hasattr(y, "isna"):
        return bool(np.asarray(y.isna()).any())
    labels = np.asarray(y).reshape(-1)
    if labels.dtype.kind == "O":
        return any(map(_is_missing, labels.tolist()))
    return labels.dtype.kind in "fcmM" and bool(np.isnan(labels).any())


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)  # noqa: PLR0124
    except TypeError:  # pandas.NA is neither equal nor different
        return True


def describe(part: RawBlock) -> Description:
    """Return the classes and their weights, and what kind of features there are."""
    classes, place = np.unique(part.y, return_inverse=True)
    if classes.size > 2:
        shown = ", ".join(map(repr, classes[:5].tolist()))
        raise LabelError(f"y holds {classes.size} classes ({shown}): average precision needs two")
    totals = np.bincount(place, part.weight if part.weight.size else None, classes.size)
    return Description(
        dict(zip(classes.tolist(), totals.tolist(), strict=True)),
        int(part.X.shape[1]),
        bool(sp.issparse(part.X)),
    )


def merge_descriptions(first: Description, second: Description) -> Description:
    """Merge the classes; features must be the same."""
    if first[1:] != second[1:]:
        raise ShapeError(
            f"partitions have {first.features} and {second.features} features, or mix dense and "
            "sparse ones: give all of them the same columns"
        )
    totals = dict(first.totals)
    for label, total in second.totals.items():
        totals[label] = totals.get(label, 0.0) + total
    return Description(totals, *first[1:])


def block_of(part: RawBlock, positive_label: Any) -> Block:
    """Return a block with the mask of positives."""
    return Block(part.X, np.asarray(part.y == positive_label, dtype=bool), part.weight)


def unrecomputable(client: Client, *collections: Any) -> list[str]:
    """Return keys of scattered data, which is lost if its worker stops."""
    keys = [one.key for collection in collections for one in futures_of(collection)]
    return list(client.run_on_scheduler(_without_task, keys=keys)) if keys else []


def _without_task(keys: list[Any], dask_scheduler: Any) -> list[str]:
    tasks = dask_scheduler.tasks
    return [str(key) for key in keys if key in tasks and tasks[key].run_spec is None]


def partition_error(client: Client, error: KilledWorker, key: Any) -> PartitionError:
    """Return an error that names the partition whose workers ended.

    Dask counts the ends of a worker for every task that it ran or had waiting. All tasks with the
    highest count are named, since one of them is the cause; only those that `key` needs.
    """
    blamed = str(getattr(error, "task", error))
    keys = client.run_on_scheduler(_most_suspicious, key=key)
    return _partition_error(blamed, [str(key) for key in keys])


def _most_suspicious(key: Any, dask_scheduler: Any) -> list[Any]:
    count: dict[Any, int] = {}
    ahead = [dask_scheduler.tasks[key]] if key in dask_scheduler.tasks else []
    while ahead:
        task = ahead.pop()
        if task.key not in count:
            count[task.key] = task.suspicious
            ahead.extend(task.dependencies)
    most = max(count.values(), default=0)
    return [key for key in count if most > 0 and count[key] == most]


def _partition_error(blamed: str, others: Sequence[str]) -> PartitionError:
    found = {number for key in (blamed, *others) if (number := _partition(key)) is not None}
    where = f"task {blamed}"
    if len(found) == 1:
        where = f"partition {found.pop()}"
    elif found:
        where = f"one of the partitions {', '.join(map(str, sorted(found)))}"
    return PartitionError(
        f"workers that computed {where} ended repeatedly, most often for lack of memory: use "
        f"smaller partitions or workers with more memory, and check its rows (task {blamed})"
    )


def _partition(key: str) -> int | None:
    """Return the partition of a task: keys are (name, partition, …), ours end with it."""
    number = re.search(r"', (\d+)", key) or re.search(r"-(\d+)$", key)
    return int(number[1]) if number else None
