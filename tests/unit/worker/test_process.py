"""Before it joins its group, a worker waits for brokers that fail over."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from streams.errors import BrokerUnavailableError, StateMismatchError
from streams.settings.settings import Settings
from streams.worker import process


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_AGAIN_SECONDS", 0.01)


def test_start_is_tried_again_while_brokers_fail_over(caplog: pytest.LogCaptureFixture) -> None:
    silent = BrokerUnavailableError("no answer")
    ask = Mock(side_effect=[silent, silent, silent, "answer"])
    assert process._until_answered(Settings())(ask) == "answer"
    assert caplog.text.count("waiting for the Kafka brokers before the next try: no answer") == 3


def test_start_ends_when_the_wait_for_brokers_has_a_limit_and_it_passed() -> None:
    ask = Mock(side_effect=BrokerUnavailableError("no answer"))
    with pytest.raises(BrokerUnavailableError, match="no answer"):
        process._until_answered(Settings(broker_wait_seconds=0.1))(ask)
    assert ask.call_count > 1


def test_start_ends_at_once_for_what_no_wait_mends() -> None:
    refuse = Mock(side_effect=StateMismatchError("other settings"))
    with pytest.raises(StateMismatchError, match="other settings"):
        process._until_answered(Settings())(refuse)
