# SPDX-License-Identifier: BSD-3-Clause
"""MPIs on virtual hosts: the `Mpi`s of tests/mpi/harness.py, whose jobs start on a cluster's hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from harness import BUILD, MPIS, Mpi, _venv_mpi
from hosts import DEVICE, SSH, Cluster, placed

_IMPI = BUILD / "mpi" / "impi-2021.14"
_NETWORK = "10.77.0.0/24"
_TCP = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": DEVICE}

# What the MPIs need between hosts, over what they need on one.
NETWORKS = {
    "openmpi": {"OMPI_MCA_btl": "self,sm,tcp", "OMPI_MCA_btl_tcp_if_include": _NETWORK},
    "mpich": _TCP | {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": DEVICE},
    "impi": _TCP | {"I_MPI_FABRICS": "shm:ofi", "I_MPI_PIN": "0"},
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
    """An MPI that starts its ranks on hosts of a cluster, by its own launcher over ssh."""

    cluster: Cluster | None = field(default=None, hash=False, compare=False)
    shape: tuple[int, ...] = ()  # the ranks of each host

    @property
    def ranks(self) -> int:
        return sum(self.shape)

    def launch(self, ranks: int) -> list[str]:
        assert self.cluster is not None
        assert ranks == self.ranks, f"{ranks} ranks on hosts for {self.ranks}"
        hosts = list(placed(self.cluster.names, self.shape))
        listed = ",".join(f"{name}:{count}" for name, count in hosts)
        if self.kind == "openmpi":
            where = [*self._openmpi_agent(), "--host", listed, "--map-by", "slot", "--bind-to", "none"]
            where += ["--mca", "mpi_yield_when_idle", "1"]
        else:
            agent = "bootstrap" if self.kind == "impi" else "launcher"
            where = [f"-{agent}", "ssh", f"-{agent}-exec", str(SSH), "-iface", DEVICE]
            # From -hosts Intel MPI takes the names only.
            machines = Path("/run/cluster") / "+".join(map(str, self.shape))
            self.cluster.file(machines).write_text(listed.replace(",", "\n") + "\n")
            where += ["-machinefile", str(machines)]
        return [*self.cluster.enter(), self.mpirun, *where, "-n", str(ranks)]

    def _openmpi_agent(self) -> list[str]:
        if self.name.startswith("debian"):
            return ["--mca", "plm_rsh_agent", str(SSH), "--mca", "oob_tcp_if_include", _NETWORK]
        return ["--prtemca", "plm_ssh_agent", str(SSH), "--prtemca", "prte_if_include", _NETWORK]


def on_hosts(name: str, cluster: Cluster, shape: Sequence[int]) -> ClusterMpi:
    """One of `ON_HOSTS` on as many hosts of a cluster as `shape` has numbers, each with so many ranks."""
    mpi = ON_HOSTS[name]
    network = NETWORKS[mpi.kind]
    if name == "debian-openmpi":
        network = network | {"OMPI_MCA_btl": "self,vader,tcp"}
    # On the hosts TMPDIR is where a login would have put it: not on a disk that all of them share.
    environment = mpi.environment | network | {"TMPDIR": "/run/host"}
    same = {each.name: getattr(mpi, each.name) for each in fields(mpi)}
    same |= {"environment": environment, "options": ()}
    return ClusterMpi(**same, cluster=cluster, shape=tuple(shape))
