"""Schema prefetch: raw records wait until their schemas are fetched.

While the registry does not respond, the worker takes no more records, so that none is skipped or
becomes a dead letter. Records whose schemas are cached continue. If the registry refuses the
worker's user, the worker stops, because waiting would not help and a supervisor notices the stop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from operator import methodcaller
from typing import TYPE_CHECKING, Final, NamedTuple

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_exponential_jitter

from simhash_core.documents import Headers
from streams.documents.raw_documents import DocumentReader
from streams.documents.schema_framing import KEY, VALUE, Part, SchemaDecoders, SchemaId
from streams.errors import RegistryRefusedError
from streams.kafka.headers import headers_of
from streams.kafka.raw_consumer import RawRecords
from streams.monitoring.metrics import Metrics
from streams.registry.registry_client import RegistryClient
from streams.registry.schema_cache import SchemaCache, fetch_into
from streams.registry.schemas import RegistryUnavailableError
from streams.settings.registry import schema_formats
from streams.settings.settings import Settings

if TYPE_CHECKING:
    from confluent_kafka import Message

logger = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS: Final = 0.5
_LONGEST_WAIT_SECONDS: Final = 10.0
_LINE_SECONDS: Final = 30.0  # the shortest time between two identical log lines
_REFUSALS_MAX: Final = 3
"""After this many refusals in a row the worker stops. A starting registry may refuse some for a
moment; a token may have been revoked."""


class _PartSchemas(NamedTuple):
    """The schemas of keys or values; ``data_of`` returns the one of a message."""

    cache: SchemaCache
    client: RegistryClient
    data_of: Callable[[Message], bytes | None]

    def framed(self, batch: Sequence[RawRecords]) -> Iterator[tuple[Headers, bytes]]:
        """Yield the keys or values of a batch, with the headers of their records."""
        for run in batch:
            for message in run.messages:
                data, headers = self.data_of(message), headers_of(message)
                if data is not None and headers is not None:
                    yield headers, data

    def missing(self, batch: Sequence[RawRecords]) -> list[SchemaId]:
        return self.cache.missing(self.framed(batch))


class SchemaPrefetch:
    """Fetches the schemas of batches; ``reader`` can read records after ``ready``."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._metrics = metrics
        self._waiting: str | None = None
        self._line_at = 0.0
        self._refusals = 0
        self._url = settings.registry.url
        self._slow_seconds = 2 * settings.registry.timeout_seconds
        self._parts: list[_PartSchemas] = []
        caches: dict[Part, SchemaCache] = {}
        formats = schema_formats(settings.fields)
        for part, data_of in ((VALUE, methodcaller("value")), (KEY, methodcaller("key"))):
            if part.setting in formats:
                client = RegistryClient(settings.registry, formats[part.setting])
                cache = SchemaCache(settings.fields, part, validate=settings.registry.validate)
                self._parts.append(_PartSchemas(cache, client, data_of))
                caches[part] = cache
        schemas = SchemaDecoders(caches.get(VALUE), caches.get(KEY))
        self.reader = DocumentReader(
            settings.fields,
            settings.max_record_bytes,
            schemas,
            kept_bytes=settings.dead_letter_bytes,
        )

    def why_waiting(self) -> str | None:
        return self._waiting

    async def ready(self, batch: Sequence[RawRecords]) -> None:
        """Wait until the schemas of a batch are cached; raises ``RegistryRefusedError``."""
        if not any(part.missing(batch) for part in self._parts):
            return
        again = AsyncRetrying(
            retry=retry_if_exception(self._is_tried_again),
            wait=wait_exponential_jitter(multiplier=_FIRST_WAIT_SECONDS, max=_LONGEST_WAIT_SECONDS),
            before_sleep=self._note,
            reraise=True,
        )
        self._refusals = 0
        try:
            await again(self._fetch, batch)
        finally:
            self._metrics.registry_waiting(waiting=False)
        if self._waiting is not None:
            logger.warning("the schema registry answers again; reading continues")
            self._waiting = None

    async def _fetch(self, batch: Sequence[RawRecords]) -> None:
        # One request fails before, but there may be many, and a proxy may send headers slowly.
        timer = asyncio.get_running_loop().call_later(self._slow_seconds, self._note_slow)
        try:
            for part in self._parts:
                missing = part.missing(batch)
                count = self._metrics.schema_fetch
                await asyncio.to_thread(fetch_into, part.cache, part.client.fetch, missing, count)
                part.cache.trim(part.cache.schemas_of(part.framed(batch)))
        finally:
            timer.cancel()

    def _is_tried_again(self, error: BaseException) -> bool:
        if isinstance(error, RegistryRefusedError):
            self._refusals += 1
            return self._refusals < _REFUSALS_MAX
        self._refusals = 0
        return isinstance(error, RegistryUnavailableError)

    def _note(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, RegistryRefusedError):
            self._waiting = str(error)
            return  # the third refusal stops the worker
        self._waits(f"the schema registry does not answer ({self._url}): {error}")

    def _note_slow(self) -> None:
        self._waits(
            f"the schema registry does not answer in time ({self._url}): the schemas of the next "
            f"records take more than {self._slow_seconds:g} s"
        )

    def _waits(self, why: str) -> None:
        self._waiting = why
        self._metrics.registry_waiting(waiting=True)
        now = time.monotonic()
        if now - self._line_at >= _LINE_SECONDS:
            self._line_at = now
            logger.warning(
                "%s. This worker waits until it does; no record is lost or becomes a dead letter",
                self._waiting,
            )
