# SPDX-License-Identifier: BSD-3-Clause
"""The virtual hosts themselves: what is apart is apart, and the network is as slow as it is told to be."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import descendants
from hosts import AUTOGROUP, Cluster, schedule_without_sessions

HERE = Path(__file__).resolve().parent

# Two programs for two hosts: one takes all that comes and then answers, the other sends a number of bytes.
TAKE = """
import socket, threading
def serve(connection):
    while connection.recv(1 << 20): pass
    connection.sendall(b"!")
listening = socket.create_server(("", 7000))
print("listening", flush=True)
while True: threading.Thread(target=serve, args=listening.accept()[:1], daemon=True).start()
"""
SEND = """
import socket, sys, time
host, size = sys.argv[1], int(sys.argv[2])
start = time.monotonic()
with socket.create_connection((host, 7000)) as connection:
    connection.sendall(bytes(size))
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b"!"
print(time.monotonic() - start)
"""


def test_a_host_has_its_own_name_processes_memory_and_address(cluster: Cluster) -> None:
    cluster.run("echo here >/dev/shm/mark; sleep 1000 </dev/null >/dev/null 2>&1 &", host="n1")
    for name in ("n0", "n1"):
        seen = cluster.run("hostname; ls /dev/shm; ip -brief addr show eth0; pgrep sleep | wc -l", host=name)
        assert name in seen.split()
        assert ("mark" in seen) == (name == "n1")
        assert f"10.77.0.{int(name[1:]) + 1}/24" in seen
        # Beside the one above, each has the process that holds it.
        assert seen.split()[-1] == ("2" if name == "n1" else "1")
    cluster.run("rm /dev/shm/mark; pkill -f '[s]leep 1000'", host="n1")


def seconds_to_send(cluster: Cluster, sender: str, size: int) -> subprocess.Popen[str]:
    command = [*cluster.enter(sender), sys.executable, "-c", SEND, "n0", str(size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_rate_and_delay() -> None:
    size, megabits, delay_us = 2_000_000, 100, 20_000
    with contextlib.ExitStack() as ending, Cluster(3) as cluster:
        command = [*cluster.enter("n0"), sys.executable, "-c", TAKE]
        taking = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        ending.callback(taking.communicate)
        assert taking.stdout is not None
        assert taking.stdout.readline() == "listening\n"

        def took(*senders: str, size: int) -> float:
            sending = [seconds_to_send(cluster, name, size) for name in senders]
            return max(float(one.communicate(timeout=60)[0]) for one in sending)

        unlimited = took("n1", size=size)
        cluster.shape(megabits, 0)
        least = size * 8 / megabits / 1e6
        assert unlimited < least < took("n1", size=size) < 3 * least
        # Two hosts that send to one share the way into it.
        assert took("n1", "n2", size=size) > 1.6 * least  # one may begin a little later
        # Once forth and back to connect, once for the byte and its answer.
        cluster.shape(0, delay_us)
        least = 4 * delay_us / 1e6
        assert least < took("n1", size=1) < 3 * least


def environment() -> dict[str, str]:
    """For a Python that imports `hosts`."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (HERE, HERE.parent / "mpi")))}


def test_nothing_is_left_of_a_killed_cluster() -> None:
    schedule_without_sessions()  # and it is this Python that puts it back
    script = "import hosts, time; hosts.Cluster(2).__enter__(); print('made', flush=True); time.sleep(100)"
    owner = subprocess.Popen(
        [sys.executable, "-c", script], env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "made\n"
    started = descendants(owner.pid)
    assert len(started) > 5, started
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    deadline = time.monotonic() + 10
    while left := [pid for pid in started if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_the_kernel_does_not_schedule_by_session_while_there_are_hosts(cluster: Cluster) -> None:
    assert not AUTOGROUP.exists() or AUTOGROUP.read_text() == "0\n"


@pytest.mark.anywhere
@pytest.mark.parametrize("found", ["1", "0"])
def test_how_the_kernel_schedules_is_put_back(tmp_path: Path, found: str) -> None:
    setting = tmp_path / "sched_autogroup_enabled"
    setting.write_text(found)
    script = f"""
import hosts
hosts.AUTOGROUP = hosts.Path({str(setting)!r})
hosts.schedule_without_sessions()
print(hosts.AUTOGROUP.read_text())
"""
    ran = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)
    said = "kernel.sched_autogroup_enabled is 0 on this machine until this ends\n"
    assert (ran.stdout, ran.stderr) == ("0\n", said if found == "1" else "")
    assert setting.read_text() == found


def test_a_host_comes_back(three: Cluster) -> None:
    three.kill("n1")
    with pytest.raises(Exception, match="n1"):
        three.run("true", host="n1")
    three.make("n1")
    assert three.run("hostname", host="n1") == "n1\n"
