# SPDX-License-Identifier: BSD-3-Clause
"""offbeat top: look at a job while it runs."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from offbeat import _core
from offbeat.commands.command_line import Argument, Command, Option
from offbeat.commands.measuring import ended_by_signals
from offbeat.commands.options import AsJson
from offbeat.commands.output import checked_output, new_console, print_json, warn
from offbeat.errors import FAILED, CommandError
from offbeat.live import activity, jobs, layout, places
from offbeat.units import format_count, parse_duration_s

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

    from offbeat.commands.top_page import Page

_SSH = ("ssh", "-o", "BatchMode=yes")
_TOP = (sys.executable, "-m", "offbeat", "top")
_HOST_LIMIT_S = 30
_LOOK_BACK = "10s"
_MOST_PLACES = 8
_LEAST_SHARE = 0.05  # of the time of all ranks, for which waiting gets a hint
_ANY = 1 << 20  # rows for a view that does not end with the screen
_ENDED = "the job has ended"


def top(
    job: Annotated[
        str | None,
        Argument(metavar="[JOB]", help="The job: its name in the list, or a number of one of its processes."),
    ] = None,
    once: Annotated[bool, Option("--once", help="Look once, for --seconds, and end.")] = False,
    seconds: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="How far the first table looks back, and how long --once looks. Default: 10s. With --where: "
            "look for this long.",
        ),
    ] = None,
    hosts: Annotated[
        str | None,
        Option(metavar="HOST,HOST", help="Look at the ranks on these hosts, by ssh, instead of this one."),
    ] = None,
    as_json: AsJson = False,
    output: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            metavar="PAGE.html",
            help="Write one HTML page. Unless --once or --json is given, it follows the job: an open browser "
            "shows each look.",
        ),
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite PAGE.html.")] = False,
    where: Annotated[
        int | None,
        Option(
            metavar="RANK",
            help="Instead: print the stack of this rank's program; with --seconds, where it mostly is when "
            "others wait for it.",
        ),
    ] = None,
    raw: Annotated[
        bool, Option("--raw", help="Print the counters themselves, as --hosts reads them.")
    ] = False,
) -> None:
    """Look at a running job: how long ranks wait, and for whom.

    The job runs under the preload, in the usual way. Nothing has to be started again. Without JOB and with
    several jobs of this user, this prints the list of jobs. The view lasts until the job ends or you press
    Ctrl-C.

    offbeat top
    offbeat top --once --seconds 2s
    offbeat top 1a2b3c4d --json
    offbeat top -o live.html
    offbeat top --where 3 --seconds 10s
    offbeat top --hosts n1,n2
    """
    if raw:
        print(json.dumps([layout.to_json(each) for each in jobs.read(_names()).processes]))
        return
    if where is not None and output is not None:
        raise CommandError("--where writes no page: leave -o out")
    checked_output(output, force=force)
    look_back_s = parse_duration_s(seconds or _LOOK_BACK)
    first = _look(hosts)
    found = jobs.jobs_of(first.processes)
    chosen = _chosen(found, job)
    if chosen is None:
        if where is not None or output is not None:
            option = "-o" if where is None else "--where"
            raise CommandError(f"{option}: several jobs run here; offbeat top lists them, so name one")
        _print_list(found, as_json=as_json)
        return
    if where is not None:
        _say_where(chosen, where, first, seconds)
    elif once or as_json or (output is None and not sys.stdout.isatty()):
        time.sleep(look_back_s)
        later = _job_at(_look(hosts), chosen.name)
        if later is None:
            raise CommandError(_ENDED, FAILED)
        recent = activity.between(chosen.processes, later.processes)
        _print(later, recent, job, hosts, as_json=as_json)
        if output is not None:
            _put(_new_page(output), later, recent, hosts)
            print(f"Wrote {output}", file=sys.stderr if as_json else sys.stdout)
    else:
        _watch(chosen, look_back_s, hosts, output)


def _names() -> list[str]:
    return [each["name"] for each in _core.collectives()]


def _look(hosts: str | None) -> jobs.Snapshot:
    if hosts is None:
        return jobs.read(_names())
    started = [
        (host, subprocess.Popen([*_way_to(host), *_TOP, "--raw"], stdout=subprocess.PIPE, text=True))
        for host in hosts.split(",")
    ]
    snapshot = jobs.Snapshot(time.monotonic_ns())
    for host, process in started:
        try:
            text, _ = process.communicate(timeout=_HOST_LIMIT_S)
            found = [layout.from_json(each) for each in json.loads(text)]
        except (subprocess.TimeoutExpired, ValueError):
            process.kill()
            raise CommandError(f"--hosts: no answer from {host}", FAILED) from None
        snapshot.processes += found
        snapshot.reached_by |= {each.key: host for each in found}
    return snapshot


def _way_to(host: str) -> Sequence[str]:
    if shutil.which(_SSH[0]) is None:
        raise CommandError("--hosts: there is no ssh here")
    return (*_SSH, host)


def _chosen(found: Sequence[jobs.Job], wanted: str | None) -> jobs.Job | None:
    """The job to look at, or None if there are several and none is named."""
    if wanted is not None:
        for each in found:
            if each.name == wanted or any(str(process.pid) == wanted for process in each.processes):
                return each
        raise CommandError(f"no job {wanted}; offbeat top lists the jobs")
    if not found:
        why = ""
        if jobs.is_any_traced():
            why = (
                "; a job under `offbeat trace` has none, because your MPI runs its collectives: start it "
                "with `offbeat run`, or trace with --algorithm"
            )
        raise CommandError(f"no job of yours with offbeat's counters runs here{why}", FAILED)
    return found[0] if len(found) == 1 else None


def _print_list(found: Sequence[jobs.Job], *, as_json: bool) -> None:
    if as_json:
        listed = [
            {"job": each.name, "ranks_here": len(each.processes), "program": each.program} for each in found
        ]
        print_json({"jobs": listed})
        return
    for each in found:
        print(f"{each.name}  {format_count(len(each.processes), 'rank')} here  {each.program}")
    print("Look at one of them: offbeat top JOB", file=sys.stderr)


def _say_where(job: jobs.Job, rank: int, look: jobs.Snapshot, seconds: str | None) -> None:
    found = next((each for each in job.processes if each.rank == rank), None)
    if found is None:
        raise CommandError(f"--where {rank}: this job has no such rank on this node")
    if seconds is not None:
        _say_places(job, found, parse_duration_s(seconds), look.reached_by.get(found.key))
        return
    if host := look.reached_by.get(found.key):
        there = [*_way_to(host), *_TOP, str(found.pid), "--where", str(rank)]
        try:
            subprocess.run(there, timeout=_HOST_LIMIT_S, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            raise CommandError(f"--where {rank}: no answer from {host}", FAILED) from None
        return
    frames = _core.stack(found.pid)
    if not frames:
        raise CommandError(
            f"rank {rank} does not answer: OFFBEAT_COUNTERS=0 or OFFBEAT_STALL_S=0 is set, or it blocks all "
            "signals",
            FAILED,
        )
    print(f"rank {rank}, the innermost frame first:")
    for frame in frames:
        print(f"  {frame}")


def _say_places(job: jobs.Job, rank: layout.Process, seconds: float, host: str | None) -> None:
    if host is not None:
        there = [*_TOP, str(rank.pid), "--where", str(rank.rank), "--seconds", f"{seconds:f}s"]
        try:
            subprocess.run([*_way_to(host), *there], timeout=_HOST_LIMIT_S + seconds, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            raise CommandError(f"--where {rank.rank}: no answer from {host}", FAILED) from None
        return
    names = _names()
    pids = {each.pid for each in job.processes}
    files = [each for each in jobs.counter_files() if each[0] in pids]
    found = places.watch(rank.pid, seconds, lambda: jobs.read(names, files).processes, _core.stack)
    looks = format_count(found.looks, "look")
    looks += " until the job ended" if found.has_ended else f" over {seconds:g} s"
    if not found.awaited:
        print(f"rank {rank.rank}: no rank of this node was seen to wait for it ({looks})")
        return
    print(f"rank {rank.rank}: others waited for it in {found.awaited} of {looks}; it was in")
    for text, count in found.texts.most_common(_MOST_PLACES):
        print(f"  {count:>4} x {text}")


def _job_at(snapshot: jobs.Snapshot, name: str) -> jobs.Job | None:
    return next((each for each in jobs.jobs_of(snapshot.processes) if each.name == name), None)


def _title(job: jobs.Job) -> str:
    return f"{_ranks(job)}: {job.program}"


def _ranks(job: jobs.Job) -> str:
    first = job.processes[0]
    shown = {each.host for each in job.processes}
    where = first.host if len(shown) == 1 else format_count(len(shown), "host")
    return f"{len(job.processes)} of {format_count(first.ranks, 'rank')} on {where}"


def _view(job: jobs.Job, recent: activity.Activity | None, console: Console, height: int = _ANY) -> Group:
    from offbeat.reports import live_sheets

    total = activity.between(None, job.processes)
    return live_sheets.render(_title(job), recent, total, console.width, height)


def _latest_rank(recent: activity.Activity) -> int | None:
    """The rank for which others wait most, if that matters and no line says where they wait."""
    if recent.stuck or not recent.rows:
        return None
    costliest = recent.rows[0]
    late = None if costliest.is_part else costliest.latest()
    matters = costliest.waiting_ns >= _LEAST_SHARE * costliest.elapsed_ns
    return late[0] if late is not None and matters else None


def _print(
    job: jobs.Job, recent: activity.Activity, name: str | None, hosts: str | None, *, as_json: bool
) -> None:
    if as_json:
        total = activity.between(None, job.processes)
        print_json(
            {
                "job": job.name,
                "program": job.program,
                "ranks": job.processes[0].ranks,
                "recent": activity.to_json(recent),
                "total": activity.to_json(total),
            }
        )
    else:
        console = new_console()
        console.print(_view(job, recent, console))
        late = _latest_rank(recent)
        if late is not None:
            there = ("" if name is None else f" {name}") + ("" if hosts is None else f" --hosts {hosts}")
            warn(f"where rank {late} is while others wait: offbeat top{there} --where {late} --seconds 10s")


def _recent(past: Sequence[jobs.Job], now: jobs.Job) -> activity.Activity:
    looks = [each.processes for each in past]
    return activity.between(looks[0], now.processes, looks)


def _new_page(path: Path) -> Page:
    from offbeat.commands.top_page import Page

    return Page(path)


def _put(
    page: Page,
    job: jobs.Job,
    recent: activity.Activity | None,
    hosts: str | None,
    every_s: float | None = None,
) -> None:
    late = _latest_rank(recent) if recent is not None else None
    ask = None
    if late is not None:
        there = "" if hosts is None else f" --hosts {hosts}"
        command = f"offbeat top {job.name}{there} --where {late} --seconds 10s"
        ask = (f"Where rank {late} is while others wait for it:", command)
    page.show(job, recent, _ranks(job), ask, reload_s=every_s)


def _watch(job: jobs.Job, look_back_s: float, hosts: str | None, output: Path | None) -> None:
    """Show each look until the job ends: in a terminal, on a page, or on both."""
    pause_s = 1.0 if hosts is None else 3.0
    past: deque[jobs.Job] = deque([job], maxlen=max(2, round(look_back_s / pause_s) + 1))
    page = _new_page(output) if output is not None else None
    state = "offbeat top was stopped, so this page no longer follows the job"
    if page is not None:
        _put(page, job, None, hosts, pause_s)
        print(f"{output} follows the job: open it in a browser", flush=True)
    try:
        with ended_by_signals(), _screen(job) as view:
            while (now := _job_at(_look(hosts), job.name)) is not None:
                recent = _recent(past, now)
                if view is not None:
                    view.update(_view(now, recent, view.console, view.console.height), refresh=True)
                if page is not None:
                    _put(page, now, recent, hosts, pause_s)
                past.append(now)
                time.sleep(pause_s)
        state = _ENDED
        print(_ENDED)
    except KeyboardInterrupt:
        return
    finally:
        if page is not None:
            page.end(state)


def _screen(job: jobs.Job) -> contextlib.AbstractContextManager[Live | None]:
    if not sys.stdout.isatty():
        return contextlib.nullcontext()
    from rich.live import Live

    console = new_console()
    view = _view(job, None, console, console.height)
    return Live(view, console=console, screen=True, auto_refresh=False)


COMMAND = Command(top)
