"""The server of the pages: access, limits, and the responses to bad clients."""

from __future__ import annotations

import re
import socket
import threading
import time
from http import HTTPStatus
from pathlib import Path

import pytest

from streams.errors import ExitCode, SettingsError, exit_code_of
from streams.ops_page import server
from streams.ops_page.access import Access, Area, WorkBudget
from streams.ops_page.text_check import own_url
from streams.settings.loader import load_settings
from streams.settings.settings import WebSettings
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.manual_clock import ManualClock
from tests.unit.ops_page.live_worker import ask
from tests.unit.ops_page.served_page import served_page

TOKEN = "0123456789abcdef-token"  # noqa: S105 - a test's
EVERYWHERE = "0.0.0.0"  # noqa: S104 - a setting; nothing listens here
SECONDS = 30.0


HERE, THERE = WebSettings(), WebSettings(host=EVERYWHERE, token=TOKEN)
OPEN = WebSettings(host=EVERYWHERE, open_monitoring=True)
OPEN_WITH_TOKEN = WebSettings(host=EVERYWHERE, token=TOKEN, open_monitoring=True)
OK, REFUSED = HTTPStatus.OK, HTTPStatus.UNAUTHORIZED
ELSEWHERE = HTTPStatus.MISDIRECTED_REQUEST
LOOPBACK = ("127.0.0.1:6066", "localhost", "[::1]:6066", "LOCALHOST:1")
# A foreign page whose name resolves to 127.0.0.1 (DNS rebinding) must not read texts.
OTHERS = ("evil.example:6066", "127.0.0.1.evil.example", "", "[evil]")
WRONG = ("", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ünïcode")


@pytest.mark.parametrize(
    ("web", "host", "header", "files", "monitoring", "data"),
    [
        *((HERE, host, None, OK, OK, OK) for host in LOOPBACK),
        *((HERE, host, None, OK, OK, ELSEWHERE) for host in OTHERS),
        *((THERE, "any", f"Bearer {wrong}", OK, REFUSED, REFUSED) for wrong in WRONG),
        (THERE, "any", None, OK, REFUSED, REFUSED),
        (THERE, "any", f"Basic {TOKEN}", OK, REFUSED, REFUSED),
        (THERE, "any", f"bearer  {TOKEN} ", OK, OK, OK),
        (OPEN, "127.0.0.1", None, OK, OK, HTTPStatus.FORBIDDEN),
        (OPEN_WITH_TOKEN, "any", None, OK, OK, REFUSED),
    ],
)
def test_who_may_see_which_area(
    web: WebSettings,
    host: str,
    header: str | None,
    files: HTTPStatus,
    monitoring: HTTPStatus,
    data: HTTPStatus,
) -> None:
    refusals = [Access(web).refusal(area, host, header) for area in Area]
    assert [each.status if each else OK for each in refusals] == [files, monitoring, data]


@pytest.mark.parametrize(
    "content", [None, b"", b"short", b"two words of it here", b"\xff" * 20, b"x" * 257]
)
def test_token_file_has_one_token_and_is_not_quoted(tmp_path: Path, content: bytes | None) -> None:
    web = WebSettings(token_file=str(tmp_path / "token"))
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(SettingsError, match="token" if content is None else "16 to 256") as caught:
        Access(web)
    assert exit_code_of(caught.value) == ExitCode.CONFIGURATION
    assert "two words" not in str(caught.value)
    (tmp_path / "token").write_text(f"{TOKEN}\n", "utf-8")
    assert Access(web).refusal(Area.DATA, "any", f"Bearer {TOKEN}") is None


def test_work_budget_fills_with_time_up_to_its_limit() -> None:
    clock = ManualClock(0)
    budget = WorkBudget(10, 2, clock)
    assert budget.spend(10) == 0
    assert budget.spend(4) == 2
    clock.now = 2
    assert budget.spend(4) == 0
    assert budget.spend(1) == 0.5
    clock.now = 1000
    assert budget.spend(25) == 0, "an amount beyond the limit costs the limit"
    assert budget.spend(1) == 0.5


def test_pages_answer_while_the_event_loop_is_blocked(tmp_path: Path) -> None:
    released = threading.Event()
    with served_page(tmp_path) as served:
        served.loop.call_soon_threadsafe(released.wait)
        try:
            for path in ("/", "/metrics", "/healthz", "/api/status", "/api/duplicates"):
                assert served.ask("GET", path).status == HTTPStatus.OK
        finally:
            released.set()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:6066"),
        ("[::1]", "http://[::1]:6066"),
        ("::1", "http://[::1]:6066"),
        (EVERYWHERE, "http://127.0.0.1:6066"),
        ("::", "http://[::1]:6066"),
        ("[::]", "http://[::1]:6066"),
        ("192.0.2.7", "http://192.0.2.7:6066"),
        ("worker-1", "http://worker-1:6066"),
    ],
)
def test_address_of_the_pages_of_this_machine(host: str, url: str) -> None:
    assert own_url(WebSettings(host=host)) == url


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\x01\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{'%s'}\r\n\r\n",
        b"GET /%s" + 9_000 * b"x" + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_malformed_requests_are_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, request_bytes: bytes
) -> None:
    with served_page(tmp_path) as served:
        with socket.create_connection(("127.0.0.1", served.port), SECONDS) as client:
            client.sendall(request_bytes % TOKEN.encode())
            replies = b""
            while part := client.recv(65_536):
                replies += part
        assert b" 400 Bad Request" in replies
        assert served.ask("GET", "/healthz").status == HTTPStatus.OK
    assert not caplog.records


def test_a_client_that_goes_away_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"POST /api/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with served_page(tmp_path) as served:
        with socket.create_connection(("127.0.0.1", served.port), SECONDS) as client:
            client.sendall(head + b"Content-Length: 9\r\n\r\n{")
            time.sleep(0.2)  # until the server waits for the rest
        assert served.ask("GET", "/healthz").status == HTTPStatus.OK
    assert not caplog.records


def test_pages_of_a_worker_that_starts_say_so() -> None:
    settings = load_settings(assignments=[f"web.port={free_port()}"], environ={}).settings
    with server.OpsServer(settings):
        replies = [ask(settings.web, "GET", path) for path in ("/healthz", "/readyz", "/api/x")]
    assert [reply.status for reply in replies] == [200, 503, 503]
    assert all(b"the worker is starting" in reply.body for reply in replies)


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: 127", b""),
        (b"\x00\x01\x02 nonsense\r\n\r\n", b"HTTP/1.[01] 400 "),
    ],
)
def test_client_that_is_idle_or_sends_no_http_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes, answer: bytes
) -> None:
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0.1)
    with (
        served_page(tmp_path) as served,
        socket.create_connection(("127.0.0.1", served.port), SECONDS) as connection,
    ):
        connection.sendall(sent)
        received = b"".join(iter(lambda: connection.recv(4096), b""))
    assert re.match(answer, received)
    assert bool(answer) is bool(received)
