"""Clients end in separate threads, so the code that releases a client never has to wait."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.kafka import clients
from streams.kafka.clients import AdminClient, Consumer, Producer, await_ends
from streams.kafka.embedded_broker import EmbeddedBroker
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.waiting import await_that

SECONDS = 20.0
Config = dict[str, Any]
Client = Producer | Consumer | AdminClient
NewClient = Callable[[Config], Client]


class SilentIdentityProvider:
    """Returns a first token, which soon expires, and no second token before ``ends``.

    The library requests it in a thread for which the end of a client waits, so the end hangs.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.ends = threading.Event()
        self._has_given = False

    def token(self, _: str) -> tuple[str, float]:
        if self._has_given:
            self.asked.set()
            self.ends.wait(SECONDS)
        self._has_given = True
        return "token", time.time() + 1.0

    def config(self, port: int) -> Config:
        return {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "client.id": "stubborn",
            "group.id": "group",
            "log_level": 0,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": self.token,
        }


@pytest.fixture
def provider() -> Iterator[SilentIdentityProvider]:
    assert await_ends(SECONDS) == []  # all clients of earlier tests have ended
    provider = SilentIdentityProvider()
    yield provider
    provider.ends.set()
    assert await_ends(SECONDS) == []


def hanging(new: NewClient, provider: SilentIdentityProvider) -> Client:
    client = new(provider.config(free_port()))
    assert provider.asked.wait(SECONDS)
    return client


@pytest.mark.parametrize("new", [Producer, Consumer, AdminClient])
def test_a_client_that_does_not_end_holds_up_nobody(
    new: NewClient, provider: SilentIdentityProvider
) -> None:
    client = hanging(new, provider)
    del client
    (name,) = await_ends(0.1)
    assert "'stubborn'" in name
    provider.ends.set()
    assert await_ends(SECONDS) == []


class Owner:
    """Has a client that has a method of the owner as a callback, which is a reference cycle."""

    def __init__(self, provider: SilentIdentityProvider) -> None:
        self.errors: list[object] = []
        self.client = Producer({**provider.config(free_port()), "error_cb": self.note})

    def note(self, error: object) -> None:
        self.errors.append(error)


def test_a_client_in_a_cycle_ends_beside_the_collector(provider: SilentIdentityProvider) -> None:
    of_other_tests = await_ends(0.0)
    owner = Owner(provider)
    assert provider.asked.wait(SECONDS)
    del owner

    def begins_to_end() -> bool:
        gc.collect()
        return len(set(await_ends(0.0)) - set(of_other_tests)) == 1

    await_that(begins_to_end, SECONDS)
    provider.ends.set()
    assert set(await_ends(SECONDS)) <= set(of_other_tests)


def test_a_late_end_is_logged(
    provider: SilentIdentityProvider,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(clients, "END_SECONDS", 0.1)
    client = hanging(AdminClient, provider)
    del client
    await_that(lambda: "'stubborn'" in caplog.text, SECONDS)
    await_ends(0.1)
    assert caplog.text.count("did not close") == 1


@pytest.mark.parametrize("new", [Producer, Consumer, AdminClient])
def test_close_ends_in_its_time(
    new: NewClient,
    provider: SilentIdentityProvider,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = hanging(new, provider)
    client.close(0.1)
    assert not provider.ends.is_set()
    assert "did not close within 0.1 s" in caplog.text
    assert "'stubborn'" in caplog.text


@pytest.fixture
def member() -> Iterator[tuple[EmbeddedBroker, Consumer]]:
    """Start a broker for this test, and return it with the only member of a group."""
    with EmbeddedBroker() as broker:
        broker.create_topic("raw", 1)
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "group",
                "session.timeout.ms": 6000,
                "log_level": 0,
            }
        )
        yield broker, consumer


def join(consumer: Consumer, **callbacks: Callable[[Consumer, object], None]) -> None:
    consumer.subscribe(["raw"], **callbacks)
    await_that(lambda: consumer.poll(0.1) or consumer.assignment(), SECONDS)


def test_a_member_leaves_a_broker_that_stands_still(
    member: tuple[EmbeddedBroker, Consumer], caplog: pytest.LogCaptureFixture
) -> None:
    broker, consumer = member
    join(consumer)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        os.waitpid(broker.pid, os.WUNTRACED)  # until the broker is suspended
        consumer.close(0.1)
        assert "consumer 'rdkafka'" in caplog.text
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    await_that(lambda: not closing_threads(), SECONDS)


def closing_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("close of")]


def test_an_error_of_close_belongs_to_its_caller(member: tuple[EmbeddedBroker, Consumer]) -> None:
    def fail(_: Consumer, __: object) -> None:
        raise LookupError("the callback failed")

    _, consumer = member
    join(consumer, on_revoke=fail)
    with pytest.raises(LookupError, match="the callback failed"):
        consumer.close()


PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from tests.unit.kafka.test_clients import AdminClient, SilentIdentityProvider, hanging

kept = hanging(AdminClient, SilentIdentityProvider())
dropped = hanging(AdminClient, SilentIdentityProvider())
del dropped
print("exits", flush=True)
"""


def test_a_process_exits_without_clients_that_hang(request: pytest.FixtureRequest) -> None:
    program = PROGRAM.format(root=str(Path(request.config.rootpath)))
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=SECONDS - 5.0,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "exits\n"), ended.stderr
