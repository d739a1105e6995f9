# SPDX-License-Identifier: BSD-3-Clause
"""Every collective takes memory of a GPU. The driver is a stub whose memory faults when the CPU touches it.

Some ranks pass device memory and others host memory. The results must be those that Open MPI gives for host
memory.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from exchanges import CALLS, expect_all_served, hashes, natively
from harness import INSIDE_OFFBEAT, MPIS, PROGRAMS, ROOT, Mpi, compile_program, run
from test_exchanges import HOW, OURS

DRIVERS = {"libcuda.so.1": (), "libamdhip64.so.6": ("-DSTUB_HIP=6",), "libze_loader.so.1": ()}


def driver(name: str) -> Path:
    """Return a stub driver under the name of the real one."""
    flags = ("-std=c++20", "-shared", "-fPIC", *DRIVERS[name])
    source = ROOT / "tests" / "support" / "stub_gpu.cpp"
    return compile_program(MPIS["openmpi"], source, *flags, compiler="c++", libraries=(), name=name)


WAYS = {
    "by default": HOW["by default"],
    "in many rounds": HOW["in many rounds"],
    "by messages": HOW["by messages"],
    "by the host in segments": HOW["by the host in segments"],
    "without shared memory": {"OFFBEAT_BOARD_KIB": "0"} | HOW["by other messages"],
}


def variables(how: str, mpi: Mpi, name: str = "libcuda.so.1") -> dict[str, str]:
    return OURS.get(mpi.name, {}) | WAYS[how] | {"STUB_GPU": str(driver(name))}


def form_of(mpi: Mpi, how: str) -> str:
    """Two MPIs read the buffers of a new persistent collective, and cannot handle memory of a GPU."""
    reads_early = mpi.kind == "impi" or mpi.name == "debian-mpich"
    by_messages = how in ("by messages", "without shared memory")
    return "blocking" if reads_early or (by_messages and mpi.kind != "openmpi") else "any"


def give_what_a_host_gives(mpi: Mpi, ranks: int, form: str, environment: dict[str, str]) -> None:
    """Two of three ranks load the driver, late and privately."""
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    command = [program, *CALLS, "alike", form]
    result = run(mpi, ranks, command, environment=environment, timeout=120).succeeded()
    found = hashes(result.stdout)
    assert len(found) == ranks, str(result)
    assert found == natively(ranks), str(result)
    expect_all_served(result)


def test_random_calls_with_memory_of_a_gpu(mpi: Mpi) -> None:
    give_what_a_host_gives(mpi, 3, form_of(mpi, "by default"), variables("by default", mpi))


@INSIDE_OFFBEAT
def test_random_calls_with_another_driver(mpi: Mpi) -> None:
    environment = variables("by default", mpi, "libamdhip64.so.6")
    give_what_a_host_gives(mpi, 2, form_of(mpi, "by default"), environment)


@INSIDE_OFFBEAT
@pytest.mark.parametrize("how", [how for how in WAYS if how != "by default"])
def test_other_ways_with_memory_of_a_gpu(mpi: Mpi, how: str) -> None:
    give_what_a_host_gives(mpi, 3, form_of(mpi, how), variables(how, mpi))


@INSIDE_OFFBEAT
def test_each_rank_may_describe_memory_of_a_gpu_differently(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    command = [program, *CALLS, "different", form_of(mpi, "by default")]
    environment = variables("by default", mpi)
    expect_all_served(run(mpi, 4, command, environment=environment, timeout=120).succeeded())


@INSIDE_OFFBEAT
@pytest.mark.parametrize("name", ["libcuda.so.1", "libamdhip64.so.6"])
def test_long_calls_with_memory_of_a_gpu(mpi: Mpi, name: str) -> None:
    """Vectors of up to 1.2 MB stay on the device, and go through the windows of the board in parts."""
    calls = ("21", "90", "300000")
    form = form_of(mpi, "by default")
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    environment = variables("by default", mpi, name)
    result = run(mpi, 3, [program, *calls, "alike", form], environment=environment, timeout=120).succeeded()
    assert hashes(result.stdout) == natively(3, calls), str(result)
    expect_all_served(result)


@INSIDE_OFFBEAT
@pytest.mark.parametrize("mode", ["refused", "overlapping", "registering"])
def test_copies_go_on_while_others_arrive(mpi: Mpi, mode: str) -> None:
    """The driver refuses to register memory, delays its copies, or counts the registrations."""
    program = compile_program(mpi, PROGRAMS / "devices.c")
    run(mpi, 3, [program, driver("libcuda.so.1"), mode], timeout=120).succeeded()


@INSIDE_OFFBEAT
@pytest.mark.parametrize("ranks", [1, 3])
def test_what_random_calls_do_not_try(mpi: Mpi, ranks: int) -> None:
    """The program tries one rank, user operations, pairs, persistent calls, and gaps that it writes to."""
    program = compile_program(mpi, PROGRAMS / "devices.c")
    run(mpi, ranks, [program, driver("libcuda.so.1"), "values"], timeout=120).succeeded()


@INSIDE_OFFBEAT
def test_the_c_interface_takes_memory_of_a_gpu(mpi: Mpi) -> None:
    flags = ["-DWITH_INTERFACE", f"-I{ROOT / 'include'}"]
    if mpi.family == "mpiabi":
        flags.append("-DOFFBEAT_TEST_STANDARD_ABI")
    program = compile_program(mpi, PROGRAMS / "devices.c", *flags, name="devices_interface")
    run(mpi, 3, [program, driver("libcuda.so.1"), "interface"], timeout=120).succeeded()


@INSIDE_OFFBEAT
@pytest.mark.parametrize("what", ["failing_read", "failing_write", "failing_event"])
def test_a_copy_that_fails_is_an_error_and_no_hang(mpi: Mpi, what: str) -> None:
    program = compile_program(mpi, PROGRAMS / "devices.c")
    result = run(mpi, 3, [program, driver("libcuda.so.1"), what], timeout=120).succeeded()
    function = {
        "failing_read": "cuMemcpyDtoHAsync",
        "failing_write": "cuMemcpyHtoDAsync",
        "failing_event": "cuEventQuery",
    }[what]
    assert f"device memory cannot be copied: {function} fails with error 719" in result.stderr, str(result)
    lines = dict(re.findall(r"^rank (\d): (sum|error)$", result.stdout, re.MULTILINE))
    assert lines["0"] == "error", str(result)
    if what == "failing_read":  # before it, nobody has the sum
        assert set(lines.values()) == {"error"}, str(result)


@INSIDE_OFFBEAT
def test_a_rank_with_level_zero_leaves_all_to_the_host(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "devices.c")
    command = [program, "none", "level_zero", driver("libze_loader.so.1")]
    result = run(mpi, 3, command, environment={"OFFBEAT_VERBOSE": "1"}, timeout=120).succeeded()
    assert result.report.native == result.report.intercepted > 0, str(result)
    assert "a rank uses Level Zero" in result.stderr, str(result)


@INSIDE_OFFBEAT
def test_calls_can_be_left_to_the_host_by_a_setting(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "devices.c")
    command = [program, driver("libcuda.so.1"), "native"]
    for ranks in (1, 2):
        result = run(mpi, ranks, command, environment={"OFFBEAT_GPU": "native"}, timeout=120).succeeded()
        assert result.report.native == result.report.intercepted > 0, str(result)


@INSIDE_OFFBEAT
@pytest.mark.parametrize("ranks_of_node", [1, 2])
def test_communicators_of_several_nodes_can_be_left_to_the_host(mpi: Mpi, ranks_of_node: int) -> None:
    program = compile_program(mpi, PROGRAMS / "devices.c")
    command = [program, driver("libcuda.so.1"), "served"]
    settings = {"OFFBEAT_GPU": "node", "OFFBEAT_NODE_RANKS": str(ranks_of_node), "OFFBEAT_VERBOSE": "1"}
    result = run(mpi, 2, command, environment=settings, timeout=120).succeeded()
    if ranks_of_node == 1:
        assert result.report.native == result.report.intercepted > 0, str(result)
        assert "OFFBEAT_GPU=node, and there are several nodes" in result.stderr, str(result)
    else:
        assert result.report.served == result.report.intercepted > 0, str(result)


@INSIDE_OFFBEAT
def test_drivers_need_not_be_looked_for(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "devices.c")
    command = [program, driver("libcuda.so.1"), "native"]
    result = run(mpi, 2, command, environment={"OFFBEAT_GPU": "off"}, timeout=120).succeeded()
    assert result.report.served == result.report.intercepted > 0, str(result)
