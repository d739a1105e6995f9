# SPDX-License-Identifier: BSD-3-Clause
"""offbeat rules export: choices, the format of each host, and what happens if the host does not go along."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeMpi, MakeMpi, Offbeat, benchmark_of, result_of, write_program
from offbeat.bench.results import Benchmark
from offbeat.errors import ANSWER_NO, FAILED, CommandError
from offbeat.rules import export_choices, export_intel, export_mpich, export_openmpi
from offbeat.rules.export_choices import Band, Choice, Table, bands

# -- choices


def choices(*medians: tuple[str, float], objective: str = "balanced", **values: Any) -> Sequence[Choice]:
    found = benchmark_of(*(result_of(name, median, **values) for name, median in medians))
    return export_choices.table(found, objective).choices.get("allreduce", [])


@pytest.mark.parametrize(
    ("ring", "name", "near"),
    [
        (5.0, "ring", None),
        (9.70, "ring", None),
        (9.72, None, "ring"),
        (10.2, None, "ring"),
        (10.4, None, None),
    ],
)
def test_the_default_wins_ties(ring: float, name: str | None, near: str | None) -> None:
    (choice,) = choices(("native", 10.0), ("native(ring)", ring), ("arrival_tree", 1.0))
    assert (choice.size_bytes, choice.name, choice.near) == (64, name, near)


@pytest.mark.parametrize(("spread", "name"), [(0.02, "ring"), (3.0, None)])
def test_what_the_benchmark_is_not_sure_of_is_not_chosen(spread: float, name: str | None) -> None:
    """The medians are the same in both cases, but the intervals overlap where samples spread."""
    (choice,) = choices(("native", 10.0), ("native(ring)", 9.0), spread=spread, count=51)
    assert (choice.name, choice.near) == (name, None if name else "ring")


def test_few_samples_do_not_count() -> None:
    assert choices(("native", 10.0), ("native(ring)", 5.0), count=4) == []


def test_only_the_host_s_own_blocking_algorithms_take_part() -> None:
    (choice,) = choices(("native", 10.0), ("ring", 1.0), ("pipeline(4, native(ring))", 1.0))
    assert choice == Choice(64, None)
    assert choices(("native(ring)", 1.0)) == [], "nothing to compare with"


def test_an_algorithm_with_a_wrong_result_is_never_chosen() -> None:
    from offbeat.bench.results import WrongData

    wrong = WrongData(elements=1, rank=0, index=0, expected=1.0, got=2.0)
    found = benchmark_of(
        result_of("native", 10.0), result_of("native(ring)", 1.0), result_of("native(linear)", 5.0),
        result_of("native(ring)", 1.0, size=128, status="wrong", wrong_data=wrong),
    )  # fmt: skip
    assert [c.name for c in export_choices.table(found, "balanced").choices["allreduce"]] == ["linear"]


def test_the_objective() -> None:
    """Robust: the mean over all patterns of the delay divided by the least one."""
    medians: Mapping[str, tuple[float, float]] = {
        "native": (10.0, 10.0), "native(ring)": (5.0, 40.0), "native(linear)": (8.0, 8.0),
    }  # fmt: skip
    results = [
        result_of(name, median, pattern=pattern, skew=skew)
        for name, both in medians.items()
        for median, pattern, skew in zip(both, ("balanced", "random"), ("0us", "1x"), strict=True)
    ]
    for objective, name in (("balanced", "ring"), ("robust", "linear")):
        (choice,) = export_choices.table(benchmark_of(*results), objective).choices["allreduce"]
        assert choice.name == name


def test_choices_meet_at_the_geometric_mean() -> None:
    found = bands([Choice(16, None), Choice(64, "ring"), Choice(256, "ring"), Choice(1024, "linear")])
    assert found == [Band(0, 31, None), Band(32, 511, "ring"), Band(512, 2048, "linear")]
    assert bands([Choice(100, "ring"), Choice(200, "linear")]) == [
        Band(50, 141, "ring"),
        Band(142, 400, "linear"),
    ]
    assert bands([Choice(0, "tree")]) == [Band(0, 0, "tree")]


# -- Open MPI


def test_the_rules_of_open_mpi() -> None:
    two = Table(2, {"bcast": [Choice(4, "chain")]})
    four = Table(
        4,
        {
            "allreduce": [Choice(1024, "ring"), Choice(4096, None), Choice(16384, "recursive_doubling")],
            "allgather": [Choice(16, None)],
            "alltoall": [Choice(64, "pairwise")],
            "barrier": [Choice(0, "tree")],
            "gather": [Choice(64, "linear"), Choice(128, "binomial")],
        },
    )
    made = export_openmpi.export([four, two], "5.0.11")
    lines = [line.partition("#")[0].strip() for line in made.texts["openmpi.rules"].splitlines()]
    default = "1\n0 0 0 0"
    assert "\n".join(line for line in lines if line) == "\n".join(
        [
            "4",
            f"2\n3\n0\n{default}",
            "4\n5\n0 0 0 0\n512 4 0 0\n2048 0 0 0\n8192 3 0 0\n32769 0 0 0",
            f"5\n{default}",
            f"3\n3\n0\n{default}\n4\n2\n0 2 0 0\n516 0 0 0\n5\n{default}",
            f"6\n3\n0\n{default}\n4\n1\n0 6 0 0\n5\n{default}",
            f"7\n3\n0\n{default}\n2\n2\n0 2 4 0\n9 0 0 0\n3\n{default}",
        ]
    )
    assert made.notes == [
        "gather, 4 ranks: Open MPI decides by itself, because it cannot be told to choose by size here, and "
        "the best choice depends on the size"
    ]
    assert made.named == [
        (2, "bcast", 4, "chain"),
        (4, "allreduce", 1024, "ring"),
        (4, "allreduce", 16384, "recursive_doubling"),
        (4, "alltoall", 64, "pairwise"),
        (4, "barrier", 0, "tree"),
    ]


def looked_up(text: str, collective: int, ranks: int, length: int) -> int:
    """The algorithm that tuned takes: the last entry that is not above, or the first one."""
    numbers = iter(int(w) for line in text.splitlines() for w in line.partition("#")[0].split())
    best = 0
    for _ in range(next(numbers)):
        number = next(numbers)
        rows: list[list[tuple[int, int]]] = []
        sizes = []
        for _ in range(next(numbers)):
            sizes.append(next(numbers))
            rows.append(
                [
                    (next(numbers), next(numbers), next(numbers), next(numbers))[:2]
                    for _ in range(next(numbers))
                ]
            )
        if number == collective:
            assert sizes == sorted(set(sizes))
            assert all(r[0][0] == 0 and r == sorted(r) for r in rows)
            row = rows[max((k for k, size in enumerate(sizes) if size <= ranks), default=0)]
            best = [algorithm for least, algorithm in row if least <= length][-1]
    assert next(numbers, None) is None
    return best


def test_open_mpi_decides_for_other_communicators_and_sizes() -> None:
    tables = [Table(n, {"allreduce": [Choice(1024, "ring"), Choice(4096, "linear")]}) for n in (3, 4, 8)]
    text = export_openmpi.export(tables, "5.0.11").texts["openmpi.rules"]
    for ranks in range(1, 12):
        expected = [0, 4, 4, 1, 1, 0] if ranks in (3, 4, 8) else [0] * 6
        sizes = (511, 512, 2047, 2048, 8192, 8193)
        assert [looked_up(text, 2, ranks, size) for size in sizes] == expected, ranks


def rule_of_version_6(text: str, collective: str, ranks: int, length: int) -> tuple[int, int]:
    """The algorithm and fan-out that tuned of Open MPI 6 takes: the first rule that matches, or (0, 0)."""
    for sizes in json.loads(text)["collectives"][collective]:
        if sizes["comm_size_min"] <= ranks <= sizes["comm_size_max"]:
            for rule in sizes["rules"]:
                most = math.inf if rule["msg_size_max"] == "inf" else rule["msg_size_max"]
                if rule["msg_size_min"] <= length <= most:
                    return rule["alg"], rule["faninout"]
            break
    return 0, 0


def test_open_mpi_6_gets_json() -> None:
    """Its reader of the classic format takes a rule for 4 ranks for those with fewer than 4."""
    tables = [
        Table(
            n, {"allreduce": [Choice(1024, "ring"), Choice(4096, "linear")], "barrier": [Choice(0, "tree")]}
        )
        for n in (3, 4, 8)
    ]
    text = export_openmpi.export(tables, "6.0.0a1").texts["openmpi.rules"]
    for ranks in range(1, 12):
        expected = [0, 4, 4, 1, 1, 0] if ranks in (3, 4, 8) else [0] * 6
        sizes = (511, 512, 2047, 2048, 8192, 8193)
        assert [rule_of_version_6(text, "allreduce", ranks, n)[0] for n in sizes] == expected, ranks
        assert rule_of_version_6(text, "barrier", ranks, 0)[0] == (6 if ranks in (3, 4, 8) else 0)


@pytest.mark.parametrize("version", ["5.0.11", "6.0.0"])
def test_a_radix_is_never_0(version: str) -> None:
    """With radix 0, the allgather of Open MPI 6 does not end."""
    table = Table(4, {"allgather": [Choice(64, "bruck")], "reduce": [Choice(64, "knomial")]})
    text = export_openmpi.export([table], version).texts["openmpi.rules"]
    if version.startswith("6"):
        assert rule_of_version_6(text, "allgather", 4, 256) == (2, 4)
        assert rule_of_version_6(text, "reduce", 4, 64) == (8, 4)
    else:
        assert " 2 4 0  # bruck" in text
        assert " 8 4 0  # knomial" in text


# -- Intel MPI


def test_the_variables_of_intel_mpi() -> None:
    table = Table(
        4,
        {
            "allreduce": [Choice(1024, "ring"), Choice(4096, None, near="knomial"), Choice(16384, "ring")],
            "bcast": [Choice(4, "ring"), Choice(8, None)],
            "alltoall": [Choice(64, None, near="plum")],
            "barrier": [Choice(0, "dissemination")],
            "scan": [Choice(8, "gathering"), Choice(64, "topology_gathering")],
            "allgather": [Choice(8, "ring"), Choice(64, None, near="ring")],
        },
    )
    made = export_intel.export([table])
    assert made.settings == {
        "settings.sh": {
            "I_MPI_ADJUST_ALLREDUCE": "8:0-2047;9:2048-8191;8:8192-2147483647",
            "I_MPI_ADJUST_BARRIER": "1",
            "I_MPI_ADJUST_ALLGATHER": "3",
        }
    }
    assert [note.partition(",")[0] for note in made.notes] == ["bcast", "scan"]
    assert "no algorithm that was measured is as good" in made.notes[0]


def test_intel_mpi_has_one_set_for_each_number_of_ranks() -> None:
    tables = [Table(n, {"barrier": [Choice(0, "dissemination")]}) for n in (4, 2)]
    assert list(export_intel.export(tables).settings) == ["settings-2.sh", "settings-4.sh"]


# -- MPICH

COLL = {
    "collective=allreduce": {
        "comm_type=intra": {
            "avg_msg_size<=8": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
            "avg_msg_size=any": {
                "is_op_built_in=no": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
                "is_op_built_in=yes": {
                    "count<pow2": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
                    "count=any": {"algorithm=MPIR_Allreduce_intra_reduce_scatter_allgather": {}},
                },
            },
        },
        "comm_type=inter": {"algorithm=MPIR_Allreduce_inter_reduce_exchange_bcast": {}},
    },
    "collective=allgather": {
        "comm_type=intra": {
            "comm_size=pow2": {"algorithm=MPIR_Allgather_intra_recursive_doubling": {}},
            "comm_size=any": {"algorithm=MPIR_Allgather_intra_ring": {}},
        },
        "comm_type=inter": {"algorithm=MPIR_Allgather_inter_local_gather_remote_bcast": {}},
    },
    "collective=alltoall": {
        "comm_type=intra": {
            "is_sendbuf_inplace=yes": {"algorithm=MPIR_Alltoall_intra_pairwise_sendrecv_replace": {}},
            "is_sendbuf_inplace=no": {"algorithm=MPIR_Alltoall_intra_scattered": {}},
        },
    },
    "collective=exscan": {"algorithm=MPIR_Exscan_intra_recursive_doubling": {}},
}
CH4 = {
    "collective=allreduce": {
        "comm_type=intra": {
            "comm_size=node_comm_size": {"composition=MPIDI_Allreduce_intra_composition_gamma": {}},
            "comm_size=any": {"composition=MPIDI_Allreduce_intra_composition_alpha": {}},
        }
    },
    "collective=alltoall": {"comm_type=intra": {"composition=MPIDI_Alltoall_intra_composition_beta": {}}},
}
UNKNOWN = "algorithm=MPIR_Alltoall_intra_k_brucks"


def library_bytes(coll: Any = COLL, ch4: Any = CH4) -> bytes:
    words = [
        json.dumps({"collective=bcast": {}}),
        json.dumps(ch4),
        json.dumps(coll),
        '{"collective=',
        *sorted(export_mpich._all_keys() - {UNKNOWN}),
    ]
    text = "\0".join(word.replace('": ', '":').replace('", ', '",') for word in words)
    return b"\x7fELF\0" + text.encode() + b"\0\xff"


@pytest.fixture
def library(tmp_path: Path) -> export_mpich.Library:
    path = tmp_path / "libmpi.so"
    path.write_bytes(library_bytes())
    return export_mpich.Library.read(path)


def selected(trees: Mapping[str, Any], collective: str, facts: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The leaf to which MPICH comes, as MPIR_Csel_search walks, and its parameters."""

    def holds(key: str) -> bool:
        for operator in ("<=", "<", "="):
            name, found, value = key.partition(operator)
            if found:
                break
        if value == "any" or (operator, value) == ("=", "any"):
            return True
        if value == "pow2":
            power = 1 << (facts["comm_size"].bit_length() - 1)
            return bool(facts["count"] < power if operator == "<" else facts["comm_size"] == power)
        if operator == "=":
            return bool(facts[name] == value)
        size: int = facts[name]
        return size <= int(value) if operator == "<=" else size < int(value)

    tree = trees[f"collective={collective}"]
    while True:
        key = next(
            (key for key in tree if key.startswith(("algorithm=", "composition=")) or holds(key)), None
        )
        assert key is not None, "MPICH would abort the job"
        if key.startswith(("algorithm=", "composition=")):
            return key.rpartition("_intra_")[2], list(tree[key])
        tree = tree[key]


def facts(ranks: int, size: int, **values: Any) -> dict[str, Any]:
    return {
        "comm_type": "intra", "comm_size": ranks, "avg_msg_size": size, "total_msg_size": size * ranks,
        "count": size // 4, "is_commutative": "yes", "is_op_built_in": "yes", "is_sendbuf_inplace": "no",
        "comm_hierarchy": "parent", **values,
    }  # fmt: skip


def test_the_trees_of_mpich(library: export_mpich.Library) -> None:
    tables = [
        Table(4, {"allreduce": [Choice(1024, "ring"), Choice(4096, None), Choice(16384, "recexch")]}),
        Table(6, {"allreduce": [Choice(1024, "rabenseifner")], "alltoall": [Choice(64, "bruck")]}),
        Table(8, {"allgather": [Choice(256, "ring")], "exscan": [Choice(8, "nb"), Choice(16, "nb")]}),
    ]
    made = export_mpich.export(tables, library)
    coll, ch4 = (json.loads(made.texts[name]) for name in ("coll.json", "ch4.json"))
    assert made.notes == []

    def leaf(collective: str, *arguments: Any, **values: Any) -> str:
        return selected(coll, collective, facts(*arguments, **values))[0]

    sizes = (511, 512, 2047, 2048, 8191, 8192, 32768, 32769)
    before = "reduce_scatter_allgather"
    found = [leaf("allreduce", 4, size) for size in sizes]
    assert found == [before, "ring", "ring", before, before, "recexch", "recexch", before]
    assert leaf("allreduce", 4, 1024, is_commutative="no", is_op_built_in="no") == "recursive_doubling"
    assert selected(coll, "allreduce", facts(4, 16384)) == ("recexch", ["k=2", "single_phase_recv=0"])
    composition = [selected(ch4, "allreduce", facts(4, size))[0] for size in sizes]
    assert [name == "composition_beta" for name in composition] == [name != before for name in found]
    assert leaf("allreduce", 6, 1024) == before
    assert leaf("allreduce", 6, 1024, is_op_built_in="no") == "recursive_doubling"
    assert leaf("alltoall", 6, 64) == "brucks"
    assert leaf("alltoall", 6, 129) == "scattered"
    assert leaf("alltoall", 6, 64, is_sendbuf_inplace="yes") == "pairwise_sendrecv_replace"
    assert [leaf("allgather", 8, size) for size in (127, 128, 512, 513)] == [
        "recursive_doubling", "ring", "ring", "recursive_doubling",
    ]  # fmt: skip
    assert leaf("exscan", 8, 1 << 20) == "algorithm=MPIR_Exscan_allcomm_nb"
    assert ch4["collective=alltoall"] == CH4["collective=alltoall"]


def test_mpich_goes_on_as_before_everywhere_else(library: export_mpich.Library) -> None:
    tables = [
        Table(n, {"allreduce": [Choice(256, "ring")], "alltoall": [Choice(256, "bruck")]}) for n in (3, 4, 9)
    ]
    made = export_mpich.export(tables, library)
    coll, ch4 = (json.loads(made.texts[name]) for name in ("coll.json", "ch4.json"))
    assert (list(coll), list(ch4)) == (list(COLL), list(CH4)), "MPICH needs all collectives"
    cases = random.Random(1)
    for _ in range(2000):
        ranks, size = cases.randint(1, 12), cases.choice((4, 60, 124, 127, 513, 1 << 20))
        names = ("is_commutative", "is_op_built_in", "is_sendbuf_inplace")
        case = facts(ranks, size, **{name: cases.choice(("yes", "no")) for name in names})
        for now, before in ((coll, COLL), (ch4, CH4)):
            for collective in before:
                name = collective.partition("=")[2]
                assert selected(now, name, case) == selected(before, name, case), (name, case)


@pytest.mark.parametrize(
    ("ranks", "collective", "name", "why"),
    [
        (4, "alltoall", "k_bruck", "its files cannot name k_bruck"),
        (6, "allgather", "recursive_doubling", "needs a power of two of ranks"),
        (4, "alltoall", "pairwise_sendrecv_replace", "is for calls in place"),
        (4, "bcast", "binomial", "its trees do not have this collective"),
        (4, "barrier", "recexch", "its trees do not have this collective"),
    ],
)
def test_what_mpich_cannot_name(
    library: export_mpich.Library, ranks: int, collective: str, name: str, why: str
) -> None:
    made = export_mpich.export([Table(ranks, {collective: [Choice(64, name)]})], library)
    (note,) = made.notes
    assert why in note
    assert made.named == []
    assert json.loads(made.texts["coll.json"]) == COLL


def test_no_file_for_mpich_fills_its_last_page() -> None:
    """MPICH maps the file and reads on to a zero byte."""
    for length in range(4000, 4200):
        assert len(export_mpich.as_text({"collective=bcast": {"x" * length: {}}})) % 4096 != 0


def test_an_mpich_without_trees(tmp_path: Path) -> None:
    path = tmp_path / "libmpi.so"
    for content in (b"\x7fELF\0", library_bytes(ch4={"collective=bcast": {}}), library_bytes(coll=[])):
        path.write_bytes(content)
        with pytest.raises(CommandError, match="has no trees of the device ch4"):
            export_mpich.Library.read(path)


# -- the command, with a made-up host

# An mpirun whose host takes ring if the variables say so. "broken": it takes nothing from a file. "aborts":
# it does not start with a file.
HOST = """#!{python}
import json, os, sys
output = next(k for k, word in enumerate(sys.argv) if word.endswith("export_probe.py")) + 3
cells = sys.argv[output + 3:]
forced = "OMPI_MCA_coll_tuned_allreduce_algorithm" in os.environ
file = os.environ.get("OMPI_MCA_coll_tuned_dynamic_rules_filename")
if file and "{kind}" == "aborts":
    sys.exit("abort: bad file")
has_ring = forced or (file and "{kind}" != "broken" and "# ring" in open(file).read())
found = []
for cell in cells:
    name, size, _ = cell.split(":")
    found.append(dict(
        collective=name, size_bytes=int(size), right="{kind}" != "wrong" or not file,
        signature="ring" if has_ring and "{kind}" != "alike" else "default",
        time_us=20.0 if has_ring and "{kind}" == "slow" else 5.0 if has_ring else 10.0,
    ))
json.dump(found, open(sys.argv[output], "w"))
"""


def measured(path: Path, mpi: FakeMpi, **about: Any) -> Path:
    found = benchmark_of(result_of("native", 10.0), result_of("native(ring)", 5.0))
    found.about["mpi"] = {"vendor": "Open MPI", "version": "5.0.9", "libmpi": str(mpi.libmpi)}
    found.about |= about
    found.write(path)
    return path


@pytest.fixture
def host(fake_mpi: MakeMpi) -> FakeMpi:
    mpi = fake_mpi("openmpi")
    has_behaviour(mpi, "right")
    return mpi


def has_behaviour(mpi: FakeMpi, kind: str) -> None:
    write_program(
        mpi.prefix / "bin" / "mpirun", HOST.replace("{python}", sys.executable).replace("{kind}", kind)
    )


@pytest.mark.parametrize(("kind", "seen"), [("right", "order"), ("alike", "time")])
def test_an_export(offbeat: Offbeat, host: FakeMpi, tmp_path: Path, kind: str, seen: str) -> None:
    has_behaviour(host, kind)
    path = measured(tmp_path / "b.json", host)
    done = offbeat("rules", "export", path, "--to", "openmpi", "-o", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == f"To use it, run before mpirun: . {tmp_path}/out/settings.sh"
    row = next(line for line in done.stdout.splitlines() if "allreduce" in line)
    assert row.split() == ["allreduce", "2", "64", "ring", "10.0", "µs", "5.00", "µs", seen]
    out = tmp_path / "out"
    assert sorted(each.name for each in out.iterdir()) == ["openmpi.rules", "settings.sh"]
    assert looked_up((out / "openmpi.rules").read_text(), 2, 2, 64) == 4
    assert (
        f"export OMPI_MCA_coll_tuned_dynamic_rules_filename={out}/openmpi.rules\n"
        in (out / "settings.sh").read_text()
    )
    assert not list(tmp_path.glob(".offbeat-export-*"))
    again = offbeat("rules", "export", path, "--to", "openmpi", "-o", out)
    assert (again.returncode, again.stderr) == (
        2, f"offbeat: {out} is not empty; add --force to overwrite the files of an earlier export\n",
    )  # fmt: skip
    done = offbeat("rules", "export", path, "--to", "openmpi", "-o", out, "--force", "--json")
    (algorithm,) = json.loads(done.stdout)["algorithms"]
    assert (algorithm["ranks"], algorithm["collective"], algorithm["size_bytes"]) == (2, "allreduce", 64)
    assert (algorithm["name"], algorithm["default_us"], algorithm["exported_us"]) == ("ring", 10.0, 5.0)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("aborts", "Open MPI with the export ended with exit code 1: abort: bad file; nothing was exported"),
        (
            "wrong",
            "Open MPI with the export has a wrong result in allreduce of 64 bytes on 2 ranks; nothing was",
        ),
        ("broken", "nothing to export: Open MPI is best left to its default here"),
        ("slow", "nothing to export: Open MPI is best left to its default here"),
    ],
)
def test_what_the_host_does_not_run_is_not_written(
    offbeat: Offbeat, host: FakeMpi, tmp_path: Path, kind: str, words: str
) -> None:
    has_behaviour(host, kind)
    path = measured(tmp_path / "b.json", host)
    done = offbeat("rules", "export", path, "--to", "openmpi", "-o", tmp_path / "out")
    assert done.returncode == (ANSWER_NO if words.startswith("nothing") else FAILED)
    assert words in done.stderr
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".offbeat-export-*"))
    why = {
        "broken": "because ring had no effect",
        "slow": "because ring was slower in the check (10 us before, 20",
    }
    assert why.get(kind, "") in done.stdout


def changed(path: Path, mpi: FakeMpi, change: str) -> Path:
    """A file that cannot be exported, in one way."""
    measured(path, mpi)
    document = json.loads(path.read_text())
    if change == "another vendor":
        document["mpi"]["vendor"] = "MPICH"
    elif change == "another version":
        document["mpi"]["version"] = "4.1.4"
    elif change == "variables":
        document["environment"] = {"OMPI_MCA_coll_tuned_bcast_algorithm": "3"}
    elif change == "no names":
        document["plan"]["algorithms"] = ["native", "ring"]
    elif change == "nothing measured":
        document["cells"] = []
    elif change == "non-blocking":
        document["plan"]["computing"] = "1x"
    path.write_text(json.dumps(document) if change != "no JSON" else "{")
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("another vendor", "was measured under MPICH, so it cannot be exported to Open MPI"),
        ("another version", "was measured under Open MPI 4.1.4, not Open MPI 5.0.9"),
        (
            "variables",
            "was measured with OMPI_MCA_coll_tuned_bcast_algorithm=3, so its `native` is not the default",
        ),
        (
            "no names",
            "has no algorithm of Open MPI by name; measure some, such as offbeat bench --algorithms 'native(",
        ),
        ("nothing measured", "has no cell in which native was measured"),
        ("non-blocking", "has non-blocking calls; exports are for blocking ones"),
        ("no JSON", "is not a file of offbeat bench"),
    ],
)
def test_results_that_cannot_be_exported(
    offbeat: Offbeat, host: FakeMpi, tmp_path: Path, change: str, words: str
) -> None:
    path = changed(tmp_path / "b.json", host, change)
    done = offbeat("rules", "export", path, "--to", "openmpi")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"offbeat: {path} ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_other_bad_input(offbeat: Offbeat, host: FakeMpi, tmp_path: Path) -> None:
    path = measured(tmp_path / "b.json", host)
    (tmp_path / "file").touch()
    for arguments, words in (
        (("--to", "cray"), "--to cray: offbeat exports only to openmpi, mpich, intel"),
        (("--to", "openmpi", "--objective", "best"), "--objective best: write robust or balanced"),
        (("--to", "openmpi", "-o", tmp_path / "file"), f"{tmp_path}/file is not a folder"),
        (("--to", "openmpi", "-o", tmp_path / "no" / "out"), f"there is no folder {tmp_path}/no"),
        ((path, "--to", "openmpi"), f"{path} has 2 ranks, as another file has; name one of them"),
    ):
        done = offbeat("rules", "export", path, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
    disturbed = offbeat("rules", "export", path, "--to", "openmpi", OMPI_MCA_coll_tuned_use_dynamic_rules="1")
    assert disturbed.returncode == 2
    assert (
        "OMPI_MCA_coll_tuned_use_dynamic_rules is set, so the check could not see the default"
        in disturbed.stderr
    )


def test_a_benchmark_is_not_changed(host: FakeMpi, tmp_path: Path) -> None:
    path = measured(tmp_path / "b.json", host)
    found: Benchmark = export_choices.read(path, "openmpi")
    assert export_choices.table(found, "robust").choices == {"allreduce": [Choice(64, "ring", gain=2.0)]}
