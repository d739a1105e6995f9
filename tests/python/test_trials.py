# SPDX-License-Identifier: BSD-3-Clause
"""A report lists the alternatives that a job has measured (rules `A | B`)."""

import json
import re
from pathlib import Path

import pytest
from fakes import Offbeat
from made_traces import START_NS, begun
from offbeat.metrics import collect
from offbeat.trace import Trace, summaries
from offbeat.trace.reader import read
from test_report_json import PAGE, shape

RANKS = 3
NATIVE, RING, OTHER = 0, 1, 2
NONBLOCKING = 2


def made(folder: Path, algorithm_of_call: list[int], **of_call: object) -> Path:
    """Allreduces of 20 KiB or 24 KiB, in turns. A call takes 40 us if the host runs it, otherwise 30 us."""
    for rank in range(RANKS):
        file = begun(rank, RANKS)
        file.name(3, OTHER, "recursive_doubling")
        now = START_NS + 1_000_000
        for number, algorithm in enumerate(algorithm_of_call):
            last = now + 50_000  # rank 2 is late
            end = last + (40_000 if algorithm == NATIVE else 30_000)
            size = (20 + 4 * (number % 2)) << 10
            file.call(number, last if rank == 2 else now, end, size=size, algorithm=algorithm, **of_call)  # type: ignore[arg-type]
            now = end + 100_000
        file.write(folder)
    return folder


def trials_of(folder: Path) -> list[summaries.Trial]:
    trace: Trace = read(folder)
    return summaries.trials(collect(trace))


def test_alternatives_have_times_that_do_not_depend_on_the_late_rank(tmp_path: Path) -> None:
    (trial,) = trials_of(made(tmp_path, [NATIVE, RING] * 10 + [RING] * 100))
    assert (trial.least_bytes, trial.most_bytes, trial.ranks) == (20 << 10, 24 << 10, RANKS)
    native, ring = trial.alternatives
    assert (native.algorithm, native.calls, native.is_pinned) == ("native", 10, False)
    assert (ring.calls, ring.is_pinned) == (110, True)
    assert native.last_delay_us == pytest.approx(40, abs=0.1)
    assert ring.last_delay_us == pytest.approx(30, abs=0.1)


def test_blocking_and_nonblocking_calls_are_apart(tmp_path: Path) -> None:
    (trial,) = trials_of(made(tmp_path, [NATIVE, OTHER] * 10, flags=NONBLOCKING))
    assert trial.is_nonblocking


def test_no_trial_without_a_choice(tmp_path: Path) -> None:
    assert trials_of(made(tmp_path, [RING] * 50)) == []


def test_the_json_of_a_report_has_the_trials(offbeat: Offbeat, tmp_path: Path) -> None:
    made(tmp_path / "run.trace", [NATIVE, RING] * 10 + [RING] * 100)
    done = offbeat("report", "run.trace", "--json")
    ((trial,),) = [trace["trials"] for trace in json.loads(done.stdout)["traces"]]
    assert (trial["collective"], trial["nonblocking"], trial["communicator_ranks"]) == (
        "allreduce",
        False,
        RANKS,
    )
    assert (trial["least_bytes"], trial["most_bytes"]) == (20 << 10, 24 << 10)
    native, ring = trial["alternatives"]
    assert (native["algorithm"], native["calls"], native["pinned"]) == ("native", 10, False)
    assert (ring["calls"], ring["pinned"]) == (110, True)
    assert ring["last_delay_us"] == pytest.approx(30, abs=0.1)
    (block,) = re.findall(
        r"^    \{\n      \"collective\".*?^    \}$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert shape(trial) == shape(json.loads(block)), "the page shows its fields"


def test_the_report_says_what_is_pinned(offbeat: Offbeat, tmp_path: Path) -> None:
    made(tmp_path / "run.trace", [NATIVE, RING] * 10 + [RING] * 100)
    done = offbeat("report", "run.trace")
    assert done.returncode == 0, done.stderr
    _, _, table = done.stdout.partition("Alternatives that the job measured")
    assert re.search(r"^ allreduce on 3 ranks +20 KiB \.\. 24 KiB +native +10 +40.0 µs *$", table, re.M), (
        table
    )
    assert re.search(r" ring\) +110 +30.0 µs +pinned *$", table, re.M), table
