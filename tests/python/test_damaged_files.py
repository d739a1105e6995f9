# SPDX-License-Identifier: BSD-3-Clause
"""Files that are damaged or impossible cause one line, which names file and line."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from fakes import Offbeat, benchmark_of, result_of
from made_benches import write
from offbeat.bench.runner import add_results_of_killed_run
from offbeat.errors import CommandError


@pytest.mark.parametrize("delay", ["1e308", "1e13"])
def test_a_delay_that_is_too_long(offbeat: Offbeat, tmp_path: Path, delay: str) -> None:
    (tmp_path / "huge.txt").write_text(f"1\n{delay}\n")
    for arguments in (["pattern", "./huge.txt"], ["bench", "--patterns", "./huge.txt"]):
        done = offbeat(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(f"offbeat: huge.txt, line 2: {delay} us is too long for a delay"), done
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "skew",
    [
        ["--skew", "999999999999999999s"],
        ["--mif", "1e308", "--alpha", "1s"],
        ["--mif", "1e200", "--alpha", "1s"],
    ],
)
def test_a_skew_that_is_too_long(offbeat: Offbeat, skew: list[str]) -> None:
    done = offbeat("pattern", "ascending", "-n", "4", *skew)
    assert done.returncode == 2
    assert done.stderr.startswith("offbeat: ")
    assert "is too long for a delay" in done.stderr
    assert done.stderr.count("\n") == 1


RESULT = {
    "record": "result", "collective": "allreduce", "size_bytes": 64, "pattern": "balanced", "skew": "0us",
    "algorithm": "ring", "status": "measured", "last_delays_us": [1.0], "total_delays_us": [1.0],
}  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        b"\x00\x01",
        b'{"record": "result", "coll',
        b"[1]",
        b"{}",
        b'{"record": "begin"}',
        json.dumps({**RESULT, "last_delays_us": ["x"]}).encode(),
        json.dumps({**RESULT, "last_delays_us": []}).encode(),
        b"[" * 100_000,
    ],
)
def test_a_damaged_line_of_a_part(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "bench.json"
    part = tmp_path / "bench.json.part"
    part.write_bytes(json.dumps(RESULT).encode() + b"\n" + line + b"\n")
    with pytest.raises(CommandError) as raised:
        add_results_of_killed_run(benchmark_of(result_of("native")), path)
    assert str(raised.value).startswith(f"{part}, line 2, is damaged")
    assert part.exists()


@pytest.mark.parametrize("arguments", [["tune", "--resume", "-o"], ["bench", "--resume"], ["report"]])
def test_brackets_without_end(offbeat: Offbeat, tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    done = offbeat(*arguments, "deep.json")
    assert done.returncode == 2
    assert re.match(r"offbeat: deep\.json( |: )", done.stderr)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("cells", 0, "last_delays_us", 1), {}, "last_delays_us is [9.0, {}"),
        (("cells", 0, "total_delays_us"), -1, "total_delays_us is -1"),
        (("cells", 0, "total_delays_us", 0), math.inf, "total_delays_us is [inf"),
        (("cells", 0, "skew"), [], "skew is []"),
        (("cells", 0, "type"), -1, "type is -1"),
        (("plan", "sizes_bytes"), True, "sizes_bytes is True"),
        (("plan", "sizes_bytes", 0), "x", "sizes_bytes is ['x'"),
        (("plan", "ranks"), 10**30, "ranks is 1000000000"),
        (("plan", "operations"), [None], "operations is [None]"),
        (("plan", "collectives"), ["all"], "no 'all'"),
        (("plan", "types"), ["complex"], "there is no cell of complex, sum"),
    ],
)
def test_a_field_of_another_type(
    offbeat: Offbeat, tmp_path: Path, where: tuple[str | int, ...], value: object, message: str
) -> None:
    write(tmp_path / "bench.json")
    document = json.loads((tmp_path / "bench.json").read_text())
    inner = document
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    (tmp_path / "bench.json").write_text(json.dumps(document))
    for arguments in (["compare", "bench.json", "bench.json"], ["bench", "--resume", "bench.json"]):
        done = offbeat(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(f"offbeat: bench.json is damaged: {message}"), done.stderr
        assert done.stderr.count("\n") == 1
