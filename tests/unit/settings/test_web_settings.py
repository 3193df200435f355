"""Who may see a worker's pages: the rule for addresses and tokens; a token is never shown."""

from __future__ import annotations

import pytest

from streams.settings.reference import rows, text_rows
from streams.settings.settings import is_loopback
from tests.unit.settings.sources import load, problems_of, settings_of

TOKEN = "a-token-of-some-length"  # noqa: S105 - a test's


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LocalHost."]
)
def test_the_loopback_needs_no_token(host: str) -> None:
    """Given an address that this machine alone can reach, then no token is asked for."""
    assert is_loopback(host)
    assert settings_of(f"web.host={host}").web.on_loopback


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "10.1.2.3", "worker-1", "localhost.example.org", "127.0.0.1.nip.io"],  # noqa: S104 - settings
)
def test_beyond_it_a_token_is_needed(host: str) -> None:
    """Given another address and no token, then the settings are refused, with each way out."""
    problem = problems_of(f"web.host={host}")["web.host"]

    for fix in ("web.token_file", "web.token", "web.open_monitoring", "127.0.0.1"):
        assert fix in problem.message


@pytest.mark.parametrize(
    "way_out",
    [
        f"web.token={TOKEN}",
        "web.token_file=/run/secrets/token",
        "web.open_monitoring=true",
        "web.enabled=false",
    ],
)
def test_ways_out(way_out: str) -> None:
    """Given a token, monitoring alone, or no pages, then any address will do."""
    assert settings_of("web.host=0.0.0.0", way_out).web.host == "0.0.0.0"  # noqa: S104 - a setting


def test_one_token() -> None:
    """Given a token and a file with one, then one of them is too many."""
    assert (
        "twice" in problems_of(f"web.token={TOKEN}", "web.token_file=x")["web.token_file"].message
    )


@pytest.mark.parametrize(
    "token", ["short", "with a blank in it", "ümläuteümläuteümläute", "a" * 257]
)
def test_tokens_that_cannot_be(token: str) -> None:
    """Given a token that is short, or cannot stand in a header, then it is refused, unshown."""
    problem = problems_of(f"web.token={token}")["web.token"]

    assert "16 to 256" in problem.message
    assert token not in str(problem)


def test_a_token_is_never_shown() -> None:
    """Given a token, then neither the table, nor the rows for programs, nor a repr has it."""
    loaded = load(environ={"FIRSTSEEN_WEB__TOKEN": TOKEN})

    shown = [
        repr(text_rows(loaded)),
        repr(loaded.settings),
        repr(loaded.settings.web),
        repr(rows(loaded)),
    ]

    assert loaded.settings.web.token == TOKEN
    assert [text for text in shown if TOKEN in text] == []
