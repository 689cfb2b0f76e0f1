"""What two ranks must agree on; run by test_processes.py under torchrun."""

from __future__ import annotations

import copy
import os
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from apmax.errors import ApmaxError, ParameterError
from apmax.torch import (
    APLoss,
    CompositionalLoss,
    ExactAPHead,
    ExactAPLoss,
    ListwiseLoss,
    NDCGLoss,
    PartialAUCLoss,
    PNormPushLoss,
    QueryAPLoss,
    SmoothAPLoss,
)
from apmax.torch.distributed import gather_checked

RNG = np.random.default_rng(0)
N = 40
LABELS = torch.arange(N) % 4 == 0
SCORES = torch.from_numpy(RNG.random(N))
PARTS = {
    "even": [torch.arange(0, 20), torch.arange(20, 40)],
    "uneven": [torch.arange(0, 33), torch.arange(33, 40)],
    "empty": [torch.arange(0, 40), torch.arange(0)],
}


RELEVANCE, QUERY = LABELS.long() * (1 + torch.arange(N) % 3), torch.arange(N) // 10
INDEXED: tuple[Any, ...] = (
    lambda **k: APLoss(LABELS, **k),
    lambda **k: PartialAUCLoss(LABELS, **k),
    lambda **k: PartialAUCLoss(LABELS, positives=0.5, **k),
    lambda **k: PNormPushLoss(LABELS, **k),
    lambda **k: QueryAPLoss(RELEVANCE, QUERY, **k),
    lambda **k: NDCGLoss(RELEVANCE, QUERY, k=3, **k),
    lambda **k: ListwiseLoss(RELEVANCE, QUERY, **k),
)


def check_parts(rank: int) -> None:
    """The gathered batch gives the value and this rank's part of the gradient, times two."""
    for parts in PARTS.values():
        mine = parts[rank]
        whole = torch.cat(parts)
        for make in (*INDEXED, ExactAPLoss, SmoothAPLoss):
            together, alone = make().double(), make(process_group=False).double()
            indexed = make in INDEXED
            arguments = (lambda i: i) if indexed else (lambda i: LABELS[i])
            s = SCORES[mine].clone().requires_grad_()
            value = together(s, arguments(mine))
            value.backward()
            t = SCORES[whole].clone().requires_grad_()
            expected = alone(t, arguments(whole))
            expected.backward()
            start = sum(part.numel() for part in parts[:rank])
            torch.testing.assert_close(value, expected)
            torch.testing.assert_close(s.grad, 2 * t.grad[start : start + mine.numel()])
        engine = CompositionalLoss(lambda u: u[:, 0] ** 2, N, 1).double()
        inner = SCORES[mine, None].clone().requires_grad_()
        engine(inner, mine).backward()
        torch.testing.assert_close(inner.grad, 2 * 2 * SCORES[mine, None] / N)


def check_head(rank: int) -> None:
    """Each rank has its own loader; all fit the layer of the whole data."""
    whole = torch.linspace(-1, 1, N).double()[:, None] ** torch.arange(1, 4)
    heads = [torch.nn.Linear(3, 1).double() for _ in range(2)]
    for head in heads:
        torch.nn.init.ones_(head.weight)
        torch.nn.init.zeros_(head.bias)
    mine = PARTS["uneven"][rank]
    ExactAPHead(alphas=0.1).fit(heads[0], [(whole[mine], LABELS[mine])])
    ExactAPHead(alphas=0.1, process_group=False).fit(heads[1], [(whole, LABELS)])
    torch.testing.assert_close(heads[0].weight, heads[1].weight, rtol=1e-12, atol=0)
    try:
        ExactAPHead().fit(heads[0], [] if rank == 1 else [(whole[mine], LABELS[mine])])
    except ApmaxError:
        return
    raise AssertionError("a rank went on without the other")


def check_errors(rank: int) -> None:
    """What one rank refuses, all refuse, and nobody waits."""
    mine = PARTS["even"][rank]
    for bad in (SCORES[mine][0], SCORES[mine] * float("nan"), SCORES[mine].long(), SCORES[:3]):
        loss = APLoss(LABELS).double()
        before = copy.deepcopy(loss)
        try:
            loss(bad if rank == 1 else SCORES[mine], mine)
        except ApmaxError:
            pass
        else:
            raise AssertionError("a rank went on without the other")
        torch.testing.assert_close(loss.tracked(), before.tracked(), equal_nan=True)
        assert loss.rounds == before.rounds
    loss = APLoss(LABELS).double()
    loss(SCORES[mine], mine.int() if rank == 1 else mine)  # either kind of integer


def check_layouts(rank: int) -> None:
    """Parts of other types or columns are refused on all ranks, which then still work."""
    mine, two = PARTS["even"][rank], torch.stack([LABELS, ~LABELS], 1)
    one_column, two_columns = APLoss(LABELS).double(), APLoss(two).double()
    single = SCORES.float() if rank == 1 else SCORES
    calls: tuple[tuple[Callable[[], Any], str], ...] = (
        (
            lambda: one_column(single[mine], mine),
            "rank 1 has torch.float32 of shape (B), torch.int64 of shape (B) and rank",
        ),
        (
            lambda: ExactAPLoss()(single[mine], LABELS[mine]),
            "rank 1 has torch.float32 of shape (B, 1)",
        ),
        (
            lambda: (
                two_columns(torch.stack([SCORES[mine]] * 2, 1), mine)
                if rank == 1
                else one_column(SCORES[mine], mine)
            ),
            "torch.float64 of shape (B, 2)",
        ),
        (
            lambda: one_column(SCORES[mine], mine, LABELS[mine] if rank == 1 else None),
            "rank 1 has torch.float64 of shape (B), torch.int64 of shape (B), torch",
        ),
    )
    for call, message in calls:
        with pytest.raises(ParameterError, match=re.escape(message)):
            call()
    assert one_column.rounds == two_columns.rounds == 0
    one_column(SCORES[mine], mine)


def check_any_error(rank: int) -> None:
    """Also an error that is not one of apmax is raised on all ranks."""

    def check() -> tuple[torch.Tensor, ...]:
        if rank == 1:
            raise ZeroDivisionError("zero")
        return (SCORES,)

    expected = ZeroDivisionError if rank == 1 else ParameterError
    with pytest.raises(expected, match="zero" if rank == 1 else "rank 1 raised an error"):
        gather_checked(check, APLoss(LABELS))


def main(folder: Path) -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=300))
    rank = dist.get_rank()
    check_parts(rank)
    check_errors(rank)
    check_layouts(rank)
    check_any_error(rank)
    check_head(rank)
    if rank == 0:  # one rank alone, with nobody to wait for
        ExactAPLoss(process_group=False)(SCORES, LABELS)
    loss = APLoss(LABELS)
    for step in range(20):
        drawn = np.random.default_rng(step).permutation(N)[:16]
        mine = torch.from_numpy(np.array_split(drawn, 2)[rank])
        loss(SCORES[mine], mine)
    torch.save(loss.state_dict(), folder / f"rank{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(Path(sys.argv[1]))
