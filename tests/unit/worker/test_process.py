"""Before it joins its group, a worker waits for brokers that fail over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streams.errors import BrokerUnavailableError, StateMismatchError
from streams.settings.settings import Settings
from streams.worker import process


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_AGAIN_SECONDS", 0.01)


def silent(times: int) -> tuple[list[int], Callable[[], str]]:
    """Return a request that is answered after ``times`` tries, and the list of its tries."""
    tries: list[int] = []

    def ask() -> str:
        tries.append(len(tries))
        if len(tries) <= times:
            raise BrokerUnavailableError("no answer")
        return "answer"

    return tries, ask


def test_start_is_tried_again_while_brokers_fail_over(caplog: pytest.LogCaptureFixture) -> None:
    tries, ask = silent(3)
    assert process._until_answered(Settings())(ask) == "answer"
    assert len(tries) == 4
    assert caplog.text.count("waiting for the Kafka brokers before the next try: no answer") == 3


def test_start_ends_when_the_wait_for_brokers_has_a_limit_and_it_passed() -> None:
    tries, ask = silent(1_000)
    with pytest.raises(BrokerUnavailableError, match="no answer"):
        process._until_answered(Settings(broker_wait_seconds=0.1))(ask)
    assert 1 < len(tries) < 1_000


def test_start_ends_at_once_for_what_no_wait_mends() -> None:
    def refuse() -> None:
        raise StateMismatchError("other settings")

    with pytest.raises(StateMismatchError, match="other settings"):
        process._until_answered(Settings())(refuse)
