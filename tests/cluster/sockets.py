#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Half a round trip through plain TCP sockets, in microseconds: the lower quartile.

sockets.py ADDRESS                       answer on this address, for one peer
sockets.py --ask ADDRESS BYTES ROUNDS    print half of a round trip
"""

from __future__ import annotations

import socket
import sys
import time

PORT = 5555


def receive(peer: socket.socket, size: int) -> bytes:
    return peer.recv(size, socket.MSG_WAITALL) if size else b""


def answer(address: str) -> None:
    with socket.create_server((address, PORT)) as server:
        peer, _ = server.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while head := receive(peer, 4):
            peer.sendall(head + receive(peer, int.from_bytes(head, "big")))


def connect(address: str) -> socket.socket:
    for _ in range(50):
        try:
            return socket.create_connection((address, PORT))
        except ConnectionRefusedError:  # the peer is about to start
            time.sleep(0.1)
    sys.exit(f"{address} does not answer")


def ask(address: str, size: int, rounds: int) -> float:
    """Half of a round trip in microseconds: the lower quartile, as offbeat calibrate takes it."""
    peer = connect(address)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    message = size.to_bytes(4, "big") + bytes(size)
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        peer.sendall(message)
        receive(peer, 4 + size)
        times.append(time.perf_counter() - begin)
    return sorted(times)[rounds // 4] / 2 * 1e6


if __name__ == "__main__":
    if sys.argv[1] == "--ask":
        print(ask(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    else:
        answer(sys.argv[1])
