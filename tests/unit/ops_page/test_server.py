"""The server of the pages: apart from the worker, and bounded."""

from __future__ import annotations

import socket
import threading
from http import HTTPStatus
from pathlib import Path

import pytest

from streams.ops_page import server
from tests.unit.ops_page.served_page import served_page

SECONDS = 30.0


def test_pages_answer_while_the_event_loop_is_blocked(tmp_path: Path) -> None:
    released = threading.Event()
    with served_page(tmp_path) as served:
        served.loop.call_soon_threadsafe(released.wait)
        try:
            for path in ("/", "/metrics", "/healthz", "/api/status", "/api/duplicates"):
                assert served.ask("GET", path).status == HTTPStatus.OK
        finally:
            released.set()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127"])
def test_idle_connection_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0.1)
    with (
        served_page(tmp_path) as served,
        socket.create_connection(("127.0.0.1", served.port), SECONDS) as connection,
    ):
        connection.sendall(sent)
        assert connection.recv(1) == b""


def test_bytes_that_are_not_http_are_refused(tmp_path: Path) -> None:
    with (
        served_page(tmp_path) as served,
        socket.create_connection(("127.0.0.1", served.port), SECONDS) as connection,
    ):
        connection.sendall(b"\x00\x01\x02 nonsense\r\n\r\n")
        received = b""
        while block := connection.recv(4096):
            received += block
    assert received.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
