"""Chooses ports for servers that are stopped and started again on the same address."""

from __future__ import annotations

import errno
import random
import socket

# Below the ports that systems give to outgoing connections (Linux from 32768, macOS from 49152).
# Otherwise a client that keeps trying to reach a broker that is down would at some time get the
# same port for its own end, be connected to itself, and prevent the broker's restart.
_PORTS = range(20_000, 30_000)
_PORT_TRIES_MAX = 200
# Not the shared generator: two test runs with one seed would try the same ports.
_RANDOM = random.SystemRandom()
# Servers listen some time after their ports are chosen. Without this set, the controller of a
# cluster once got the port of one of its brokers.
_chosen: set[int] = set()


def free_port() -> int:
    """Return a port of 127.0.0.1 without a listener, which no outgoing connection can get.

    This process gets each port only once.
    """
    for _ in range(_PORT_TRIES_MAX):
        port = _RANDOM.choice(_PORTS)
        if port in _chosen:
            continue
        if not is_taken("127.0.0.1", port):
            _chosen.add(port)
            return port
    raise OSError(f"no free port found in {_PORTS.start} to {_PORTS.stop - 1}")


def is_taken(host: str, port: int) -> bool:
    """Return whether a process listens on the port at any address of ``host`` on this machine."""
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        with socket.socket(family, kind, protocol) as probe:
            # As Kafka does, so that a port in TIME_WAIT counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:
                    return True
    return False
