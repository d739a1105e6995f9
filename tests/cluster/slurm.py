# SPDX-License-Identifier: BSD-3-Clause
"""Debian's Slurm on virtual hosts: slurmctld on `login`, slurmd on each host, munge on all of them."""

from __future__ import annotations

import os
import time

from hosts import LOGIN, Cluster, HostsError

CONFIGURATION = "/run/cluster/slurm.conf"

# What belongs to a host is in /run/host. There are no control groups by which a host could confine a job.
# Each host says that it has eight cores, so that it gets as many ranks as a test wants.
_SLURM = """
ClusterName=virtual
SlurmctldHost=login
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/run/host/munge.socket
StateSaveLocation=/run/host/slurmctld
SlurmctldPidFile=/run/host/slurmctld.pid
SlurmctldLogFile=/run/host/slurmctld.log
SlurmdSpoolDir=/run/host/slurmd
SlurmdPidFile=/run/host/slurmd.pid
SlurmdLogFile=/run/host/slurmd.log
TmpFS=/run/host
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SlurmdTimeout=6
MessageTimeout=5
KillWait=3
ReturnToService=2
NodeName={names} CPUs=8
PartitionName=all Nodes=ALL Default=YES
"""
_CONTROL_GROUPS = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"

_MUNGE = """
munged --key-file /run/cluster/munge.key --socket /run/host/munge.socket --pid-file /run/host/munged.pid \\
  --log-file /run/host/munged.log --seed-file /run/host/munged.seed
"""
_CONTROLLER = "mkdir /run/host/slurmctld && slurmctld -f " + CONFIGURATION
_DAEMON = "mkdir -p /run/host/slurmd && slurmd -f " + CONFIGURATION + ' -N "$(hostname)"'


def start(cluster: Cluster) -> None:
    """Start Slurm, and wait until it takes jobs."""
    cluster.file(CONFIGURATION).write_text(_SLURM.format(names=",".join(cluster.names)))
    cluster.file("/run/cluster/cgroup.conf").write_text(_CONTROL_GROUPS)
    key = cluster.file("/run/cluster/munge.key")
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    cluster.run(_MUNGE + _CONTROLLER)
    cluster.at_boot(_MUNGE + _DAEMON)
    wait_until_idle(cluster)


def wait_until_idle(cluster: Cluster, patience: float = 30) -> None:
    """Until every host has told the controller that it is there and has nothing to do."""
    deadline = time.monotonic() + patience
    while (states := _states(cluster)) != {"idle"}:
        if time.monotonic() > deadline:
            log = cluster.run("tail -n 20 /run/host/slurmctld.log", host=LOGIN)
            raise HostsError(f"Slurm's hosts are {', '.join(sorted(states))} after {patience:.0f} s\n{log}")
        time.sleep(0.1)


def _states(cluster: Cluster) -> set[str]:
    return set(cluster.run(f"SLURM_CONF={CONFIGURATION} sinfo --noheader --format %T").split())
