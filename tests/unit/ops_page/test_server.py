"""The server of the pages: who may ask for what, how much, and what bad clients get."""

from __future__ import annotations

import socket
import threading
from http import HTTPStatus
from pathlib import Path

import pytest

from streams.errors import ExitCode, SettingsError, exit_code_of
from streams.ops_page import server
from streams.ops_page.access import Access, Area, WorkBudget
from streams.settings.settings import WebSettings
from tests.rigs.manual_clock import ManualClock
from tests.unit.ops_page.served_page import Served, served_page

TOKEN = "0123456789abcdef-token"  # noqa: S105 - a test's
EVERYWHERE = "0.0.0.0"  # noqa: S104 - a setting; nothing listens here
SECONDS = 30.0


def status(web: WebSettings, area: Area, host: str = "127.0.0.1:6066", bearer: str = "") -> int:
    given = f"Bearer {bearer}" if bearer else None
    refusal = Access(web).refusal(area, host, given)
    return HTTPStatus.OK if refusal is None else refusal.status


@pytest.mark.parametrize("area", list(Area))
def test_loopback_names_get_every_area(area: Area) -> None:
    for host in ("127.0.0.1:6066", "localhost", "[::1]:6066", "LOCALHOST:1"):
        assert status(WebSettings(), area, host) == HTTPStatus.OK


def test_other_names_get_monitoring_but_no_data() -> None:
    """A page whose own name resolves to 127.0.0.1 (DNS rebinding) must not read texts."""
    web = WebSettings()
    for host in ("evil.example:6066", "127.0.0.1.evil.example", "", "[evil]"):
        assert status(web, Area.DATA, host) == HTTPStatus.MISDIRECTED_REQUEST
        assert status(web, Area.MONITORING, host) == HTTPStatus.OK


@pytest.mark.parametrize("area", [Area.DATA, Area.MONITORING])
def test_only_the_exact_token_opens_data_and_monitoring(area: Area) -> None:
    web = WebSettings(host=EVERYWHERE, token=TOKEN)
    for wrong in ("", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ünïcode"):
        assert status(web, area, "any", wrong) == HTTPStatus.UNAUTHORIZED
    assert status(web, area, "any", TOKEN) == HTTPStatus.OK
    assert Access(web).refusal(area, "any", f"Basic {TOKEN}") is not None
    assert Access(web).refusal(area, "any", f"bearer  {TOKEN} ") is None


def test_page_files_need_no_token() -> None:
    assert status(WebSettings(host=EVERYWHERE, token=TOKEN), Area.FILES, "any") == HTTPStatus.OK


def test_open_monitoring_needs_no_token_but_data_do() -> None:
    with_token = WebSettings(host=EVERYWHERE, token=TOKEN, open_monitoring=True)
    without = WebSettings(host=EVERYWHERE, open_monitoring=True)
    assert status(with_token, Area.MONITORING, "any") == HTTPStatus.OK
    assert status(with_token, Area.DATA, "any") == HTTPStatus.UNAUTHORIZED
    assert status(without, Area.MONITORING, "any") == HTTPStatus.OK
    assert status(without, Area.DATA, "127.0.0.1") == HTTPStatus.FORBIDDEN


def test_token_file_may_end_with_a_newline(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", "utf-8")
    assert status(WebSettings(token_file=str(file)), Area.DATA, "any", TOKEN) == HTTPStatus.OK


@pytest.mark.parametrize(
    "content", [b"", b"short", b"two words of it here", b"\xff" * 20, b"x" * 257]
)
def test_invalid_token_file_is_refused_without_quoting_it(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match="16 to 256") as caught:
        Access(WebSettings(token_file=str(file)))
    assert exit_code_of(caught.value) == ExitCode.CONFIGURATION
    assert "two words" not in str(caught.value)


def test_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="missing"):
        Access(WebSettings(token_file=str(tmp_path / "missing")))


def test_work_budget_fills_with_time() -> None:
    clock = ManualClock(0)
    budget = WorkBudget(10, 2, clock)
    assert budget.spend(10) == 0
    assert budget.spend(4) == 2
    clock.now = 2
    assert budget.spend(4) == 0
    assert budget.spend(1) == 0.5


def test_work_budget_has_a_maximum() -> None:
    clock = ManualClock(0)
    budget = WorkBudget(10, 2, clock)
    clock.now = 1000
    assert budget.spend(25) == 0
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


def connected(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), SECONDS)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127"])
def test_idle_client_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0.1)
    with served_page(tmp_path) as served, connected(served) as connection:
        connection.sendall(sent)
        assert connection.recv(1) == b""


def test_bytes_that_are_not_http_are_refused(tmp_path: Path) -> None:
    with served_page(tmp_path) as served, connected(served) as connection:
        connection.sendall(b"\x00\x01\x02 nonsense\r\n\r\n")
        received = b""
        while block := connection.recv(4096):
            received += block
    assert received.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
