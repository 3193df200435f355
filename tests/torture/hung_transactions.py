"""Transactions that the broker has left without an end when all is done: a fault of the broker's.

Committed readers stop at them, so entries are missing in changelogs, or outputs on their topics,
and it is not Firstseen that lost them (docs/kafka.md).
"""

from __future__ import annotations

import time

from streams.kafka.client_config import admin_config
from streams.kafka.clients import AdminClient
from streams.settings.settings import Settings
from streams.topics.open_transactions import OpenTransaction, open_transactions, partitions_to_check
from streams.topics.plans import topic_plans
from streams.topics.watermarks import BrokerWatermarks

ANSWER_SECONDS = 30.0
ENDED_SECONDS = 60.0
"""By then a broker has aborted what killed workers left open: it looks every 10 seconds for
transactions of which the time (the workers' session) is over."""
POLL_SECONDS = 0.5


def hung_transactions(
    settings: Settings, ended_seconds: float = ENDED_SECONDS
) -> list[OpenTransaction]:
    """Return what is still open after so long; no worker may run. At once where nothing is open."""
    group_id = settings.application_id
    admin = AdminClient(admin_config(settings))
    names = [plan.name for plan in topic_plans(settings)]
    partitions = partitions_to_check(admin, names, group_id)
    broker = BrokerWatermarks(admin_config(settings), group_id, ANSWER_SECONDS)
    deadline = time.monotonic() + ended_seconds
    while True:
        is_open = open_transactions(broker.of(partitions))
        if not is_open or time.monotonic() > deadline:
            return list(is_open.values())
        time.sleep(POLL_SECONDS)
