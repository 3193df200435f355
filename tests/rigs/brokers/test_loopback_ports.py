"""Ports are chosen before servers listen on them."""

from __future__ import annotations

import pytest

from tests.rigs.brokers import loopback_ports
from tests.rigs.brokers.loopback_ports import free_port


def test_no_port_is_chosen_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(loopback_ports, "_PORTS", range(port, port + 1))
    monkeypatch.setattr(loopback_ports, "_chosen", set())
    assert free_port() == port
    with pytest.raises(OSError, match="no free port"):
        free_port()
