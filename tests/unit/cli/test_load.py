"""`firstseen load`: the documents of the demo, on a topic of one's own."""

from __future__ import annotations

import json

from streams.corpus.corpus import generate
from streams.errors import ExitCode
from tests.rigs.brokers.broker import Broker
from tests.unit.cli.running import firstseen


def test_the_generated_documents_are_sent(broker: Broker, topic: str) -> None:
    """Given a raw topic; when 200 documents are loaded; then it has exactly what the generator
    makes of that seed, in order, less the records that have no value.
    """
    run = firstseen(
        *("load", "--documents", "200", "--seed", "7", "--json"),
        *("--broker", broker.bootstrap_servers, "--set", f"topics.raw={topic}"),
    )

    assert run.returncode == ExitCode.OK, run.stderr
    expected = [(r.key, r.value) for r in generate(7, 200) if r.value is not None]
    assert json.loads(run.stdout)["documents"] == len(expected)
    found = broker.read_partition(topic, len(expected))
    assert [(message.key(), message.value()) for message in found] == expected


def test_a_rate_is_kept(broker: Broker, topic: str) -> None:
    """Given a rate of 100 a second; when 60 documents are loaded; then it takes half a second."""
    run = firstseen(
        *("load", "--documents", "60", "--rate", "100", "--json"),
        *("--broker", broker.bootstrap_servers, "--set", f"topics.raw={topic}"),
    )

    assert json.loads(run.stdout)["seconds"] >= 0.5, run.stderr
