# SPDX-License-Identifier: BSD-3-Clause
"""Run each algorithm that native(NAME) can name under the MPIs of the tests, and list those that work.

    python tools/check_host_algorithms.py [--libraries build/dev] [MPI ...]

``python/offbeat/mpi/checked_host_algorithms.json`` lists an algorithm if its results were right on 2, 4 and 5
ranks, and if it had an effect: some other choice for the same call did something else. What a barrier does
cannot be seen; it must only not let a rank go early. The list of an MPI that is not named stays as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "mpi"))

import harness  # noqa: E402
from offbeat.mpi import host_algorithms  # noqa: E402
from offbeat.mpi.discovery import discover  # noqa: E402

CHECKED = ROOT / "python" / "offbeat" / "mpi" / "checked_host_algorithms.json"
LINE = re.compile(r"^(\w+) (\S+): ran (.+), (right|WRONG), signature (\w+)$", re.MULTILINE)
VENDORS = {"openmpi": "Open MPI", "mpich": "MPICH", "impi": "Intel MPI"}
# Each job: the number of ranks, and by how many milliseconds a rank is late. Jobs without lateness only look
# at results. Two like jobs tell what an algorithm does from what a busy machine does.
JOBS = ((2, 0), (5, 0), (4, 100), (4, 100))
# Open MPI 4.1.4 offers names only if it starts with this, and nothing names any before it starts.
SWITCH = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}


def calls(vendor: str) -> dict[str, list[str]]:
    """The names that the preload library offers, for each call."""
    found: dict[str, list[str]] = {}
    for collective in ROLES:
        for call in (collective, f"i{collective}") if vendor != "Intel MPI" else (collective,):
            if names := host_algorithms.known_names(vendor, call):
                found[call] = names
    return found


ROLES = (
    "allreduce", "barrier", "bcast", "reduce", "allgather", "allgatherv", "alltoall", "alltoallv", "gather",
    "scatter", "reduce_scatter", "reduce_scatter_block", "scan", "exscan",
)  # fmt: skip


def run_by_name(mpi: harness.Mpi, job: tuple[int, int], found: dict[str, list[str]]) -> str:
    """Run all names in one job, which chooses them one by one."""
    pairs = [word for call, names in found.items() for name in ["-", *names] for word in (call, name)]
    return _run(mpi, job, pairs, SWITCH)


def run_by_setting(mpi: harness.Mpi, job: tuple[int, int], found: dict[str, list[str]]) -> str:
    """Run the first name of every call in one job, the second one in another, and so on."""
    text = _run(mpi, job, [word for call in found for word in (call, "-")], {})
    for k in range(max(map(len, found.values()))):
        names = {call: names[k] for call, names in found.items() if k < len(names)}
        settings = {f"OFFBEAT_{call.upper()}": f"native({name})" for call, name in names.items()}
        text += _run(
            mpi, job, [word for call, name in names.items() for word in (call, f"={name}")], settings
        )
    return text


def _run(mpi: harness.Mpi, job: tuple[int, int], pairs: list[str], settings: dict[str, str]) -> str:
    program = harness.compile_program(
        mpi, harness.PROGRAMS / "host_algorithms.c", libraries=("-lpthread", "-ldl")
    )
    environment = {**settings, "OFFBEAT_REPORT": "0"}
    ranks, late_ms = job
    result = harness.run(mpi, ranks, [program, late_ms, *pairs], environment=environment, timeout=900)
    print(result.stdout, result.stderr, sep="", end="", flush=True)
    return result.stdout


def those_that_work(outputs: list[str]) -> dict[str, list[str]]:
    """The names that had an effect and were right in all jobs in which they ran."""
    names: dict[str, list[str]] = {}
    wrong: set[tuple[str, str]] = set()
    for call, name, ran, verdict, _ in LINE.findall("".join(outputs)):
        if name != "-" and ran == f"native({name})" and name not in names.setdefault(call, []):
            names[call].append(name)
        if verdict != "right":
            wrong.add((call, name))
    # The signatures of each choice in like jobs.
    seen: list[dict[tuple[str, str], set[str]]] = []
    for group in (outputs[:1], outputs[1:2], outputs[2:]):
        seen.append({})
        for call, name, _, _, signature in LINE.findall("".join(group)):
            seen[-1].setdefault((call, name), set()).add(signature)

    def has_effect(call: str, name: str) -> bool:
        # What a barrier does is not seen. An algorithm for two ranks ran in one job only.
        if call.endswith("barrier") or name == "two_proc":
            return True
        # One of two choices must look alike each time, and never like the other one.
        return any(
            other[0] == call and not found & mine and min(len(found), len(mine)) == 1
            for job in seen
            if (mine := job.get((call, name)))
            for other, found in job.items()
        )

    working = {
        call: [name for name in found if (call, name) not in wrong and has_effect(call, name)]
        for call, found in names.items()
    }
    return {call: found for call, found in working.items() if found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--libraries", type=Path, help="where the preload libraries are")
    parser.add_argument("mpi", nargs="*", default=["openmpi", "mpich", "impi"], choices=list(harness.MPIS))
    options = parser.parse_args()
    if options.libraries is not None:
        harness.use_libraries(options.libraries)
    found: dict[str, Any] = json.loads(CHECKED.read_text(encoding="utf-8")) if CHECKED.exists() else {}
    for name in options.mpi:
        mpi = harness.MPIS[name]
        vendor = VENDORS[mpi.kind]
        run = run_by_setting if vendor == "Intel MPI" else run_by_name
        found[version_of(mpi)] = those_that_work([run(mpi, job, calls(vendor)) for job in JOBS])
    CHECKED.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n", encoding="utf-8")


def version_of(mpi: harness.Mpi) -> str:
    """The MPI as `offbeat info` names it, such as "MPICH 5.0.2"."""
    path = f"{Path(mpi.mpirun).parent}{os.pathsep}{os.environ['PATH']}" if mpi.prefix else os.environ["PATH"]
    prefix = mpi.prefix or Path("/usr")
    for install in discover({**os.environ, "PATH": path}):
        is_there = prefix.resolve() in install.libmpi.resolve().parents
        if is_there and install.vendor == VENDORS[mpi.kind] and install.family == mpi.family:
            return f"{install.vendor} {install.version}"
    raise SystemExit(f"{mpi.name}: `offbeat info` does not find it")


if __name__ == "__main__":
    main()
