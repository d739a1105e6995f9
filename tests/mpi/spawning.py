# SPDX-License-Identifier: BSD-3-Clause
"""Programs that start others."""

from __future__ import annotations

from harness import PROGRAMS, Mpi, Result, clean_environment, compile_program, execute, on_mpis

# Without offbeat, too, Intel MPI 2021.18 crashes in MPI_Comm_spawn here, and Debian's MPICH returns an error.
can_spawn = on_mpis(lambda mpi: mpi.name not in ("impi", "debian-mpich"))


def run_spawning(mpi: Mpi, ranks: int, source: str, *arguments: str, variables: dict[str, str]) -> Result:
    """A program of programs/ whose ranks, but not mpirun, have the variables, as under `offbeat run`."""
    environment = clean_environment(mpi)
    if mpi.kind == "openmpi":
        environment["OMPI_MCA_btl"] += ",tcp"  # shared memory does not connect jobs
        options = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
    else:
        options = [word for name, value in variables.items() for word in ("-genv", name, value)]
    program = compile_program(mpi, PROGRAMS / source)
    command = [*mpi.launch(ranks), *options, str(program), *arguments]
    return execute(command, environment, timeout=60).succeeded()
