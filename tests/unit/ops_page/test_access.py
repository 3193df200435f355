"""Who may ask for what of a worker's pages."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

import pytest

from streams.errors import ExitCode, SettingsError, exit_code_of
from streams.ops_page.access import Access, Area
from streams.settings.settings import WebSettings

TOKEN = "0123456789abcdef-token"  # noqa: S105 - a test's
EVERYWHERE = "0.0.0.0"  # noqa: S104 - a setting; nothing listens here


def status(web: WebSettings, area: Area, host: str = "127.0.0.1:6066", bearer: str = "") -> int:
    """The status that a request gets, 200 where it may be."""
    given = f"Bearer {bearer}" if bearer else None
    refusal = Access(web).refusal(area, host, given)
    return HTTPStatus.OK if refusal is None else refusal.status


@pytest.mark.parametrize("area", list(Area))
def test_on_the_loopback_all_is_served_under_its_own_names(area: Area) -> None:
    """Given no token and the loopback, then a request that names the loopback gets everything."""
    for host in ("127.0.0.1:6066", "localhost", "[::1]:6066", "LOCALHOST:1"):
        assert status(WebSettings(), area, host) == HTTPStatus.OK


def test_a_strangers_name_for_the_loopback_gets_no_data() -> None:
    """Given no token, when a page whose own name leads to 127.0.0.1 asks (DNS rebinding), then it
    gets no texts; monitoring, which has none, does not look at names.
    """
    web = WebSettings()

    for host in ("evil.example:6066", "127.0.0.1.evil.example", "", "[evil]"):
        assert status(web, Area.DATA, host) == HTTPStatus.MISDIRECTED_REQUEST
        assert status(web, Area.MONITORING, host) == HTTPStatus.OK


@pytest.mark.parametrize("area", [Area.DATA, Area.MONITORING])
def test_with_a_token_it_must_be_sent(area: Area) -> None:
    """Given a token, then only who sends exactly it gets data or monitoring, under any name."""
    web = WebSettings(host=EVERYWHERE, token=TOKEN)

    for wrong in ("", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ünïcode"):
        assert status(web, area, "any", wrong) == HTTPStatus.UNAUTHORIZED
    assert status(web, area, "any", TOKEN) == HTTPStatus.OK
    assert Access(web).refusal(area, "any", f"Basic {TOKEN}") is not None
    assert Access(web).refusal(area, "any", f"bearer  {TOKEN} ") is None


def test_the_files_of_the_page_are_for_all() -> None:
    """Given a token, then the page, which holds no data, loads without it, to ask for it."""
    assert status(WebSettings(host=EVERYWHERE, token=TOKEN), Area.FILES, "any") == HTTPStatus.OK


def test_monitoring_may_be_open() -> None:
    """Given web.open_monitoring, then monitoring needs no token, and data still do; with no token
    at all, data are not served.
    """
    with_token = WebSettings(host=EVERYWHERE, token=TOKEN, open_monitoring=True)
    without = WebSettings(host=EVERYWHERE, open_monitoring=True)

    assert status(with_token, Area.MONITORING, "any") == HTTPStatus.OK
    assert status(with_token, Area.DATA, "any") == HTTPStatus.UNAUTHORIZED
    assert status(without, Area.MONITORING, "any") == HTTPStatus.OK
    assert status(without, Area.DATA, "127.0.0.1") == HTTPStatus.FORBIDDEN


def test_a_token_from_a_file(tmp_path: Path) -> None:
    """Given a file with a token and a line end, then that is the token."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", "utf-8")

    assert status(WebSettings(token_file=str(file)), Area.DATA, "any", TOKEN) == HTTPStatus.OK


@pytest.mark.parametrize(
    "content", [b"", b"short", b"two words of it here", b"\xff" * 20, b"x" * 257]
)
def test_files_that_hold_no_token(tmp_path: Path, content: bytes) -> None:
    """Given a file with something else, then the worker ends with 78; what is in it is not told."""
    file = tmp_path / "token"
    file.write_bytes(content)

    with pytest.raises(SettingsError, match="16 to 256") as caught:
        Access(WebSettings(token_file=str(file)))

    assert exit_code_of(caught.value) == ExitCode.CONFIGURATION
    assert "two words" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Given no such file, then the message names it."""
    with pytest.raises(SettingsError, match="missing"):
        Access(WebSettings(token_file=str(tmp_path / "missing")))
