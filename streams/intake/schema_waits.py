"""Raw records wait until the schemas that they need are there, before any of them is read.

While the registry does not answer, the worker takes no further records: nothing becomes a dead
letter, and nothing is skipped. Records whose schemas it has go on as ever.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    wait_exponential_jitter,
)

from simhash_core.documents import Headers
from streams.documents.raw_documents import DocumentReader
from streams.documents.schema_framing import SCHEMA_FORMATS
from streams.intake.raw_records import RawRecords
from streams.monitoring.metrics import Metrics
from streams.registry.fetched_schema import RegistryUnavailableError
from streams.registry.registry_client import RegistryClient
from streams.registry.schema_cache import SchemaCache, schemas_of
from streams.registry.schema_fetches import SchemaFetches
from streams.settings.settings import Settings

if TYPE_CHECKING:
    from confluent_kafka import Message

logger = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS: Final = 0.5
_LONGEST_WAIT_SECONDS: Final = 10.0
_LINE_SECONDS: Final = 30.0
"""Between two lines of the log that say the same."""


class SchemaWaits:
    """Fetches what batches need. ``reader`` reads records once ``ready`` has returned.

    For formats without a registry there is nothing to wait for.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        """Connect to nothing yet; raises ``SettingsError`` for a client that cannot be made."""
        self._metrics = metrics
        self._waiting: str | None = None
        self._line_at = 0.0
        self._cache: SchemaCache | None = None
        if settings.fields.format in SCHEMA_FORMATS:
            client = RegistryClient(settings.registry, settings.fields.format)
            self._url = client.url
            self._cache = SchemaCache(settings.fields, validate=settings.registry.validate)
            self._fetches = SchemaFetches(client, self._cache, metrics.schema_fetch)
        self.reader = DocumentReader(settings.fields, settings.max_record_bytes, self._cache)

    def why_waiting(self) -> str | None:
        """Return what records wait for; None while they wait for nothing. From any thread."""
        return self._waiting

    async def ready(self, batch: Sequence[RawRecords]) -> None:
        """Return once the schemas of a batch are there, however long that takes.

        Until the next call they stay.
        """
        if self._cache is None:
            return
        if not self._cache.missing(_values(batch)):
            return
        again = AsyncRetrying(
            retry=retry_if_exception_type(RegistryUnavailableError),
            wait=wait_exponential_jitter(_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS),
            before_sleep=self._note,
        )
        try:
            await again(self._fetch, batch)
        finally:
            self._metrics.registry_waiting(waiting=False)
        if self._waiting is not None:
            logger.warning("the schema registry answers again; reading goes on")
            self._waiting = None

    async def _fetch(self, batch: Sequence[RawRecords]) -> None:
        assert self._cache is not None
        await asyncio.to_thread(self._fetches.fetch, self._cache.missing(_values(batch)))
        self._cache.trim(schemas_of(_values(batch)))

    def _note(self, state: RetryCallState) -> None:
        """Say that the registry does not answer."""
        error = state.outcome.exception() if state.outcome is not None else None
        self._waiting = f"the schema registry does not answer ({self._url}): {error}"
        self._metrics.registry_waiting(waiting=True)
        now = time.monotonic()
        if now - self._line_at >= _LINE_SECONDS:
            self._line_at = now
            logger.warning(
                "%s. This worker waits until it does: no record is lost, and none becomes a dead "
                "letter",
                self._waiting,
            )


def _values(batch: Sequence[RawRecords]) -> Iterator[tuple[Headers, bytes]]:
    for run in batch:
        for message in run.messages:
            value = message.value()
            if value is not None:
                yield _headers(message), value


def _headers(message: Message) -> Headers:
    return tuple(cast("list[tuple[str, bytes | None]]", message.headers() or ()))
