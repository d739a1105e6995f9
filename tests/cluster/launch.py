# SPDX-License-Identifier: BSD-3-Clause
"""MPIs on virtual hosts: each is an `Mpi` of tests/mpi/harness.py, whose jobs run on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import slurm
from harness import BUILD, MPIS, Mpi, Result, _venv_mpi, run
from hosts import DEVICE, HERE, SSH, Cluster, compile_beside

_IMPI = BUILD / "mpi" / "impi-2021.14"
_NETWORK = "10.77.0.0/24"
_TCP = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": DEVICE}

# What the MPIs need between hosts, over what they need on one.
NETWORKS = {
    "openmpi": {"OMPI_MCA_btl": "self,sm,tcp", "OMPI_MCA_btl_tcp_if_include": _NETWORK},
    "mpich": _TCP | {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": DEVICE},
    "impi": _TCP | {"I_MPI_FABRICS": "shm:ofi", "I_MPI_PIN": "0", "I_MPI_THREAD_YIELD": "3"},
}

# The Intel MPI of the other tests comes without libfabric, which carries its messages between hosts.
ON_HOSTS = {
    "openmpi": MPIS["openmpi"],
    "mpich": MPIS["mpich"],
    "mpich-abi": MPIS["mpich-abi"],
    "impi": _venv_mpi(
        "impi-2021.14",
        "mpich",
        "impi",
        _IMPI,
        environment={
            "I_MPI_ROOT": str(_IMPI),
            "FI_PROVIDER_PATH": str(_IMPI / "lib" / "libfabric" / "prov"),
            "LD_LIBRARY_PATH": f"{_IMPI / 'lib'}:{_IMPI / 'lib' / 'libfabric'}",
        },
    ),
    "debian-openmpi": MPIS["debian-openmpi"],
}


@dataclass(frozen=True)
class ClusterMpi(Mpi):
    """An MPI that starts its ranks on hosts of a cluster: its own mpirun does, over ssh, or Slurm's srun."""

    cluster: Cluster | None = field(default=None, hash=False, compare=False)
    shape: tuple[int, ...] = ()  # the ranks of each host
    starter: str = "mpirun"

    @property
    def ranks(self) -> int:
        return sum(self.shape)

    def launch(self, ranks: int) -> list[str]:
        assert self.cluster is not None
        assert ranks == self.ranks, f"{ranks} ranks on hosts for {self.ranks}"
        return [*self.cluster.enter(), *(self._srun() if self.starter == "srun" else self._mpirun())]

    def _mpirun(self) -> list[str]:
        hosts = [f"{name}:{count}" for name, count in self._hosts()]
        if self.kind == "openmpi":
            where = [
                *self._openmpi_agent(),
                "--host",
                ",".join(hosts),
                "--map-by",
                "slot",
                "--bind-to",
                "none",
            ]
            where += ["--mca", "mpi_yield_when_idle", "1"]
        else:
            agent = "bootstrap" if self.kind == "impi" else "launcher"
            where = [f"-{agent}", "ssh", f"-{agent}-exec", str(SSH), "-iface", DEVICE]
            # From -hosts Intel MPI takes the names only.
            where += ["-machinefile", self._listed("machines", hosts)]
        return [self.mpirun, *where, "-n", str(self.ranks)]

    def _srun(self) -> list[str]:
        hosts = self._listed("tasks", [name for name, count in self._hosts() for _ in range(count)])
        where = ["--distribution", "arbitrary", "--nodelist", hosts, "--ntasks", str(self.ranks)]
        kind = "pmix" if self.kind == "openmpi" else "pmi2"
        return ["srun", f"--mpi={kind}", "--overcommit", "--kill-on-bad-exit", *where]

    def _hosts(self) -> list[tuple[str, int]]:
        assert self.cluster is not None
        return list(zip(self.cluster.names, self.shape, strict=False))

    def _listed(self, what: str, lines: list[str]) -> str:
        """A file with these lines, which the launcher reads."""
        assert self.cluster is not None
        path = f"/run/cluster/{what}-{'+'.join(map(str, self.shape))}"
        self.cluster.file(path).write_text("".join(f"{line}\n" for line in lines))
        return path

    def _openmpi_agent(self) -> list[str]:
        if self.name.startswith("debian"):
            return ["--mca", "plm_rsh_agent", str(SSH), "--mca", "oob_tcp_if_include", _NETWORK]
        return ["--prtemca", "plm_ssh_agent", str(SSH), "--prtemca", "prte_if_include", _NETWORK]


def on_hosts(name: str, cluster: Cluster, shape: Sequence[int], starter: str = "mpirun") -> ClusterMpi:
    """One of `ON_HOSTS` on hosts of a cluster. `shape` has the number of ranks of each host."""
    mpi = ON_HOSTS[name]
    network = NETWORKS[mpi.kind]
    if name == "debian-openmpi":
        network = network | {"OMPI_MCA_btl": "self,vader,tcp"}
    # On the hosts TMPDIR is where a login would have put it: not on a disk that all of them share.
    environment = mpi.environment | network | {"TMPDIR": "/run/host"}
    if starter == "srun":
        environment |= {"SLURM_CONF": slurm.CONFIGURATION, "OMPI_MCA_mpi_yield_when_idle": "1"}
        # The addresses of UCX are too long for Slurm's PMI.
        environment |= {"MPIR_CVAR_CH4_NETMOD": "ofi"}
    same = {each.name: getattr(mpi, each.name) for each in fields(mpi)}
    same |= {"environment": environment, "options": ()}
    return ClusterMpi(**same, cluster=cluster, shape=tuple(shape), starter=starter)


def patient(mpi: ClusterMpi) -> dict[str, str]:
    """Variables for ranks that are to sleep while they wait, whatever their MPI does: see `patient.c`.

    Each host believes that the cores are its own, offbeat too: it yields them.
    """
    source, made = HERE / "patient.c", BUILD / "tests" / "cluster" / "patient.so"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        compile_beside(made, ["cc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", str(source)])
    variables = {"LD_PRELOAD": str(made)}
    if max(mpi.shape) > 1:  # they look at shared memory, too
        variables |= {"PATIENT_AFTER": "3", "PATIENT_US": "50", "OFFBEAT_WAIT": "yield"}
        variables |= {"PATIENT_YIELDS": "1"} if mpi.kind == "openmpi" else {}
    # A poll takes some 10 us of a core. If many ranks share two cores and poll every 50 us, they do hardly
    # anything else: Open MPI's own allreduce of 8 bytes on 32 ranks took 75 ms, and 5 ms with longer sleeps.
    # Under MPICH and Intel MPI, offbeat's ranks then also sleep instead of yielding.
    ranks_per_core = mpi.ranks / len(os.sched_getaffinity(0))
    if max(mpi.shape) > 1 and ranks_per_core > 4:
        variables["PATIENT_US"] = str(round(25 * ranks_per_core))
        variables.setdefault("PATIENT_YIELDS", "2")
    # A yield between the looks at the descriptors would only cost time.
    return variables | ({"I_MPI_THREAD_YIELD": "0"} if mpi.kind == "impi" else {})


# Open MPI 5.0.11 gets stuck over ssh now and then. By srun a rank may crash when another one, which has left
# MPI_Init, sends to it in its own: 7 of 24 jobs of eight ranks, without offbeat. Nothing of it runs by then.
ATTEMPTS = {"openmpi": 6, "mpich": 1, "impi": 1}


def run_job(mpi: ClusterMpi, command: Sequence[object], **more: Any) -> Result:
    """`harness.run` on the hosts, with as many ranks as these have."""
    # A job that has begun says so. If it hangs then, it is not started again.
    environment = {"OFFBEAT_VERBOSE": "1"} | (more.pop("environment", None) or {})
    more = {"timeout": 60, **more, "environment": environment}
    return until_it_begins(mpi, lambda: run(mpi, mpi.ranks, command, **more))


def until_it_begins(mpi: ClusterMpi, start: Callable[[], Result]) -> Result:
    """Start a job, again where the MPI failed before it began; one that hangs leaves nothing on the hosts."""
    for attempts_left in reversed(range(ATTEMPTS[mpi.kind])):
        try:
            result = start()
        except AssertionError as hung:
            assert mpi.cluster is not None
            mpi.cluster.empty()
            if "offbeat: " in str(hung) or attempts_left == 0:
                raise
        else:
            if attempts_left == 0 or not crashed_before_it_began(result):
                return result
    raise AssertionError("not reached")


def crashed_before_it_began(result: Result) -> bool:
    """A message that comes too early crashes Open MPI where it is received; its stack may be cut off."""
    in_init = "ompi_mpi_init" in result.stderr or "mca_pml_ob1_recv_frag_callback_match" in result.stderr
    return in_init and "liboffbeat" not in result.stderr and "offbeat: " not in result.stderr
