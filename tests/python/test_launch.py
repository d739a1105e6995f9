# SPDX-License-Identifier: BSD-3-Clause
"""The mpirun command line of each vendor. Nothing is started here."""

from pathlib import Path

import pytest
from offbeat.errors import CommandError
from offbeat.mpi.install import MpiInstall
from offbeat.mpi.launch import Launch, Request, Settings, build, rank_variables
from offbeat.mpi.libraries import joined_preload

LIBRARY = Path("/pkg/lib/liboffbeat-x.so")
PRELOAD = ["-x", f"LD_PRELOAD={LIBRARY}"]


def install(vendor: str, mpirun: str | None = "/mpi/bin/mpirun") -> MpiInstall:
    family = "openmpi" if vendor == "Open MPI" else "mpich"
    path = Path(mpirun) if mpirun is not None else None
    return MpiInstall(vendor, "1.0", family, Path("/mpi/lib/libmpi.so"), path, Path("/mpi"))


def launch(
    vendor: str,
    ranks: int = 2,
    arguments: tuple[str, ...] = (),
    settings: Settings | None = None,
    base: dict[str, str] | None = None,
    slots: int | None = 4,
    *,
    is_root: bool = False,
    variables: dict[str, str] | None = None,
) -> Launch:
    request = Request(
        install(vendor),
        ranks,
        ["./solver", "-n", "9"],
        [LIBRARY],
        settings or Settings(),
        arguments,
        variables or {},
    )
    return build(request, base or {}, slots=slots, is_root=is_root)


def test_open_mpi() -> None:
    built = launch("Open MPI", settings=Settings({"allreduce": "pipeline(4, ring)"}, 1))
    assert built.command == [
        "/mpi/bin/mpirun", "-n", "2", *PRELOAD,
        "-x", "OFFBEAT_ALLREDUCE=pipeline(4, ring)", "-x", "OFFBEAT_VERBOSE=1",
        "./solver", "-n", "9",
    ]  # fmt: skip
    assert "LD_PRELOAD" not in built.environment, "mpirun itself must not be preloaded"


@pytest.mark.parametrize("vendor", ["MPICH", "Intel MPI", "MVAPICH"])
def test_hydra(vendor: str) -> None:
    built = launch(vendor, settings=Settings({"allreduce": "ring"}), arguments=("-ppn", "1"))
    assert built.command == [
        "/mpi/bin/mpirun", "-n", "2", "-genv", "LD_PRELOAD", str(LIBRARY),
        "-genv", "OFFBEAT_ALLREDUCE", "ring", "-ppn", "1", "./solver", "-n", "9",
    ]  # fmt: skip
    assert "LD_PRELOAD" not in built.environment
    assert ("I_MPI_ROOT" in built.environment) == (vendor == "Intel MPI")


@pytest.mark.parametrize(
    ("ranks", "slots", "arguments", "expected"),
    [
        (4, 4, (), False),
        (5, 4, (), True),
        (5, None, (), False),
        (5, 4, ("--bind-to", "none"), True),
        (5, 4, ("--map-by", "slot:OVERSUBSCRIBE"), False),
        (5, 4, ("--oversubscribe",), False),
        (5, 4, ("-hostfile", "hosts"), False),
    ],
)
def test_more_ranks_than_cores(
    ranks: int, slots: int | None, arguments: tuple[str, ...], expected: bool
) -> None:
    command = launch("Open MPI", ranks, arguments, slots=slots).command
    assert (":OVERSUBSCRIBE" in command) == expected
    assert "--map-by" not in launch("MPICH", ranks, slots=slots).command


def test_root_may_run_open_mpi() -> None:
    as_root = launch("Open MPI", is_root=True).environment
    assert as_root["OMPI_ALLOW_RUN_AS_ROOT"] == as_root["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"
    assert "OMPI_ALLOW_RUN_AS_ROOT" not in launch("Open MPI").environment


def test_variables_of_the_program_reach_the_ranks() -> None:
    variables = {"LD_LIBRARY_PATH": "/mpi/lib"}
    built = launch("Open MPI", variables=variables)
    assert "LD_LIBRARY_PATH=/mpi/lib" in built.command
    assert built.environment["LD_LIBRARY_PATH"] == "/mpi/lib"
    # hydra passes its own environment on.
    assert launch("MPICH", variables=variables).environment["LD_LIBRARY_PATH"] == "/mpi/lib"


def test_intel_variables_keep_the_programs_library_path() -> None:
    built = launch("Intel MPI", variables={"LD_LIBRARY_PATH": "/other"}, base={"PATH": "/bin"})
    assert built.environment["LD_LIBRARY_PATH"].split(":") == ["/mpi/lib", "/other"]
    assert built.environment["PATH"] == "/mpi/bin:/bin"


def test_offbeat_variables_of_the_caller_are_passed_on_and_options_win() -> None:
    base = {"OFFBEAT_WAIT": "yield", "OFFBEAT_ALLREDUCE": "linear", "HOME": "/", "MASTER_ADDR": "node1"}
    variables = rank_variables([LIBRARY], Settings({"allreduce": "ring"}), base)
    assert variables == {
        "LD_PRELOAD": str(LIBRARY),
        "OFFBEAT_WAIT": "yield",
        "OFFBEAT_ALLREDUCE": "ring",
        "MASTER_ADDR": "node1",
    }


def test_verbosity() -> None:
    assert Settings().variables() == {}
    assert Settings(verbose=1).variables() == {"OFFBEAT_VERBOSE": "1"}
    assert Settings(verbose=3).variables() == {"OFFBEAT_VERBOSE": "1", "OFFBEAT_REPORT": "1"}


def test_a_trace() -> None:
    assert Settings(trace=Path("/run.trace")).variables() == {"OFFBEAT_TRACE": "/run.trace"}
    sampled = Settings(trace=Path("/run.trace"), trace_every=10, trace_ranks_every=4).variables()
    assert sampled["OFFBEAT_TRACE_EVERY"] == "10"
    assert sampled["OFFBEAT_TRACE_RANKS_EVERY"] == "4"


def test_the_tracer_comes_first() -> None:
    tracer = Path("/pkg/lib/liboffbeat-trace-x.so")
    assert joined_preload([tracer, LIBRARY], {}) == f"{tracer}:{LIBRARY}"
    present = {"LD_PRELOAD": f"{LIBRARY}:/a.so"}
    assert joined_preload([tracer, LIBRARY], present) == f"/a.so:{tracer}:{LIBRARY}"


def test_an_mpi_without_mpirun_is_refused() -> None:
    request = Request(install("Cray MPICH", None), 2, ["./solver"], [LIBRARY])
    with pytest.raises(CommandError, match=r"has no mpirun.*offbeat env"):
        build(request, {}, slots=2, is_root=False)


def test_the_preload_is_added_to_what_is_there() -> None:
    assert joined_preload([LIBRARY], {}) == str(LIBRARY)
    assert joined_preload([LIBRARY], {"LD_PRELOAD": "/a.so /b.so"}) == f"/a.so:/b.so:{LIBRARY}"
    assert joined_preload([LIBRARY], {"LD_PRELOAD": "/mine/liboffbeat-x.so"}) == "/mine/liboffbeat-x.so"


def test_libraries_of_an_earlier_env_are_dropped() -> None:
    before = {"LD_PRELOAD": "/a.so:/pkg/liboffbeat-mpich.so:/pkg/liboffbeat-trace-x.so"}
    assert joined_preload([LIBRARY], before) == f"/a.so:{LIBRARY}"
    assert joined_preload([], before) == "/a.so"
