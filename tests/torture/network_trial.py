"""Tries each fault of the network on one connection; run in an enclosure by ``test_network.py``."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial

from tests.rigs.brokers.request_proxy import Request, RequestProxy
from tests.rigs.network_namespaces import enter_network
from tests.torture.enclosure import furnish
from tests.torture.network import EVERYBODY, Network, Node, Rules, cut, loss, loss_of_large

PORT = 7_000
SECONDS = 1.5
LATE_SECONDS = 15.0  # TCP sends dropped packets again, each time after a longer pause
DATAGRAMS = 100
SMALL, LARGE = b"x" * 100, b"y" * 20_000
ECHO = """
import socketserver, sys, threading
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
class Datagram(socketserver.BaseRequestHandler):
    def handle(self):
        data, line = self.request
        line.sendto(data, self.client_address)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
address = sys.argv[1], int(sys.argv[2])
datagrams = socketserver.UDPServer(address, Datagram)
threading.Thread(target=datagrams.serve_forever, daemon=True).start()
with Server(address, Echo) as server:
    server.serve_forever()
"""


class Line:
    """A connection to the echo server."""

    def __init__(self, node: Node, seconds: float = SECONDS) -> None:
        self._socket = socket.create_connection((node.address, PORT), seconds)

    def echoes(self, data: bytes, seconds: float = SECONDS) -> bool:
        """Return whether data comes back in time; other data may still come back later."""
        deadline = time.monotonic() + seconds
        left = len(data)
        with suppress(TimeoutError):
            self._wait_until(deadline)
            self._socket.sendall(data)
            while left and (got := self._socket.recv(65536)):
                left -= len(got)
                self._wait_until(deadline)
        return not left

    def is_cut_by(self, data: bytes) -> bool:
        """Return whether the other end closes or resets the connection instead of an echo."""
        deadline = time.monotonic() + LATE_SECONDS
        with suppress(ConnectionError):
            return not self.echoes(data, LATE_SECONDS) and time.monotonic() < deadline
        return True

    def _wait_until(self, deadline: float) -> None:
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))


def connects(node: Node, seconds: float = SECONDS) -> bool:
    with suppress(OSError):
        Line(node, seconds)
        return True
    return False


def datagrams_back(node: Node) -> int:
    """Return how many of ``DATAGRAMS`` come back; TCP would send lost packets again."""
    back = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line, suppress(TimeoutError):
        line.settimeout(SECONDS)
        for _ in range(DATAGRAMS):
            line.sendto(SMALL, (node.address, PORT))
        while back < DATAGRAMS:
            line.recv(len(SMALL))
            back += 1
    return back


def try_all(network: Network, node: Node) -> None:
    run = [network.run_node]
    line = Line(node, LATE_SECONDS)
    assert line.echoes(LARGE, LATE_SECONDS)

    with network.obstructed(node, cut(run)):
        assert not line.echoes(SMALL)
        assert not connects(node)
    assert line.echoes(b"", LATE_SECONDS)
    assert connects(node, LATE_SECONDS)

    arriving, leaving = cut([EVERYBODY])
    for one_way in (Rules(arriving=arriving), Rules(leaving=leaving)):
        with network.obstructed(node, one_way):
            assert not connects(node)
    with network.obstructed(node, Rules(leaving=leaving)):
        pass
    assert connects(node, LATE_SECONDS)

    other = Line(node)
    with network.obstructed(node, loss_of_large(run)):
        assert other.echoes(SMALL, LATE_SECONDS)
        assert not other.echoes(LARGE)
        assert connects(node, LATE_SECONDS)

    frozen = Line(node)
    with network.obstructed(node, network.open_connections(node, run)):
        assert not frozen.echoes(SMALL)
        assert Line(node).echoes(LARGE, LATE_SECONDS)

    with network.slowed(node, 64):
        assert not Line(node).echoes(LARGE * 2)

    with network.obstructed(node, loss(run, 30)), network.obstructed(node, loss(run, 30)):
        assert 0 < datagrams_back(node) < DATAGRAMS, "some packets are lost, and not all"
    assert Line(node).echoes(LARGE, LATE_SECONDS)


def try_late_requests(network: Network, client: Node, node: Node) -> None:
    """The echo stands for a broker: it answers each request with itself."""

    def request(kind: Request) -> bytes:
        return struct.pack(">ih", 2 + len(SMALL), kind) + SMALL

    old = Line(node, LATE_SECONDS)
    assert old.echoes(SMALL, LATE_SECONDS)
    proxy = RequestProxy(None, partial(enter_network, client.name))
    with closing(proxy), network.diverted(client, [node], proxy.port):
        assert old.is_cut_by(SMALL)
        line = Line(node, LATE_SECONDS)
        proxy.keep(Request.END_TXN)
        assert line.echoes(request(Request.PRODUCE), LATE_SECONDS)
        assert line.is_cut_by(request(Request.END_TXN))
        assert proxy.await_kept(SECONDS)
        assert Line(node, LATE_SECONDS).echoes(request(Request.END_TXN), LATE_SECONDS)
        proxy.deliver()
        assert not proxy.has_kept
        line = Line(node, LATE_SECONDS)
        assert line.echoes(request(Request.PRODUCE), LATE_SECONDS)
    assert line.is_cut_by(SMALL), "the proxy has ended"
    assert Line(node, LATE_SECONDS).echoes(SMALL, LATE_SECONDS)


def main() -> int:
    furnish()
    network = Network()
    node, client = network.add("echo"), network.add("client")
    command = [*node.launcher, sys.executable, "-c", ECHO, node.address, str(PORT)]
    with subprocess.Popen(command) as server:
        deadline = time.monotonic() + LATE_SECONDS
        while not connects(node):
            assert time.monotonic() < deadline, "the echo does not answer"
            time.sleep(0.1)
        try:
            try_all(network, node)
            with ThreadPoolExecutor(1, initializer=partial(enter_network, client.name)) as there:
                there.submit(try_late_requests, network, client, node).result()
        finally:
            server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
