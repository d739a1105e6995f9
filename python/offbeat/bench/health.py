# SPDX-License-Identifier: BSD-3-Clause
"""What ``offbeat doctor`` concludes from what the ranks have found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from offbeat.bench.probe import RankFacts
from offbeat.units import format_count, format_size

_BOARD_MEMORY_BYTES = 64 << 20  # what the boards of a rank may take together: OFFBEAT_MEMORY_MIB


class Status(str, Enum):
    """How a check ended."""

    ok = "ok"
    warning = "warning"
    failed = "failed"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Status
    text: str
    advice: str = ""


def checks_of_ranks(ranks: Sequence[RankFacts]) -> list[Check]:
    """The checks that need running ranks."""
    hosts: dict[str, list[RankFacts]] = {}
    for each in ranks:
        hosts.setdefault(each.host, []).append(each)
    return [*_preload(ranks), *_shared_memory(hosts), *_cores(hosts), *_locked_memory(hosts)]


def _preload(ranks: Sequence[RankFacts]) -> Iterator[Check]:
    without = [each.rank for each in ranks if not each.loaded]
    if without:
        yield Check(
            "preload",
            Status.failed,
            f"not loaded in {len(without)} of {format_count(len(ranks), 'rank')}, the first is rank "
            f"{without[0]}",
            "Check that the launcher passes LD_PRELOAD on, and that offbeat is at the same path on every "
            "host.",
        )
        return
    unseen = [each.rank for each in ranks if not each.intercepted]
    if unseen:
        yield Check(
            "preload",
            Status.failed,
            f"MPI_Allreduce does not reach liboffbeat on rank {unseen[0]}",
            "Another library that is loaded before it, such as a profiler, keeps the calls.",
        )
    else:
        every = f"all {len(ranks)} ranks" if len(ranks) > 1 else "the rank"
        yield Check("preload", Status.ok, f"offbeat sees the calls of {every}")
    if not all(each.right for each in ranks):
        yield Check("results", Status.failed, "an allreduce gave a wrong sum", "Please report this.")


def _shared_memory(hosts: Mapping[str, Sequence[RankFacts]]) -> Iterator[Check]:
    for host, ranks in hosts.items():
        least = min(each.shared_bytes for each in ranks)
        free = min(each.free_shared_bytes for each in ranks)
        if len(ranks) > 1 and not all(each.board for each in ranks):
            yield Check(
                "shared memory",
                Status.failed,
                f"the ranks of {host} do not share memory, so their collectives go to the MPI",
                "Give containers one /dev/shm (--ipc=host), and check that OFFBEAT_BOARD_KIB is not 0.",
            )
        elif free < len(ranks) * _BOARD_MEMORY_BYTES:
            wanted = format_size(len(ranks) * _BOARD_MEMORY_BYTES)
            yield Check(
                "shared memory",
                Status.warning,
                f"/dev/shm of {host} has {format_size(least)}, {_rounded_size(free)} of it free; "
                f"{format_count(len(ranks), 'rank')} may want {wanted}",
                "Make it larger (docker run --shm-size), or set OFFBEAT_MEMORY_MIB to less.",
            )
        else:
            yield Check(
                "shared memory",
                Status.ok,
                f"/dev/shm of {host}: {_rounded_size(least)}, {_rounded_size(free)} free",
            )


def _cores(hosts: Mapping[str, Sequence[RankFacts]]) -> Iterator[Check]:
    for host, ranks in hosts.items():
        cpus = {cpu for each in ranks for cpu in _numbers(each.cpus)}
        if len(ranks) > len(cpus):
            yield Check(
                "cores",
                Status.warning,
                f"{format_count(len(ranks), 'rank')} share {format_count(len(cpus), 'CPU')} on {host}",
                "Start fewer ranks, or bind them elsewhere. offbeat gives cores away while it waits.",
            )
        else:
            here = format_count(len(ranks), "rank")
            yield Check("cores", Status.ok, f"{here} on {host}, with {format_count(len(cpus), 'CPU')}")


def _locked_memory(hosts: Mapping[str, Sequence[RankFacts]]) -> Iterator[Check]:
    limits = [each.lockable_bytes for ranks in hosts.values() for each in ranks if each.lockable_bytes >= 0]
    if not limits:
        yield Check("locked memory", Status.ok, "no limit (ulimit -l)")
        return
    text = f"at most {_rounded_size(min(limits))} (ulimit -l)"
    if len(hosts) > 1:
        advice = "Fast networks need locked memory: ask for `memlock unlimited` on these hosts."
        yield Check("locked memory", Status.warning, text, advice)
    else:
        yield Check("locked memory", Status.ok, f"{text}; offbeat locks none")


def _rounded_size(size_bytes: int) -> str:
    """A size in whole MiB or GiB."""
    if size_bytes >= 1 << 30:
        return f"{size_bytes / (1 << 30):.1f} GiB"
    return f"{size_bytes / (1 << 20):.1f} MiB"


def _numbers(cpus: str) -> Iterator[int]:
    """The numbers in a list such as ``0-3,8``."""
    for part in filter(None, cpus.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
