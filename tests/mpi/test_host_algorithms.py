# SPDX-License-Identifier: BSD-3-Clause
"""native(NAME): the MPI runs the algorithm of its own that was named, alike on all ranks."""

from __future__ import annotations

import re
from pathlib import Path

from harness import PROGRAMS, Mpi, Result, compile_program, on_mpis, run
from offbeat.mpi import host_algorithms

VENDORS = {"openmpi": "Open MPI", "mpich": "MPICH", "impi": "Intel MPI"}
LINE = re.compile(r"^(\w+) (\S+): ran (.+), (right|WRONG), signature (\w+)$", re.MULTILINE)
TELLS_BY_CALL = on_mpis(lambda mpi: mpi.kind != "impi")
# MPICH 4.0 has no two allreduces whose bits differ on four ranks.
HAS_TWO_ALLREDUCES = on_mpis(lambda mpi: mpi.kind != "impi" and mpi.name != "debian-mpich")
# Algorithms that every version has, with bits that differ on four ranks.
NAMES = {
    "openmpi": ("allreduce", "recursive_doubling", "ring"),
    "mpich": ("reduce_scatter", "pairwise", "recursive_halving"),
}


def by_name(
    mpi: Mpi, ranks: int, *pairs: str, environment: dict[str, str] | None = None
) -> tuple[dict[tuple[str, str], tuple[str, str, str]], Result]:
    """What ran, whether it was right, and its signature, for each call and name."""
    program = compile_program(mpi, PROGRAMS / "host_algorithms.c", libraries=("-lpthread", "-ldl"))
    # Open MPI 4.1.4 offers names only if it starts with this switch. offbeat sets it if a setting has a name.
    switch = {} if environment else {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}
    result = run(mpi, ranks, [program, "0", *pairs], environment=environment or switch).succeeded()
    return {
        (call, name): (ran, verdict, bits) for call, name, ran, verdict, bits in LINE.findall(result.stdout)
    }, result


@TELLS_BY_CALL
def test_a_name_has_an_effect_and_the_result_is_right(mpi: Mpi) -> None:
    call, *names = NAMES[mpi.kind]
    found, result = by_name(mpi, 4, *(word for name in names for word in (call, name)))
    for name in names:
        assert found[call, name][:2] == (f"native({name})", "right"), str(result)
    assert len({bits for _, _, bits in found.values()}) == len(names), str(result)


@TELLS_BY_CALL
def test_a_rule_falls_to_the_next_if_the_mpi_has_no_such_algorithm(mpi: Mpi, tmp_path: Path) -> None:
    rules = tmp_path / "names.rules"
    rules.write_text(
        "allreduce * * * * native(none_such)\n"
        "allreduce * * * ..1KiB native(recursive_doubling)\n"
        "allreduce * * * * native(none_such) | linear\n"
    )
    settings = {"OFFBEAT_RULES": str(rules), "OFFBEAT_VERBOSE": "1"}
    found, result = by_name(mpi, 4, "allreduce", "=rules", environment=settings)
    assert found["allreduce", "rules"][1] == "right", str(result)
    assert re.search(r"allreduce up to 1 KiB, ranks: 4: native\(recursive_doubling\)", result.stderr), str(
        result
    )
    assert re.search(r"allreduce from 1025 B, ranks: 4: linear", result.stderr), str(result)


@TELLS_BY_CALL
def test_an_unknown_name_in_a_setting_is_one_line_with_the_names(mpi: Mpi) -> None:
    settings = {"OFFBEAT_ALLREDUCE": "native(none_such)"}
    found, result = by_name(mpi, 3, "allreduce", "=none_such", environment=settings)
    assert found["allreduce", "none_such"][:2] == ("native", "right"), str(result)
    lines = [line for line in result.stderr.splitlines() if "native(none_such)" in line]
    assert len(lines) == 1, str(result)
    assert re.match(
        r"offbeat: OFFBEAT_ALLREDUCE: native\(none_such\) names no allreduce that (Open MPI|MPICH) \S+ has; "
        r"it has: .*recursive_doubling.*; the MPI chooses instead$",
        lines[0],
    ), lines[0]


# Intel MPI has no variables that threads could share.
@TELLS_BY_CALL
def test_nothing_is_named_among_threads(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "host_algorithms.c", libraries=("-lpthread", "-ldl"))
    settings = {"OFFBEAT_ALLREDUCE": "native(recursive_doubling)", "HOST_ALGORITHMS_THREADS": "1"}
    result = run(mpi, 2, [program, "0", "allreduce", "=named"], environment=settings).succeeded()
    assert LINE.findall(result.stdout)[0][2:4] == ("native", "right"), str(result)
    assert "the program uses MPI_THREAD_MULTIPLE" in result.stderr, str(result)


@on_mpis(lambda mpi: mpi.kind == "openmpi")
def test_no_name_is_used_once_a_communicator_may_be_in_the_making(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "host_algorithms.c", libraries=("-lpthread", "-ldl"))
    settings = {"OFFBEAT_ALLREDUCE": "native(recursive_doubling)", "HOST_ALGORITHMS_IDUP": "1"}
    result = run(mpi, 2, [program, "0", "allreduce", "=named"], environment=settings).succeeded()
    assert LINE.findall(result.stdout)[0][2:4] == ("native", "right"), str(result)
    assert result.stderr.count("native(NAME) is plain native on some communicators") == 1, str(result)


@TELLS_BY_CALL
def test_non_blocking_calls_take_names(mpi: Mpi) -> None:
    call, *names = NAMES[mpi.kind]
    found, result = by_name(mpi, 4, *(word for name in names for word in (f"i{call}", name)))
    for name in names:
        assert found[f"i{call}", name][:2] == (f"native({name})", "right"), str(result)
    assert len({bits for _, _, bits in found.values()}) == len(names), str(result)


@on_mpis(lambda mpi: mpi.kind == "openmpi")
def test_non_blocking_calls_have_names_of_their_own(mpi: Mpi, tmp_path: Path) -> None:
    """Open MPI has a binomial iallreduce, but no binomial allreduce."""
    rules = tmp_path / "names.rules"
    rules.write_text(
        "iallreduce * * * ..1KiB native(nonoverlapping)\n"
        "iallreduce * * * * native(binomial)\n"
        "allreduce * * * * native(nonoverlapping)\n"
    )
    settings = {"OFFBEAT_RULES": str(rules), "OFFBEAT_VERBOSE": "1"}
    pairs = ("iallreduce", "=rules", "allreduce", "=rules")
    found, result = by_name(mpi, 3, *pairs, environment=settings)
    assert found["iallreduce", "rules"][:2] == ("native(binomial)", "right"), str(result)
    assert found["allreduce", "rules"][:2] == ("native(nonoverlapping)", "right"), str(result)
    assert "iallreduce of any length, ranks: 3: native(binomial)" in result.stderr, str(result)


@on_mpis(lambda mpi: mpi.kind == "openmpi")
def test_a_setting_with_a_name_of_non_blocking_calls_says_that_these_take_it(mpi: Mpi) -> None:
    settings = {"OFFBEAT_ALLREDUCE": "native(binomial)"}
    pairs = ("iallreduce", "=binomial", "allreduce", "=binomial")
    found, result = by_name(mpi, 3, *pairs, environment=settings)
    assert found["iallreduce", "binomial"][:2] == ("native(binomial)", "right"), str(result)
    assert found["allreduce", "binomial"][:2] == ("native", "right"), str(result)
    (line,) = (line for line in result.stderr.splitlines() if "native(binomial)" in line)
    assert "names no allreduce" in line, line
    assert line.endswith("; the MPI chooses instead, except for non-blocking calls"), line


@on_mpis(lambda mpi: mpi.name == "debian-openmpi")
def test_non_blocking_names_need_no_switch(mpi: Mpi) -> None:
    """Open MPI 4.1.4 reads a switch when it starts, but for its blocking calls only."""
    program = compile_program(mpi, PROGRAMS / "host_algorithms.c", libraries=("-lpthread", "-ldl"))
    result = run(mpi, 3, [program, "0", "iallreduce", "ring", "allreduce", "ring"]).succeeded()
    found = [(call, ran, verdict) for call, _, ran, verdict, _ in LINE.findall(result.stdout)]
    expected = [("iallreduce", "native(ring)", "right"), ("allreduce", "native", "right")]
    assert found == expected, str(result)


@HAS_TWO_ALLREDUCES
def test_segments_take_names(mpi: Mpi) -> None:
    signatures = set()
    for name in ("recursive_doubling", "ring"):
        settings = {"OFFBEAT_ALLREDUCE": f"pipeline(1, native({name}))"}
        found, result = by_name(mpi, 4, "allreduce", f"={name}", environment=settings)
        assert found["allreduce", name][:2] == (f"pipeline(1, native({name}))", "right"), str(result)
        signatures.add(found["allreduce", name][2])
    assert len(signatures) == 2


@on_mpis(lambda mpi: mpi.kind == "impi")
def test_intel_mpi_takes_a_name_for_the_whole_run(mpi: Mpi) -> None:
    signatures = set()
    for name in ("recursive_doubling", "ring"):
        settings = {"OFFBEAT_ALLREDUCE": f"native({name})"}
        found, result = by_name(mpi, 4, "allreduce", f"={name}", environment=settings)
        assert found["allreduce", name][:2] == (f"native({name})", "right"), str(result)
        signatures.add(found["allreduce", name][2])
    assert len(signatures) == 2


def grids(mpi: Mpi, *expressions: str) -> list[tuple[str, str, str]]:
    """What ran, whether it was right, and its signature, for each grid on eight ranks."""
    found = []
    for expression in expressions:
        settings = {"OFFBEAT_ALLREDUCE": expression}
        lines, result = by_name(mpi, 8, "allreduce", "=grid", environment=settings)
        assert lines["allreduce", "grid"][:2] == (expression, "right"), str(result)
        found.append(lines["allreduce", "grid"])
    return found


@HAS_TWO_ALLREDUCES
def test_the_lines_of_a_grid_take_names(mpi: Mpi) -> None:
    """On a line of two ranks all algorithms give equal bits."""
    one, other = ("recursive_doubling", "ring") if mpi.kind == "openmpi" else ("tree", "ring")
    found = grids(
        mpi,
        f"grid(4x2, native({one}), native({other}))",
        f"grid(4x2, native({other}), native({one}))",
        f"grid(4x2, native({other}))",
        f"grid(2x4, native({one}), native({other}))",
        "grid(2x2x2, native)",
    )
    bits = [signature for _, _, signature in found]
    assert bits[0] != bits[1] == bits[2] != bits[3], found
    unlike, _ = by_name(mpi, 8, "allreduce", "=grid", environment={"OFFBEAT_ALLREDUCE": "grid(2x2, native)"})
    assert unlike["allreduce", "grid"][:2] == ("native", "right"), unlike


@on_mpis(lambda mpi: mpi.kind == "impi")
def test_a_grid_of_intel_mpi_has_one_name_for_the_whole_run(mpi: Mpi) -> None:
    found = grids(mpi, "grid(4x2, native(recursive_doubling))", "grid(4x2, native(ring))")
    assert found[0] != found[1], found


@TELLS_BY_CALL
def test_communicators_with_grids_come_and_go(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "host_algorithms.c", libraries=("-lpthread", "-ldl"))
    grid = "grid(2x1, native(recursive_doubling), native)"
    settings = {"OFFBEAT_ALLREDUCE": grid, "HOST_ALGORITHMS_COMMUNICATORS": "400"}
    result = run(mpi, 2, [program, "0", "allreduce", "=grid"], environment=settings).succeeded()
    assert f"400 communicators: {grid}" in result.stdout, str(result)


@on_mpis(lambda mpi: mpi.kind == "impi")
def test_a_name_in_rules_does_not_hold_under_intel_mpi(mpi: Mpi, tmp_path: Path) -> None:
    rules = tmp_path / "names.rules"
    rules.write_text("allreduce * * * * native(ring)\nallreduce * * * * linear\n")
    found, result = by_name(mpi, 3, "allreduce", "=rules", environment={"OFFBEAT_RULES": str(rules)})
    assert found["allreduce", "rules"][:2] == ("linear", "right"), str(result)


@TELLS_BY_CALL
def test_communicators_with_names_come_and_go(mpi: Mpi) -> None:
    """More of them than Open MPI or offbeat could keep, so they must be freed."""
    program = compile_program(mpi, PROGRAMS / "host_algorithms.c", libraries=("-lpthread", "-ldl"))
    settings = {"OFFBEAT_ALLREDUCE": "native(recursive_doubling)", "HOST_ALGORITHMS_COMMUNICATORS": "400"}
    result = run(mpi, 2, [program, "0", "allreduce", "=named"], environment=settings).succeeded()
    assert "400 communicators: native(recursive_doubling)" in result.stdout, str(result)


@TELLS_BY_CALL
def test_names_are_measured_against_each_other(mpi: Mpi, tmp_path: Path) -> None:
    rules = tmp_path / "names.rules"
    rules.write_text("allgather * * * * native(ring) | native(bruck) | native(none_such)\n")
    program = compile_program(mpi, PROGRAMS / "host_algorithms.c", libraries=("-lpthread", "-ldl"))
    settings = {"OFFBEAT_RULES": str(rules), "OFFBEAT_VERBOSE": "1", "HOST_ALGORITHMS_CALLS": "400"}
    result = run(mpi, 2, [program, "0"], environment=settings).succeeded()
    assert "400 allgathers are right" in result.stdout, str(result)
    assert re.search(
        r"^offbeat: allgather .*: native\((ring|bruck)\) is pinned after \d+ measured calls "
        r"\(native\(ring\) [^,]+, native\(bruck\) [^,]+\)$",
        result.stderr,
        re.MULTILINE,
    ), str(result)


def test_the_names_that_info_lists_are_in_the_list() -> None:
    for version in ("Open MPI 5.0.11", "MPICH 5.0.2"):
        vendor, _, number = version.rpartition(" ")
        checked = host_algorithms.checked_names(vendor, number)
        assert checked is not None, version
        for call, names in checked.items():
            assert set(names) <= set(host_algorithms.known_names(vendor, call)), f"{version} {call}"
            assert names, f"{version} {call}"
