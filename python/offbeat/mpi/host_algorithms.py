# SPDX-License-Identifier: BSD-3-Clause
"""``native(NAME)``: tell an MPI to use one of its own algorithms.

An MPI reads the choice from environment variables, so each choice needs a separate job. An algorithm that
offbeat has, too, goes by offbeat's name, any other one by the MPI's. Sources: ``ompi_info --param coll tuned
--level 9`` and ``--param coll libnbc``, MPICH's ``mpivars``, and I_MPI_ADJUST in the reference of Intel MPI.

A non-blocking collective, such as ``iallreduce``, has algorithms of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from offbeat.errors import CommandError

# The names of Open MPI and Intel MPI are in the order of the MPI's own numbers, which begin at 1.
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
    # The reference gives the algorithms of reduce_scatter_block only numbers, so none is listed.
    "iallreduce": "recursive_doubling rabenseifner reduce_bcast ring knomial binomial "
    "reduce_scatter_allgather smp nreduce",
    "ibcast": "binomial recursive_doubling ring knomial smp tree_knomial tree_kary",
    "ireduce": "rabenseifner binomial knomial",
    "iallgather": "recursive_doubling bruck ring",
    "ialltoall": "bruck isend_irecv pairwise",
}
# MPICH selects by name. If its name differs from the one here, it follows a colon.
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
    """Whether ``algorithm`` is one of the host's own: ``native`` or ``native(NAME)``."""
    return algorithm == "native" or _NAMED.fullmatch(algorithm) is not None


def name_in(algorithm: str) -> str | None:
    """The NAME in ``native(NAME)``, such as ``ring`` in ``pipeline(4, native(ring))``, or None."""
    match = _NAMED.search(algorithm)
    return match[1] if match else None


def without_name(algorithm: str) -> str:
    """The expression for offbeat, such as ``pipeline(4, native)`` for ``pipeline(4, native(ring))``."""
    return _NAMED.sub("native", algorithm)


def call(algorithm: str, collective: str, *, nonblocking: bool) -> str:
    """The host's collective that runs an algorithm, such as ``allreduce`` or ``iallreduce``.

    The segments of a pipeline are always non-blocking calls.
    """
    return f"i{collective}" if nonblocking or not is_native(algorithm) else collective


def known(vendor: str, collective: str) -> list[str]:
    """The NAMEs that an MPI has for a collective, such as ``allreduce`` or ``iallreduce``."""
    table = {"Open MPI": _OPEN_MPI, "Intel MPI": _INTEL, "MPICH": _MPICH}.get(vendor, {})
    return [word.partition(":")[0] for word in table.get(collective, "").split()]


def variables(vendor: str, collective: str, name: str) -> dict[str, str]:
    """The variables that make an MPI use its algorithm ``name``. Empty if it has no such algorithm."""
    names = known(vendor, collective)
    if name not in names:
        return {}
    upper = collective.upper()
    number = str(names.index(name) + 1)
    if vendor == "Open MPI":
        if collective.startswith("i"):
            return {f"OMPI_MCA_coll_libnbc_{collective}_algorithm": number}
        # On some machines han and other components have a higher priority than tuned.
        return {
            "OMPI_MCA_coll_tuned_priority": "100",
            "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
            f"OMPI_MCA_coll_tuned_{collective}_algorithm": number,
        }
    if vendor == "Intel MPI":
        return {f"I_MPI_ADJUST_{upper}": number}
    word = _MPICH[collective].split()[names.index(name)]
    # On one node MPICH's device has collectives of its own, which come first and ask for no algorithm.
    return {
        f"MPIR_CVAR_{upper}_INTRA_ALGORITHM": word.rpartition(":")[2],
        f"MPIR_CVAR_{upper}_DEVICE_COLLECTIVE": "0",
    }


def check(vendor: str, collectives: Sequence[str], algorithm: str, *, nonblocking: bool = False) -> None:
    """Refuse a ``native(NAME)`` that the MPI has for none of the collectives."""
    name = name_in(algorithm)
    calls = [call(algorithm, collective, nonblocking=nonblocking) for collective in collectives]
    if name is None or any(name in known(vendor, each) for each in calls):
        return
    names = [n for each in calls for n in known(vendor, each)]
    listed = ", ".join(dict.fromkeys(names)) or "none"
    raise CommandError(f"{algorithm}: {vendor} has no such {' or '.join(calls)}; it has: {listed}")
