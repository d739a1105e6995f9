# SPDX-License-Identifier: BSD-3-Clause
"""``native(NAME)``: how each MPI is told to use one of its own algorithms.

By its environment variables, so each choice takes a job of its own. The names are offbeat's where it has
the same algorithm, else the host's. Sources: ``ompi_info --param coll tuned --level 9`` and the same for
``libnbc``, MPICH's ``mpivars``, and I_MPI_ADJUST in the reference of Intel MPI.

Non-blocking collectives, ``iallreduce`` for example, have algorithms of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from offbeat.errors import CommandError

# In the order of the host's own numbers, from 1 on.
_OPEN_MPI = {
    "allreduce": "linear nonoverlapping recursive_doubling ring ring_segmented rabenseifner",
    "barrier": "linear double_ring recursive_doubling bruck two_proc tree",
    "bcast": "linear chain pipeline split_binary binary binomial knomial scatter_allgather "
    "scatter_allgather_ring",
    "reduce": "linear chain pipeline binary binomial in_order_binary rabenseifner",
    "allgather": "linear bruck recursive_doubling ring neighbor two_proc sparbit",
    "allgatherv": "gather_bcast bruck ring neighbor two_proc sparbit",
    "alltoall": "linear pairwise bruck linear_sync two_proc",
    "alltoallv": "linear pairwise",
    "gather": "linear binomial linear_sync",
    "scatter": "linear binomial linear_nb",
    "reduce_scatter": "nonoverlapping recursive_halving ring butterfly",
    "reduce_scatter_block": "linear recursive_doubling recursive_halving butterfly",
    "scan": "chain recursive_doubling",
    "exscan": "chain recursive_doubling",
    "iallreduce": "ring binomial rabenseifner recursive_doubling",
    "ibcast": "linear binomial chain knomial",
    "ireduce": "chain binomial rabenseifner",
    "iallgather": "linear recursive_doubling",
}
_INTEL = {
    "allreduce": "recursive_doubling rabenseifner reduce_bcast topology_reduce_bcast binomial_gather_scatter "
    "topology_binomial_gather_scatter shumilin_ring ring knomial shm_flat shm_knomial shm_knary",
    "barrier": "dissemination recursive_doubling topology_dissemination topology_recursive_doubling "
    "binomial_gather_scatter topology_binomial_gather_scatter shm_flat shm_knomial shm_knary",
    "bcast": "binomial recursive_doubling ring topology_binomial topology_recursive_doubling topology_ring "
    "shumilin knomial shm_flat shm_knomial shm_knary",
    "reduce": "shumilin binomial topology_shumilin topology_binomial rabenseifner topology_rabenseifner "
    "knomial shm_flat shm_knomial shm_knary",
    "allgather": "recursive_doubling bruck ring topology_gatherv_bcast knomial",
    "allgatherv": "recursive_doubling bruck ring topology_gatherv_bcast",
    "alltoall": "bruck isend_irecv pairwise plum",
    "alltoallv": "isend_irecv plum",
    "gather": "binomial topology_binomial shumilin binomial_segmented",
    "scatter": "binomial topology_binomial shumilin",
    "reduce_scatter": "recursive_halving pairwise recursive_doubling reduce_scatterv "
    "topology_reduce_scatterv",
    "scan": "gathering topology_gathering",
    "exscan": "gathering topology_gathering",
    # The reference gives those of reduce_scatter_block numbers and no names.
    "iallreduce": "recursive_doubling rabenseifner reduce_bcast ring knomial binomial "
    "reduce_scatter_allgather smp nreduce",
    "ibcast": "binomial recursive_doubling ring knomial smp tree_knomial tree_kary",
    "ireduce": "rabenseifner binomial knomial",
    "iallgather": "recursive_doubling bruck ring",
    "ialltoall": "bruck isend_irecv pairwise",
}
# By the host's own names; those that differ from ours are behind a colon.
_MPICH = {
    "allreduce": "recursive_doubling recursive_multiplying rabenseifner:reduce_scatter_allgather tree "
    "recexch ring k_reduce_scatter_allgather smp nb",
    "barrier": "k_dissemination recexch smp nb",
    "bcast": "binomial scatter_recursive_doubling_allgather scatter_ring_allgather pipelined_tree tree smp "
    "nb",
    "reduce": "binomial rabenseifner:reduce_scatter_gather smp nb",
    "allgather": "bruck:brucks k_bruck:k_brucks recursive_doubling ring recexch_doubling recexch_halving nb",
    "allgatherv": "bruck:brucks recursive_doubling ring nb",
    "alltoall": "bruck:brucks k_bruck:k_brucks pairwise pairwise_sendrecv_replace scattered nb",
    "alltoallv": "pairwise_sendrecv_replace scattered nb",
    "gather": "binomial nb",
    "scatter": "binomial nb",
    "reduce_scatter": "pairwise recursive_doubling recursive_halving noncommutative nb",
    "reduce_scatter_block": "pairwise recursive_doubling recursive_halving noncommutative nb",
    "scan": "smp recursive_doubling nb",
    "exscan": "recursive_doubling nb",
    "iallreduce": "linear:sched_naive smp:sched_smp recursive_doubling:sched_recursive_doubling "
    "rabenseifner:sched_reduce_scatter_allgather recexch:tsp_recexch_single_buffer "
    "recexch_multiple_buffer:tsp_recexch_multiple_buffer tree:tsp_tree ring:tsp_ring "
    "recexch_reduce_scatter:tsp_recexch_reduce_scatter_recexch_allgatherv",
    "ibcast": "binomial:sched_binomial smp:sched_smp "
    "scatter_recursive_doubling_allgather:sched_scatter_recursive_doubling_allgather "
    "scatter_ring_allgather:sched_scatter_ring_allgather tree:tsp_tree "
    "scatter_recexch_allgather:tsp_scatterv_recexch_allgatherv ring:tsp_ring",
    "ireduce": "smp:sched_smp binomial:sched_binomial rabenseifner:sched_reduce_scatter_gather "
    "tree:tsp_tree ring:tsp_ring",
    "iallgather": "ring:sched_ring bruck:sched_brucks recursive_doubling:sched_recursive_doubling "
    "recexch_doubling:tsp_recexch_doubling recexch_halving:tsp_recexch_halving",
    "ialltoall": "bruck:sched_brucks pairwise:sched_pairwise permuted_sendrecv:sched_permuted_sendrecv "
    "ring:tsp_ring scattered:tsp_scattered",
}
_NAMED = re.compile(r"native\(\s*(\w+)\s*\)")


def is_native(algorithm: str) -> bool:
    """Whether the host runs it by itself."""
    return algorithm == "native" or _NAMED.fullmatch(algorithm) is not None


def name_in(algorithm: str) -> str | None:
    """``ring`` of ``native(ring)`` and of ``pipeline(4, native(ring))``."""
    match = _NAMED.search(algorithm)
    return match[1] if match else None


def without_name(algorithm: str) -> str:
    """``pipeline(4, native)`` of ``pipeline(4, native(ring))``: what offbeat is told."""
    return _NAMED.sub("native", algorithm)


def call(algorithm: str, collective: str, *, nonblocking: bool) -> str:
    """The host's collective that carries an algorithm out: ``allreduce`` or ``iallreduce``.

    Segments are non-blocking calls, whatever the call of the program is.
    """
    return f"i{collective}" if nonblocking or not is_native(algorithm) else collective


def known(vendor: str, collective: str) -> list[str]:
    """The names for a collective, or ``iallreduce``, that an MPI can be told; none for an unknown MPI."""
    table = {"Open MPI": _OPEN_MPI, "Intel MPI": _INTEL, "MPICH": _MPICH}.get(vendor, {})
    return [word.partition(":")[0] for word in table.get(collective, "").split()]


def variables(vendor: str, collective: str, name: str) -> dict[str, str]:
    """The variables that make the MPI use the algorithm; none where it has none of that name."""
    names = known(vendor, collective)
    if name not in names:
        return {}
    upper = collective.upper()
    number = str(names.index(name) + 1)
    if vendor == "Open MPI":
        if collective.startswith("i"):
            return {f"OMPI_MCA_coll_libnbc_{collective}_algorithm": number}
        # han and others have a higher priority than tuned on some machines.
        return {
            "OMPI_MCA_coll_tuned_priority": "100",
            "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
            f"OMPI_MCA_coll_tuned_{collective}_algorithm": number,
        }
    if vendor == "Intel MPI":
        return {f"I_MPI_ADJUST_{upper}": number}
    word = _MPICH[collective].split()[names.index(name)]
    return {f"MPIR_CVAR_{upper}_INTRA_ALGORITHM": word.rpartition(":")[2]}


def check(vendor: str, collectives: Sequence[str], algorithm: str, *, nonblocking: bool = False) -> None:
    """Refuse a name that the MPI has for none of the collectives."""
    name = name_in(algorithm)
    calls = [call(algorithm, collective, nonblocking=nonblocking) for collective in collectives]
    if name is None or any(name in known(vendor, each) for each in calls):
        return
    names = [n for each in calls for n in known(vendor, each)]
    listed = ", ".join(dict.fromkeys(names)) or "none"
    raise CommandError(f"{algorithm}: {vendor} has no such {' or '.join(calls)}; it has: {listed}")
