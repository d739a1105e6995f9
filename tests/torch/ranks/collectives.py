# SPDX-License-Identifier: BSD-3-Clause
"""Every collective with every type and operation, compared with what each rank computes for itself.

All values are small integers, so every order of additions gives the same bits.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from rank import check, finish, start

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
COMBINED = (*INTEGERS, *UNSIGNED, *FLOATS, *COMPLEX, torch.bool)
MOVED = (*COMBINED, torch.float8_e4m3fn)
LENGTHS = (0, 1, 3, 1000)
LONG = 70_001

rank, size = start()


def values(count: int, dtype: torch.dtype, of_rank: int, salt: int = 0) -> torch.Tensor:
    """What a rank contributes. Every rank can compute this for all."""
    indices = torch.arange(count, dtype=torch.int64)
    small = (indices * (of_rank + 3) + of_rank * 7 + salt * 5) % 5
    if dtype == torch.bool:
        return small > 1
    if dtype in UNSIGNED:
        return small.to(dtype)
    if dtype in COMPLEX:
        return torch.complex((small - 2).double(), ((small * 3) % 4).double()).to(dtype)
    return (small - 2).to(dtype) if dtype != torch.float8_e4m3fn else (small - 2).float().to(dtype)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """The values in a type that has all operations."""
    if tensor.dtype == torch.bool:
        return tensor
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor.to(torch.int64)


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "SUM": operator.add, "AVG": operator.add, "PRODUCT": operator.mul, "MIN": torch.minimum,
    "MAX": torch.maximum, "BAND": operator.and_, "BOR": operator.or_, "BXOR": operator.xor,
}  # fmt: skip
LOGICAL: dict[str, Callable[[Any, Any], Any]] = {
    "SUM": operator.or_, "PRODUCT": operator.and_, "MIN": operator.and_, "MAX": operator.or_,
    "BAND": operator.and_, "BOR": operator.or_, "BXOR": operator.xor,
}  # fmt: skip


def combined(name: str, operands: list[torch.Tensor]) -> torch.Tensor:
    dtype = operands[0].dtype
    functions = LOGICAL if dtype == torch.bool else FUNCTIONS
    result = functools.reduce(functions[name], [wide(each) for each in operands])
    if name == "AVG":
        whole = not (result.is_floating_point() or result.is_complex())
        result = result.to(dtype)
        return result.div(size, rounding_mode="trunc") if whole else result.div(size)
    if not result.is_floating_point() and not result.is_complex() and dtype != torch.bool:
        bits = 8 * dtype.itemsize  # wraps around, as the type does
        if bits < 64:
            result = result & ((1 << bits) - 1)
            if dtype in INTEGERS:
                result = torch.where(result >= 1 << (bits - 1), result - (1 << bits), result)
    return result.to(dtype)


def operations(dtype: torch.dtype) -> list[str]:
    if dtype in COMPLEX:
        return ["SUM", "AVG"]
    if dtype == torch.bool:
        return list(LOGICAL)
    if dtype in FLOATS:
        return ["SUM", "AVG", "PRODUCT", "MIN", "MAX"]
    return [name for name in FUNCTIONS if name != "AVG" or dtype in (*INTEGERS, torch.uint8)]


def combine(dtype: torch.dtype, count: int, name: str) -> None:
    op = getattr(dist.ReduceOp, name)
    case = f"{dtype} {name} {count}"
    every = [values(count, dtype, r) for r in range(size)]
    want = combined(name, every)

    mine = every[rank].clone()
    dist.all_reduce(mine, op)
    check(f"all_reduce {case}", mine, want)
    mine = every[rank].clone()
    dist.all_reduce(mine, op, async_op=True).wait()
    check(f"all_reduce async {case}", mine, want)
    for root in {0, size - 1}:
        mine = every[rank].clone()
        dist.reduce(mine, root, op)
        check(f"reduce {case} to {root}", mine, want if rank == root else every[rank])

    blocks = [[values(count, dtype, r, salt=b) for b in range(size)] for r in range(size)]
    want = combined(name, [blocks[r][rank] for r in range(size)])
    mine = torch.empty(count, dtype=dtype)
    dist.reduce_scatter_tensor(mine, torch.cat(blocks[rank]), op)
    check(f"reduce_scatter_tensor {case}", mine, want)
    mine = torch.empty(count, dtype=dtype)
    dist.reduce_scatter(mine, blocks[rank], op, async_op=True).wait()
    check(f"reduce_scatter {case}", mine, want)


def move(dtype: torch.dtype, count: int) -> None:
    case = f"{dtype} {count}"
    every = [values(count, dtype, r) for r in range(size)]
    for root in {0, size - 1}:
        mine = every[rank].clone()
        dist.broadcast(mine, root, async_op=True).wait()
        check(f"broadcast {case} from {root}", mine, every[root])
        mine = torch.empty(count, dtype=dtype)
        lists = [torch.empty(count, dtype=dtype) for _ in range(size)] if rank == root else None
        dist.gather(every[rank], lists, root)
        for r in range(size):
            check(f"gather {case} to {root}", lists[r] if lists else every[r], every[r])
        dist.scatter(mine, every[1:] + every[:1] if rank == root else None, root)
        check(f"scatter {case} from {root}", mine, every[(rank + 1) % size])

    lists = [torch.empty(count, dtype=dtype) for _ in range(size)]
    dist.all_gather(lists, every[rank])
    for r in range(size):
        check(f"all_gather {case}", lists[r], every[r])
    whole = torch.empty(size * count, dtype=dtype)
    dist.all_gather_into_tensor(whole, every[rank])
    check(f"all_gather_into_tensor {case}", whole, torch.cat(every))
    # A rank's block of the output is its input.
    own = whole.zero_()[rank * count : (rank + 1) * count] if dtype != torch.float8_e4m3fn else None
    if own is not None:
        own.copy_(every[rank])
        dist.all_gather_into_tensor(whole, own, async_op=True).wait()
        check(f"all_gather_into_tensor in place {case}", whole, torch.cat(every))

    blocks = [[values(count, dtype, r, salt=b) for b in range(size)] for r in range(size)]
    received = torch.cat([blocks[r][rank] for r in range(size)])
    whole = torch.empty(size * count, dtype=dtype)
    dist.all_to_all_single(whole, torch.cat(blocks[rank]))
    check(f"all_to_all_single {case}", whole, received)
    lists = [torch.empty(count, dtype=dtype) for _ in range(size)]
    dist.all_to_all(lists, blocks[rank])
    check(f"all_to_all {case}", torch.cat(lists), received)


def uneven_lengths() -> None:
    lengths = [2 * r + (r == size - 1) for r in range(size)]
    every = [values(lengths[r], torch.float32, r) for r in range(size)]
    lists = [torch.empty(length) for length in lengths]
    dist.all_gather(lists, every[rank])
    for r in range(size):
        check("all_gather of unequal lengths", lists[r], every[r])
    blocks = [[values(lengths[b], torch.float32, r, salt=b) for b in range(size)] for r in range(size)]
    mine = torch.empty(lengths[rank])
    dist.reduce_scatter(mine, blocks[rank])
    check("reduce_scatter of unequal lengths", mine, combined("SUM", [blocks[r][rank] for r in range(size)]))

    # Rank r sends r + b rows of three elements to rank b.
    rows = [
        [values(3 * (r + b), torch.int32, r, salt=b).view(-1, 3) for b in range(size)] for r in range(size)
    ]
    to = torch.empty(sum(r + rank for r in range(size)), 3, dtype=torch.int32)
    sent, taken = [rank + b for b in range(size)], [r + rank for r in range(size)]
    dist.all_to_all_single(to, torch.cat(rows[rank]), taken, sent)
    check("all_to_all_single with splits", to, torch.cat([rows[r][rank] for r in range(size)]))
    # One rank gives splits, the others do not.
    flat = values(2 * size, torch.int32, rank)
    whole = torch.empty_like(flat)
    splits = [2] * size if rank == 0 else None
    dist.all_to_all_single(whole, flat, splits, splits)
    want = torch.cat([values(2 * size, torch.int32, r)[2 * rank : 2 * rank + 2] for r in range(size)])
    check("all_to_all_single with splits on one rank", whole, want)


def other_layouts() -> None:
    """Tensors with gaps, transposed ones, and views that torch conjugates when it reads them."""

    def with_gaps(r: int) -> torch.Tensor:
        return values(24, torch.float32, r).view(4, 6)[:, ::2]

    def transposed(r: int) -> torch.Tensor:
        return values(12, torch.float32, r).view(3, 4).t()

    for make in (with_gaps, transposed):
        want = combined("SUM", [make(r).contiguous() for r in range(size)])
        mine = make(rank)
        dist.all_reduce(mine)
        check(f"all_reduce {make.__name__}", mine, want)
        # The layouts of the ranks may differ.
        mine = make(rank) if rank % 2 == 0 else make(rank).contiguous()
        dist.broadcast(mine, 0, async_op=True).wait()
        check(f"broadcast {make.__name__}", mine, make(0))
        lists = [torch.empty_like(make(r)) for r in range(size)]
        dist.all_gather(lists, make(rank))
        for r in range(size):
            check(f"all_gather {make.__name__}", lists[r], make(r))
    base = [values(8, torch.complex64, r) for r in range(size)]
    whole = torch.empty(8 * size, dtype=torch.complex64)
    dist.all_to_all_single(whole.view(size, 8), torch.stack([base[rank].conj()] * size))
    check("all_to_all_single of conjugates", whole, torch.cat([each.conj() for each in base]))
    mine = torch.arange(6.0)[::2] if rank == 0 else torch.zeros(3)
    dist.reduce_scatter_tensor(mine[:1], torch.arange(size * 2.0)[::2])
    check("reduce_scatter_tensor with gaps", mine[:1], torch.tensor([2.0 * rank * size]))


def coalesced() -> None:
    tensors = [values(count, torch.float32, rank) for count in (5, 0, 300)]
    want = [
        combined("SUM", [values(each.numel(), torch.float32, r) for r in range(size)]) for each in tensors
    ]
    with dist._coalescing_manager(async_ops=rank == 0) as manager:
        for each in tensors:
            dist.all_reduce(each)
    manager.wait()
    for mine, sums in zip(tensors, want, strict=True):
        check("all_reduce coalesced", mine, sums)
    group = dist.group.WORLD
    outputs = [torch.empty(size * count) for count in (3, 400)]
    inputs = [values(count, torch.float32, rank) for count in (3, 400)]
    group.all_gather_single_coalesced(outputs, inputs).wait()
    for output in outputs:
        count = output.numel() // size
        check(
            "all_gather_single_coalesced",
            output,
            torch.cat([values(count, torch.float32, r) for r in range(size)]),
        )
    back = [torch.empty(count) for count in (3, 400)]
    group.reduce_scatter_single_coalesced(back, outputs).wait()
    for mine in back:
        check("reduce_scatter_single_coalesced", mine, values(mine.numel(), torch.float32, rank) * size)


def factors() -> None:
    for factor in (0.5, torch.tensor([0.25])):
        op = dist._make_nccl_premul_sum(factor)
        every = [values(100, torch.float32, r) * factor for r in range(size)]
        mine = values(100, torch.float32, rank)
        dist.all_reduce(mine, op)
        check("all_reduce PREMUL_SUM", mine, combined("SUM", every))
        mine = values(100, torch.float32, rank)
        dist.reduce(mine, 0, op)
        kept = values(100, torch.float32, rank)
        check("reduce PREMUL_SUM", mine, combined("SUM", every) if rank == 0 else kept)
        whole = values(10 * size, torch.float32, rank)
        part = torch.empty(10)
        dist.reduce_scatter_tensor(part, whole, op)
        sums = combined("SUM", [values(10 * size, torch.float32, r) * factor for r in range(size)])
        check("reduce_scatter_tensor PREMUL_SUM", part, sums[10 * rank : 10 * rank + 10])
        check(
            "reduce_scatter_tensor PREMUL_SUM keeps its input", whole, values(10 * size, torch.float32, rank)
        )


def objects() -> None:
    everything: list[Any] = [None] * size
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * (10 * rank)})
    check("all_gather_object", everything, [{"rank": r, "text": "x" * (10 * r)} for r in range(size)])
    listed = [f"from {rank}"]
    dist.broadcast_object_list(listed, size - 1)
    check("broadcast_object_list", listed, [f"from {size - 1}"])
    dist.barrier()


for each in COMBINED:
    for length in LENGTHS:
        for operation in operations(each):
            combine(each, length, operation)
for each in MOVED:
    for length in LENGTHS:
        move(each, length)
for operation in operations(torch.float32):
    combine(torch.float32, LONG, operation)
move(torch.float32, LONG)
uneven_lengths()
other_layouts()
coalesced()
factors()
objects()
finish()
