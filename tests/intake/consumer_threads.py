"""The thread of a worker's consumer, made as Faust makes it, and not started."""

from __future__ import annotations

import asyncio
from typing import cast

import faust
from faust.transport.drivers import aiokafka as driver

from streams.committed_transport import CommittedTransport


def new_consumer_thread(
    loop: asyncio.AbstractEventLoop, fetch_wait_ms: int = 100
) -> driver.AIOKafkaConsumerThread:
    """A thread for a broker that is not there; whoever asked for it closes its loop."""

    async def nothing(_: object) -> None: ...

    app = faust.App("x", broker="kafka://127.0.0.1:1", loop=loop, web_enabled=False)
    transport = CommittedTransport(app.conf.broker_consumer, app, loop=loop)
    transport.fetch_wait_ms = fetch_wait_ms
    consumer = transport.Consumer(
        transport,
        callback=nothing,
        on_partitions_revoked=nothing,
        on_partitions_assigned=nothing,
        loop=loop,
    )
    return cast(driver.Consumer, consumer)._thread
