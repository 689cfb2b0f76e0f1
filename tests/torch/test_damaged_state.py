"""A damaged state is refused before anything changes, or training goes on with finite weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from apmax.errors import ApmaxError  # noqa: E402
from tests.torch.test_training_tools import MAKERS, parts_of, train  # noqa: E402

MISSING = object()


def leaves(state: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(state, dict):
        for key, value in state.items():
            yield from leaves(value, (*path, key))
    elif isinstance(state, list):
        for number, value in enumerate(state):
            yield from leaves(value, (*path, number))
    else:
        yield path


def damages(value: Any) -> Iterator[Any]:
    yield from (MISSING, None, "text", -1, 1e300, 1 << 40, [], {}, torch.zeros(3, 3))
    if torch.is_tensor(value):
        yield torch.cat([value.reshape(-1), value.reshape(-1)[:1]])
        if value.is_floating_point():
            yield from (torch.full_like(value, x) for x in (torch.nan, torch.inf, -1.0, 1e30))
        else:
            yield from (torch.full_like(value, x) for x in (0, torch.iinfo(value.dtype).max))


def damaged(state: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of a state with another value at a path."""
    state = copy.deepcopy(state)
    place = state
    for key in path[:-1]:
        place = place[key]
    if value is MISSING:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return state


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if torch.is_tensor(left):
        return bool(torch.equal(left.nan_to_num(nan=-7.0), right.nan_to_num(nan=-7.0)))
    return bool(left == right)


@pytest.mark.filterwarnings("ignore:the checkpoint was tracked with")
@pytest.mark.parametrize("part", ["loss", "sampler"])
@pytest.mark.parametrize("name", MAKERS)
def test_a_damaged_state_is_refused_or_harmless(name: str, part: str) -> None:
    trained = parts_of(name)
    train(trained, 7)
    state = copy.deepcopy(trained[part].state_dict())
    for path in leaves(state):
        value = state
        for key in path:
            value = value[key]
        for damage in damages(value):
            parts = parts_of(name)
            train(parts, 1)
            before = copy.deepcopy(parts[part].state_dict())
            what = f"{path} = {str(damage)[:60]}"
            try:
                parts[part].load_state_dict(damaged(state, path, damage))
            except (ApmaxError, RuntimeError):
                assert same(parts[part].state_dict(), before), what
                continue
            except Exception as error:
                raise AssertionError(f"{what}: {error!r}") from error
            try:
                train(parts, 2)
            except ApmaxError:
                continue
            except Exception as error:
                raise AssertionError(f"{what}, later: {error!r}") from error
            assert all(one.isfinite().all() for one in parts["model"].parameters()), what
