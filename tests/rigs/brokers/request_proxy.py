"""A proxy of a Kafka broker that delivers a request late, slows answers down, or changes one.

It reads the kind of each request (https://kafka.apache.org/protocol), keeps one request back and
cuts its connection. The client connects again and repeats the request. Later the proxy delivers the
one that it kept back. A network does the same with a packet that takes a slower route.

It can make answers as slow as a link of few bytes a second does.

It can also answer a produce request as a broker that has its records already, and no longer knows
their offsets. A broker does this after a restart, if the answers to several requests were lost.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import IntEnum

HOST = "127.0.0.1"
SECONDS = 30.0
MARK = 219
"""The mark of the proxy's own packets, which rules of nft do not redirect to it again."""
SO_ORIGINAL_DST = 80
DUPLICATE_SEQUENCE_NUMBER = 46
UNKNOWN_OFFSET = -1
PIECE_BYTES = 16 * 1024

Address = tuple[str, int]


class Request(IntEnum):
    """Kinds by Kafka's numbers."""

    PRODUCE = 0
    HEARTBEAT = 12
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


class RequestProxy:
    """Forwards connections to a broker, and keeps requests back.

    Without ``broker`` it forwards each connection to the address from which nft has redirected it.
    Each of its threads calls ``enter`` first, to work in another network namespace.
    """

    def __init__(self, broker: Address | None, enter: Callable[[], None] = lambda: None) -> None:
        self._broker = broker
        self._enter = enter
        self._lock = threading.Lock()
        self._kept: list[tuple[Address, bytes]] = []
        self._keeps = threading.Event()
        self._to_keep: Request | None = None
        self._before: Request | None = None
        self._bytes_per_second: int | None = None
        self._hides_offset = False
        self._to_hide: set[tuple[socket.socket, int]] = set()
        self._connections: set[socket.socket] = set()
        with ThreadPoolExecutor(1, initializer=enter) as here:
            self._listener = here.submit(socket.create_server, (HOST, 0)).result(SECONDS)
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def close(self) -> None:
        """End, and cut all connections."""
        with suppress(OSError):  # this wakes the thread that accepts; closing does not
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for each in connections:
            _shut(each)

    def keep(self, kind: Request | None) -> None:
        """Keep back the next request of the kind, and cut its connection; None: no longer."""
        with self._lock:
            self._to_keep = kind

    def slow(self, bytes_per_second: int | None) -> None:
        """Send answers of each connection at this speed at most; None: no longer."""
        self._bytes_per_second = bytes_per_second

    def hide_offset(self) -> None:
        """Answer the next produce request without the offset of its first record."""
        with self._lock:
            self._hides_offset = True

    def forget(self) -> None:
        """Drop the request that was kept back."""
        with self._lock:
            assert self._kept, "nothing was kept back"
            self._kept = []
            self._keeps.clear()

    def deliver_before(self, kind: Request) -> None:
        """When the next request of this kind comes, deliver the one kept back before it."""
        with self._lock:
            self._before = kind

    def deliver(self) -> None:
        """Deliver what was kept back; raises ``OSError`` if a broker does not answer."""
        with self._lock:
            kept, self._kept = self._kept, []
            self._keeps.clear()
        if kept:
            with ThreadPoolExecutor(1, initializer=self._enter) as here:
                list(here.map(self._send_late, kept))

    @property
    def has_kept(self) -> bool:
        return self._keeps.is_set()

    def await_kept(self, seconds: float) -> bool:
        """Wait until a request is kept back; return whether one is."""
        return self._keeps.wait(seconds)

    def _send_late(self, kept: tuple[Address, bytes]) -> None:
        address, frame = kept
        with self._connected(address) as broker:
            broker.sendall(frame)
            if not _frame(broker):
                raise ConnectionError(f"{address} did not answer the late request")

    def _connected(self, address: Address) -> socket.socket:
        broker = socket.socket()
        try:
            broker.settimeout(SECONDS)
            if self._broker is None:
                broker.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
            broker.connect(address)
        except OSError:
            broker.close()
            raise
        return broker

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        def enter_and_run() -> None:
            self._enter()
            run(*arguments)

        threading.Thread(target=enter_and_run, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._start(self._forward, client)

    def _forward(self, client: socket.socket) -> None:
        address = self._broker or _redirected_from(client)
        try:
            broker = self._connected(address)
        except OSError:  # the broker is away, or has ended
            client.close()
            return
        broker.settimeout(None)
        for each in (client, broker):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._connections |= {client, broker}
        self._start(self._answers, broker, client)
        self._requests(address, client, broker)

    def _requests(self, address: Address, client: socket.socket, broker: socket.socket) -> None:
        with client, broker:
            with suppress(OSError):
                while frame := _frame(client):
                    (kind,) = struct.unpack_from(">h", frame, 4)
                    if self._is_kept(kind, address, frame):
                        break
                    if self._has_to_deliver_before(kind):
                        self.deliver()
                    self._note_to_hide(kind, broker, frame)
                    broker.sendall(frame)
            with self._lock:
                self._connections -= {client, broker}
            for each in (client, broker):
                _shut(each)

    def _is_kept(self, kind: int, address: Address, frame: bytes) -> bool:
        with self._lock:
            if kind != self._to_keep:
                return False
            self._to_keep = None
            self._kept.append((address, frame))
            self._keeps.set()
            return True

    def _has_to_deliver_before(self, kind: int) -> bool:
        with self._lock:
            if kind != self._before:
                return False
            self._before = None
            return True

    def _note_to_hide(self, kind: int, broker: socket.socket, frame: bytes) -> None:
        with self._lock:
            if self._hides_offset and kind == Request.PRODUCE:
                self._hides_offset = False
                (correlation,) = struct.unpack_from(">i", frame, 8)
                self._to_hide.add((broker, correlation))

    def _answers(self, broker: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while frame := _frame(broker):
                (correlation,) = struct.unpack_from(">i", frame, 4)
                with self._lock:
                    is_to_hide = (broker, correlation) in self._to_hide
                    self._to_hide.discard((broker, correlation))
                self._send(client, _without_offset(frame) if is_to_hide else frame)
        _shut(client)

    def _send(self, client: socket.socket, frame: bytes) -> None:
        for at in range(0, len(frame), PIECE_BYTES):
            piece = frame[at : at + PIECE_BYTES]
            if (speed := self._bytes_per_second) is not None:
                time.sleep(len(piece) / speed)
            client.sendall(piece)


def _without_offset(answer: bytes) -> bytes:
    """Change the answer to a produce request (version 9 to 12) for its first partition.

    After the length and the correlation id come tags, topics, a name, partitions, and of each its
    number, an error code and an offset; lengths are one more, in one byte.
    """
    tags, topics, name = answer[8:11]
    assert (tags, topics) == (0, 2), "no produce answer for one topic"
    at = 10 + name + 1 + 4
    changed = struct.pack(">hq", DUPLICATE_SEQUENCE_NUMBER, UNKNOWN_OFFSET)
    return answer[:at] + changed + answer[at + len(changed) :]


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _redirected_from(client: socket.socket) -> Address:
    answer = client.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
    port, address = struct.unpack(">2xH4s8x", answer)
    return socket.inet_ntoa(address), port


def _frame(connection: socket.socket) -> bytes:
    """Return a message with its length before it; empty at the end of the connection."""
    data, size = b"", 4
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            return b""
        data += more
        if len(data) == 4:
            size = 4 + struct.unpack(">i", data)[0]
    return data
