"""Ports for servers that are stopped and started again on the same address."""

from __future__ import annotations

import errno
import random
import socket

# Below the ports that systems give to outgoing connections (Linux from 32768, macOS from 49152): a
# client that keeps trying to reach a broker that is down would one day be given the very port that
# it tries, be connected to itself, and keep the broker from coming back.
_PORTS = range(20_000, 30_000)
_PORT_TRIES_MAX = 200
# Not the shared generator: two test runs with one seed would try the same ports.
_RANDOM = random.SystemRandom()
# Servers listen some time after their ports are chosen: the controller of a cluster was once given
# the port of one of its brokers.
_chosen: set[int] = set()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on, and that no outgoing connection will be given.

    This process is given each port once.
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
    """Whether somebody listens on the port at any address of the host that this machine has."""
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        with socket.socket(family, kind, protocol) as probe:
            # As Kafka does: a port in TIME_WAIT can be listened on.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:
                    return True
    return False
