# SPDX-License-Identifier: BSD-3-Clause
"""Virtual hosts on one machine: each has a network device, name, processes and shared memory of its own.

All of a cluster is below the process of its switch (`switch.cpp`): that is the first of a process namespace,
and ends when the pipe from this Python does. So whatever becomes of this Python, no process, device or mount
is left.

The namespaces of the switch are those of host `login`, from which jobs are started. Below them are those of
the hosts `n0`, `n1`, ..., which share the disks of the machine and nothing else. `/run/cluster` is shared by
all of them and has the process number of each, as `login` sees it; each has a `/run/host` of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build"  # not from harness.py: ./test imports this before there is a pytest
SSH = HERE / "ssh"
LOGIN = "login"
DEVICE = "eth0"
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")

# What runs in the namespaces of the switch before it takes the place of this shell.
MAKE_LOGIN = """
set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mount -t sysfs sysfs /sys
mkdir /run/cluster /run/host
hostname login
printf %s "$HOSTS" >/run/cluster/addresses
mount --bind /run/cluster/addresses /etc/hosts
ip link set lo up
exec "$@"
"""

# A host is a process that does nothing; when it ends, so do all others of the host. Its number is read from
# the /proc of `login`, before it has its own. SIGCHLD is ignored, or orphans would stay when they have ended.
MAKE_HOST = """
set -e
read number rest </proc/self/stat
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run/host
hostname "$1"
ip link set lo up
echo "$number" >"/run/cluster/$1"
echo made
trap '' CHLD
exec sleep infinity
"""

# TCP as on a network that loses nothing: it starts with a large window and keeps it.
CONNECT = """
set -e
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv4.tcp_congestion_control=reno \\
  net.ipv4.tcp_slow_start_after_idle=0 net.ipv4.tcp_no_metrics_save=1 net.ipv4.tcp_early_retrans=0
ip link set "$1" name eth0
ip link set eth0 mtu 1500 txqueuelen 4000 gso_max_size 32768
ip addr add "$2/24" dev eth0
ip link set eth0 up
ip route change 10.77.0.0/24 dev eth0 src "$2" initcwnd 100 initrwnd 200 cwnd lock 200
"""


class HostsError(Exception):
    """What keeps this machine from having virtual hosts, in one line."""


def obstacle() -> str | None:
    """Why there can be no virtual hosts here; None where there can."""
    if os.geteuid() != 0:
        return "virtual hosts need root"
    try:
        with open("/dev/net/tun", "r+b", buffering=0):
            pass
    except OSError:
        return "virtual hosts need /dev/net/tun"
    try:
        namespaces = ["--net", "--mount", "--pid", "--fork", "true"]
        tried = subprocess.run(["unshare", *namespaces], capture_output=True)
    except FileNotFoundError:
        return "virtual hosts need unshare (Debian: util-linux)"
    return None if tried.returncode == 0 else "virtual hosts need namespaces: unshare fails"


def schedule_without_sessions() -> None:
    """Until this Python ends, let the kernel give its time to processes, not to sessions.

    Linux 6.18 gives a session in which some processes run all the time and others take short naps, as ranks
    do, nearly all the time of a core. Other sessions and the kernel's own threads then wait for up to
    minutes.
    """
    with contextlib.suppress(OSError):  # a kernel without sessions to schedule
        if AUTOGROUP.read_text().strip() == "1":
            AUTOGROUP.write_text("0")
            atexit.register(AUTOGROUP.write_text, "1")
            print("kernel.sched_autogroup_enabled is 0 on this machine until this ends", file=sys.stderr)


def address(number: int) -> str:
    return f"10.77.0.{number + 1}"


def compile_beside(made: Path, command: list[str]) -> None:
    """Compile; an interrupted compiler leaves nothing that looks finished."""
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        unfinished = Path(folder) / made.name
        subprocess.run([*command, "-o", str(unfinished)], check=True, timeout=120)
        unfinished.rename(made)


def compiled_switch() -> Path:
    """The switch, compiled where its source has changed."""
    source, program = HERE / "switch.cpp", BUILD / "tests" / "cluster" / "switch"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        compile_beside(program, ["g++", "-std=c++20", "-O2", "-Wall", "-Wextra", str(source)])
    return program


class Cluster:
    """`login` and a number of hosts, while the context lasts."""

    def __init__(self, hosts: int, *, seconds_apart: int = 0) -> None:
        """The clocks of two neighbours are `seconds_apart`."""
        self.names = [f"n{number}" for number in range(hosts)]
        self._seconds_apart = seconds_apart
        self._switch: subprocess.Popen[str] | None = None
        self._made: dict[str, subprocess.Popen[str]] = {}
        self._boot = ""

    def __enter__(self) -> Cluster:
        if why := obstacle():
            raise HostsError(why)
        schedule_without_sessions()
        namespaces = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        names = [*self.names, LOGIN]
        table = "".join(f"{address(number)} {name}\n" for number, name in enumerate(names))
        self._switch = subprocess.Popen(
            ["unshare", *namespaces, "sh", "-c", MAKE_LOGIN, "sh", str(compiled_switch()), str(len(names))],
            env=os.environ | {"HOSTS": f"127.0.0.1 localhost\n{table}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _expect(self._switch, "ready")
            self._login_pid = _only_child(self._switch.pid)
            for name in self.names:
                self.make(name)
            self._connect(LOGIN, len(self.names))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Close the pipe; the switch ends, and everything with it."""
        assert self._switch is not None
        assert self._switch.stdin is not None
        self._switch.stdin.close()
        for process in [self._switch, *self._made.values()]:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()

    def make(self, name: str) -> None:
        """Switch a host on, at first or after `kill`."""
        number = self.names.index(name)
        namespaces = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child"]
        if self._seconds_apart:
            namespaces += ["--time", "--monotonic", str(number * self._seconds_apart)]
        self._made[name] = subprocess.Popen(
            [*self.enter(), "unshare", *namespaces, "sh", "-c", MAKE_HOST, "sh", name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        _expect(self._made[name], "made")
        self._connect(name, number)
        self._run_boot(name)

    def alive(self) -> list[str]:
        return list(self._made)

    def at_boot(self, script: str) -> None:
        """Run a script on each host now, and when it is made or emptied again."""
        self._boot = script
        for name in self._made:
            self._run_boot(name)

    def _run_boot(self, name: str) -> None:
        if self._boot:
            self.run(self._boot, host=name)

    def _connect(self, name: str, number: int) -> None:
        device = f"port{number}"
        if name != LOGIN:
            wait = f"for k in $(seq 100); do [ -e /sys/class/net/{device} ] && break; sleep 0.05; done"
            self.run(f'{wait}; ip link set {device} netns "$(cat /run/cluster/{name})"')
        self.run(CONNECT, device, address(number), host=name)

    def kill(self, name: str, *, silently: bool = True) -> None:
        """End all that runs on a host; silently: it is cut off first, so that no connection is closed."""
        process = self._made.pop(name)
        if silently:
            # Only down, the device would stay for minutes, with the sockets of the dead host.
            self.run(f"ip link delete {DEVICE}", host=name)
        # The shell that kills has once not come back though the host was dead, which wait() sees for itself.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.run(f'kill -KILL "$(cat /run/cluster/{name})"', timeout=15)
        process.wait(30)
        if process.stdout:
            process.stdout.close()

    def shape(self, megabits: float, microseconds: float) -> None:
        """So many Mbit/s through each port and direction, 0 for no limit, and so long from host to host."""
        assert self._switch is not None
        assert self._switch.stdin is not None
        self._switch.stdin.write(f"{megabits} {microseconds}\n")
        self._switch.stdin.flush()

    def enter(self, host: str = LOGIN) -> list[str]:
        """What to put in front of a command that is to run on a host."""
        inside = ["nsenter", "--target", str(self._login_pid), "--net", "--uts", "--ipc", "--mount", "--pid"]
        here = [*inside, "env", "--chdir", os.getcwd()]
        return here if host == LOGIN else [*here, str(SSH), "--keep-environment", host]

    def run(self, script: str, *arguments: str, host: str = LOGIN, timeout: float = 30) -> str:
        """Run a shell script on a host; what it prints."""
        command = [*self.enter(host), "sh", "-c", script, "sh", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        if done.returncode != 0:
            raise HostsError(f"{host}: {shlex.join(command)}: exit status {done.returncode}\n{done.stderr}")
        return done.stdout

    def file(self, path: str | Path) -> Path:
        """Where this Python finds a file of `login`, such as those in /run/cluster."""
        return Path(f"/proc/{self._login_pid}/root") / str(path).lstrip("/")

    def empty(self) -> None:
        """End whatever runs on the hosts."""
        for name in self._made:
            self.run("kill -KILL -1 || true", host=name)
            self._run_boot(name)

    def processes(self, program: str, patience: float = 10) -> list[str]:
        """The processes of a program on all hosts that are still there after ``patience`` seconds."""
        deadline = time.monotonic() + patience
        while True:
            found = [f"{name}: {line}" for name in self._made for line in self._running(name, program)]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.2)

    def wait_for(self, host: str, program: str, patience: float = 30) -> bool:
        """Wait until a program runs on a host; whether it does."""
        deadline = time.monotonic() + patience
        while not (found := self._running(host, program)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return bool(found)

    def _running(self, host: str, program: str) -> list[str]:
        # A shell or a launcher has the program further back on its command line.
        return self.run(f"pgrep --list-full --full '^{program}' || true", host=host).splitlines()


def _expect(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if line != word:
        raise HostsError(f"no virtual host: {process.args!r} said {line!r}")


def _only_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def parse_shape(text: str) -> list[int]:
    """The ranks of each host: 4x2 is four hosts of two, 3+2+1 three hosts."""
    if "x" in text:
        hosts, _, ranks = text.partition("x")
        return [int(ranks)] * int(hosts)
    return [int(part) for part in text.split("+")]
