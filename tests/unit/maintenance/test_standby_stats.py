"""The figures of standbys in ``firstseen index stats`` if no broker answers."""

from __future__ import annotations

from streams.maintenance.index_stats import standby_stats
from streams.settings.settings import Settings
from tests.rigs.brokers.loopback_ports import free_port


def test_without_a_broker_it_is_unknown_which_standbys_are_open() -> None:
    """Other figures need no broker, so this is no error; without standbys it sends no request."""
    said: list[str] = []
    settings = Settings(brokers=f"127.0.0.1:{free_port()}", standbys=1)
    stats = standby_stats(settings, "the index", 0.2, said.append)
    assert stats is not None
    assert (stats.wanted, stats.shards_without) == (1, None)
    assert stats.why_unknown is not None
    assert stats.why_unknown.startswith("no Kafka broker at ")
    assert standby_stats(Settings(), "the index", 0.2, said.append) is None
