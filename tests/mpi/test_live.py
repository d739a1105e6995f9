# SPDX-License-Identifier: BSD-3-Clause
"""A job that runs can be looked at: who waits, for whom, and where the late rank is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import (
    INSIDE_OFFBEAT,
    ON_ONE_MPI,
    PROGRAMS,
    VENV,
    Mpi,
    clean_environment,
    compile_program,
    end,
    library,
    on_mpis,
    run,
)

OFFBEAT = str(VENV / "bin" / "offbeat")
STALL = {"OFFBEAT_STALL_S": "1"}
WHERE = r"^offbeat: allreduce number \d+ on .*; rank 1 is in (.*)$"


@contextlib.contextmanager
def job(mpi: Mpi, kind: str, seconds: float, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """A job of live.c that is under way."""
    program = compile_program(mpi, PROGRAMS / "live.c")
    variables = {"LD_PRELOAD": str(library(mpi.preload)), **settings}
    words = [f"{name}={value}" for name, value in variables.items()]
    process = subprocess.Popen(
        [*mpi.launch(2), "env", *words, str(program), kind, str(seconds)],
        env=clean_environment(mpi),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        end(process)
        assert process.stdout is not None
        process.stdout.close()


def ranks_of(process: subprocess.Popen[str], count: int = 2) -> list[int]:
    """The processes of the ranks, when all have counters."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = [each for each in counted() if each["program"].split()[0].endswith("/live")]
        if len(found) == count and all(each["communicators"] for each in found):
            return [each["pid"] for each in sorted(found, key=lambda each: each["rank"])]
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    raise AssertionError("no counters")


def counted() -> list[dict[str, Any]]:
    raw = subprocess.run([OFFBEAT, "top", "--raw"], capture_output=True, text=True, check=True, timeout=60)
    found: list[dict[str, Any]] = json.loads(raw.stdout)
    return found


SESSIONS = PROGRAMS.parent / "sessions"


def on_terminal(pattern: str, *arguments: str) -> str:
    """What `offbeat top` shows on a terminal of 80 columns until it has shown `pattern`, then gets a Ctrl-C.

    This is the last screen that has the pattern.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [OFFBEAT, "top", *arguments], stdin=its, stdout=its, stderr=its, env=os.environ | {"TERM": "xterm"}
    )
    os.close(its)
    raw, shown, is_told = b"", "", False
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        if not is_told and re.search(pattern, shown):
            process.send_signal(signal.SIGINT)
            is_told = True
        if select.select([ours], [], [], 0.1)[0]:
            try:
                raw += os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            shown = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", raw).decode(errors="replace")
    os.close(ours)
    if not is_told:
        process.kill()
    code = process.wait(20)
    assert is_told, shown
    assert code == 0
    screens = [plain(each) for each in raw.split(b"\x1b[H")]
    return [each for each in screens if re.search(pattern, each)][-1]


def plain(raw: bytes) -> str:
    """A screen without colours, as lines without spaces at their ends."""
    text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", raw).decode(errors="replace")
    return "\n".join(line.rstrip() for line in text.replace("\r", "").splitlines())


def shape(screen: str) -> list[str]:
    """The lines of a screen without what differs between runs: numbers, names of algorithms, and widths."""
    found = []
    for line in screen.strip().splitlines():
        text = re.sub(r"on \S+: .*", "on HOST: PROGRAM", line)
        text = re.sub(r"^(rank +)\d+ [-# ]+ [\d.]+%$", r"\1N BAR", text)
        text = re.sub(r"▲ |─+", "", text)
        text = re.sub(r"(arrival|nap|two|native|recursive)\w*", "ALGORITHM", text)
        text = re.sub(r"rank \d \(", "rank N (", re.sub(r"[\d.,]+(?=[ %)]|$)", "N", text))
        found.append(" ".join(text.split()))
    return [line for line in found if line]


def check_session(name: str, screen: str) -> None:
    """Compare a screen with a recorded one. RECORD=1 records it."""
    lines = screen.splitlines()
    assert len(lines) <= 24, screen
    assert max(map(len, lines)) <= 80, screen
    path = SESSIONS / f"{name}.txt"
    if os.environ.get("RECORD"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(screen.strip() + "\n")
    assert shape(screen) == shape(path.read_text()), screen


# -- offbeat top


@INSIDE_OFFBEAT
def test_the_view_of_a_balanced_job(mpi: Mpi, tmp_path: Path) -> None:
    page = tmp_path / "live.html"
    with job(mpi, "balanced", 60) as process:
        pids = ranks_of(process)
        shown = on_terminal(r"the last [2-9] s[^#]*arrival_", str(pids[0]), "-o", str(page))
    assert re.search(r"^2 of 2 ranks on \S+: ", shown, re.M), shown
    assert re.search(r"allreduce +[\d,]+ .* arrival_\w+", shown), shown
    assert "since the start" in shown
    check_session("balanced", shown)
    assert "has not come" not in shown
    assert "<dd>offbeat top was stopped, so this page no longer follows the job</dd>" in page.read_text()
    assert "refresh" not in page.read_text()


@INSIDE_OFFBEAT
def test_the_view_of_a_job_with_a_late_rank(mpi: Mpi) -> None:
    with job(mpi, "late", 60) as process:
        pids = ranks_of(process)
        shown = on_terminal(r"the last [2-9] s[^#]*rank 1 \(", str(pids[0]))
        found = subprocess.run(
            [OFFBEAT, "top", str(pids[1]), "--json", "--seconds", "2s"], capture_output=True, timeout=60
        )
    late = [float(share) for share in re.findall(r"allreduce .*rank 1 \(([\d.]+)%\)", shown)]
    assert late, shown
    assert max(late) > 80, shown
    check_session("late", shown)
    recent = json.loads(found.stdout)["recent"]
    assert recent["rows"][0]["latest_rank"] == 1, recent
    assert recent["rows"][0]["waiting_share"] > 0.2, recent
    assert recent["waiting_share_of_rank"]["0"] > 2 * recent["waiting_share_of_rank"]["1"], recent


@INSIDE_OFFBEAT
@pytest.mark.parametrize("kind", ["late", "begun"])
def test_the_place_in_which_a_rank_is_often_late(mpi: Mpi, kind: str) -> None:
    with job(mpi, kind, 40) as process:
        pids = ranks_of(process)
        found = subprocess.run(
            [OFFBEAT, "top", str(pids[0]), "--where", "1", "--seconds", "3s"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    first, *places = found.stdout.splitlines()
    assert re.fullmatch(r"rank 1: others waited for it in \d+ of \d+ looks over 3 s; it was in", first), found
    # The place that comes first is that of most looks.
    assert re.match(r" +\d+ x .*(now|solve|main)\(\) at live\.c:\d+", places[0]), found
    assert "liboffbeat" not in found.stdout


@INSIDE_OFFBEAT
def test_the_view_of_a_job_that_hangs(mpi: Mpi) -> None:
    with job(mpi, "hang", 30) as process:
        pids = ranks_of(process)
        shown = on_terminal("has not come to", str(pids[0]))
        where = subprocess.run(
            [OFFBEAT, "top", str(pids[0]), "--where", "1"], capture_output=True, text=True, timeout=60
        )
    assert re.search(r"rank 1 has not come to allreduce \d+ of MPI_COMM_WORLD; others wait", shown), shown
    check_session("hang", shown)
    frames = where.stdout.splitlines()
    assert frames[0] == "rank 1, the innermost frame first:", where
    assert re.match(r"  (now|solve)\(\) at live\.c:\d+$", frames[1 + ("libc" in frames[1])]), where
    assert any(re.match(r"  be_late\(\) at live\.c:\d+$", each) for each in frames), where


@INSIDE_OFFBEAT
def test_a_page_follows_a_job_until_it_ends(mpi: Mpi, tmp_path: Path) -> None:
    page = tmp_path / "live.html"
    seen: dict[str, str] = {}  # what the page said, by the time of the look
    with job(mpi, "late", 8) as process:
        pids = ranks_of(process)
        follower = subprocess.Popen(
            [OFFBEAT, "top", str(pids[0]), "-o", str(page)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        deadline = time.monotonic() + 60
        while follower.poll() is None and time.monotonic() < deadline:
            if page.exists():
                text = page.read_text()
                assert text.startswith("<!DOCTYPE html>")
                assert text.endswith("</html>\n")
                seen[re.findall(r"<dt>seen</dt><dd>([^<]+)", text)[0]] = text
            time.sleep(0.02)
        output, _ = process.communicate(timeout=60)
    told, _ = follower.communicate(timeout=60)
    assert (process.returncode, follower.returncode) == (0, 0), (output, told)
    assert told == f"{page} follows the job: open it in a browser\nthe job has ended\n"
    assert os.listdir(tmp_path) == ["live.html"]
    *earlier, last = [*seen.values(), page.read_text()]
    assert len(earlier) >= 3
    assert '<meta http-equiv="refresh" content="1">' in earlier[0]
    assert 'http-equiv="refresh"' not in last
    assert "<dt>state</dt><dd>the job has ended</dd>" in last
    assert re.search(r"<caption>the last \d+ s</caption>", last)
    assert re.search(r"<caption>since the start, \d+ s</caption>", last)
    late = re.findall(r">allreduce</td>.*?>rank 1 \((\d+)%\)<", last)
    assert late, last
    assert max(map(int, late)) > 80, last
    widths = dict(re.findall(r'<th scope="row">(\d)</th>.*?<i class="first" style="width:([\d.]+)%', last))
    assert float(widths["0"]) > 2 * float(widths["1"]), last


@ON_ONE_MPI
def test_one_look_as_a_page(mpi: Mpi, tmp_path: Path) -> None:
    def look(*options: str) -> subprocess.CompletedProcess[str]:
        command = [OFFBEAT, "top", str(pids[0]), "-o", "live.html", "--seconds", "1s", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    with job(mpi, "hang", 20) as process:
        pids = ranks_of(process)
        time.sleep(2)
        first, second, forced = look("--once"), look("--once"), look("--json", "--force")
        assert process.poll() is None
    assert (first.returncode, first.stdout.splitlines()[-1]) == (0, "Wrote live.html"), first
    assert second.stderr == "offbeat: live.html exists; add --force to overwrite it\n"
    assert json.loads(forced.stdout)["recent"]["stuck"], forced
    assert forced.stderr == "Wrote live.html\n"
    text = (tmp_path / "live.html").read_text()
    assert "refresh" not in text
    assert re.search(r"rank 1 has not come to allreduce \d+ of MPI_COMM_WORLD; others wait", text), text


@ON_ONE_MPI
def test_counters_can_be_off(mpi: Mpi) -> None:
    with job(mpi, "balanced", 20, OFFBEAT_COUNTERS="0") as process:
        time.sleep(2)
        assert process.poll() is None
        assert [each for each in counted() if each["program"].split()[0].endswith("/live")] == []


@ON_ONE_MPI
def test_the_report_says_where_time_went(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "live.c")
    result = run(mpi, 2, [program, "late", "2"]).succeeded()
    waiting = re.search(
        r"^offbeat: time in collectives: .* \(waiting .* ([\d.]+)%, comm", result.stderr, re.M
    )
    assert waiting is not None, str(result)
    assert float(waiting[1]) > 5, str(result)
    assert re.search(
        r"^offbeat: most of the waiting is for rank 1 of MPI_COMM_WORLD: \d+%", result.stderr, re.M
    )


# -- the line of the late rank


def where(mpi: Mpi, program: Path, *arguments: str, ranks: int = 2) -> str:
    result = run(mpi, ranks, [program, *arguments], environment=STALL).succeeded()
    found = re.search(WHERE, result.stderr, re.M)
    assert found is not None, str(result)
    return found[1]


@pytest.mark.in_turn(2, "flags", "mpi")
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("-g", "-O2"), r"(now|solve)\(\) at live\.c:\d+"),
        (("-g0", "-O3"), r"(now|solve)\(\) in live-\S+\+0x[0-9a-f]+"),
        (("-g0", "-O2", "-s"), r"live-\S+\+0x[0-9a-f]+"),
    ],
)
def test_the_line_of_a_late_c_program(mpi: Mpi, flags: tuple[str, ...], expected: str) -> None:
    name = "live-" + "".join(flags).strip("-")
    program = compile_program(mpi, PROGRAMS / "live.c", *flags, name=name)
    assert re.fullmatch(expected, where(mpi, program, "hang", "3"))


@INSIDE_OFFBEAT
def test_the_line_of_a_late_cpp_program(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "late_solver.cpp", "-g", "-O2", name="late_solver_cpp")
    found = where(mpi, program)
    assert re.search(r"physics::Solver::relax\(double\) at late_solver\.cpp:(9|10|11)$", found), found


@on_mpis(lambda mpi: mpi.kind == "impi")
def test_the_line_of_a_late_fortran_program(mpi: Mpi) -> None:
    program = compile_program(
        mpi,
        PROGRAMS / "late_solver.f90",
        "-g",
        "-O2",
        compiler=f"{mpi.program('mpif90')} -fc=gfortran",
        name="late_solver_fortran",
    )
    found = where(mpi, program)
    assert re.fullmatch(r"(relax|main)\(\) at late_solver\.f90:2[1-5]", found), found


@INSIDE_OFFBEAT
def test_the_line_of_a_late_python_program(mpi: Mpi) -> None:
    assert mpi.python is not None
    result = run(mpi, 2, [mpi.python, PROGRAMS / "late_solver.py"], environment=STALL).succeeded()
    found = re.search(WHERE, result.stderr, re.M)
    assert found is not None, str(result)
    assert re.fullmatch(r"relax\(\) at late_solver\.py:1[1-3]", found[1]), found[1]


@INSIDE_OFFBEAT
def test_a_rank_that_waits_in_offbeat_is_in_no_exported_function(mpi: Mpi) -> None:
    ask = "import sys; from offbeat import _core\nfor _ in range(100): print(_core.where(int(sys.argv[1])))"
    with job(mpi, "hang", 6) as process:
        pid = ranks_of(process)[0]
        time.sleep(0.5)
        answers = subprocess.run(
            [VENV / "bin" / "python", "-c", ask, str(pid)], capture_output=True, text=True, timeout=100
        )
    assert len(answers.stdout.splitlines()) == 100, answers
    assert "offbeat_" not in answers.stdout, answers.stdout


@ON_ONE_MPI
def test_a_sleep_is_not_cut_short(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "live.c")
    assert re.fullmatch(
        r"\w*sleep\(\) called by be_late\(\) at live\.c:81", where(mpi, program, "asleep", "3")
    )


@INSIDE_OFFBEAT
def test_a_rank_that_waits_for_a_message_names_its_caller(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "live.c")
    found = where(mpi, program, "receives", "3", ranks=3)
    assert re.search(r"MPI_Recv\(\) called by be_late\(\) at live\.c:8\d$", found), found


@ON_ONE_MPI
def test_a_program_with_handlers_for_all_signals_gets_none(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "live.c")
    result = run(mpi, 2, [program, "handled", "3"], environment=STALL).succeeded()
    assert re.search(
        r"^offbeat: allreduce number \d+ on .* for rank 1 on \S+ \(ranks of [^)]*\)$", result.stderr, re.M
    )


@INSIDE_OFFBEAT
def test_questions_disturb_no_busy_rank(mpi: Mpi) -> None:
    """Threads that allocate, children, and signals go on in the rank that is asked again and again."""
    ask = "import sys; from offbeat import _core\nfor _ in range(40): print(_core.where(int(sys.argv[1])))"
    with job(mpi, "busy", 8) as process:
        pids = ranks_of(process)
        time.sleep(1)
        answers = subprocess.run(
            [VENV / "bin" / "python", "-c", ask, str(pids[1])], capture_output=True, text=True, timeout=100
        )
        output, _ = process.communicate(timeout=100)
    found = answers.stdout.splitlines()
    assert len(found) == 40, answers
    in_program = ["live.c:" in each or "libc" in each for each in found]
    in_system = ["the system call " in each for each in found]  # it waits for its children
    assert sum(in_program) >= 10, found
    assert sum(in_program) + sum(in_system) >= 30, found
    assert process.returncode == 0, output
