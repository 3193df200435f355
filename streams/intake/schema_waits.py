"""Raw records wait until the schemas that they need are there, before any of them is read.

While the registry does not answer, the worker takes no further records: nothing becomes a dead
letter, and nothing is skipped. Records whose schemas it has go on as ever. Where the registry
refuses the worker's user, the worker ends: waiting would not help, and a supervisor sees an end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    wait_exponential_jitter,
)

from simhash_core.documents import Headers
from streams.documents.raw_documents import DocumentReader
from streams.documents.schema_framing import KEY, VALUE, Part, SchemaDecoders, SchemaId
from streams.errors import RegistryRefusedError
from streams.intake.raw_records import RawRecords
from streams.monitoring.metrics import Metrics
from streams.registry.fetched_schema import RegistryUnavailableError
from streams.registry.registry_client import RegistryClient
from streams.registry.schema_cache import SchemaCache
from streams.registry.schema_fetches import SchemaFetches
from streams.settings.registry import schema_formats
from streams.settings.settings import Settings

if TYPE_CHECKING:
    from confluent_kafka import Message

logger = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS: Final = 0.5
_LONGEST_WAIT_SECONDS: Final = 10.0
_LINE_SECONDS: Final = 30.0
"""Between two lines of the log that say the same."""
_REFUSALS_MAX: Final = 3
"""So many refusals in a row end the worker. A registry that starts, or whose users are elsewhere,
refuses some for a moment, and a token may have been revoked."""


class _PartSchemas(NamedTuple):
    """The schemas of one part of records; ``framed`` yields it of a batch, with the headers."""

    cache: SchemaCache
    fetches: SchemaFetches
    framed: Callable[[Sequence[RawRecords]], Iterator[tuple[Headers, bytes]]]

    def missing(self, batch: Sequence[RawRecords]) -> list[SchemaId]:
        """Return the schemas that must be fetched before the batch can be read."""
        return self.cache.missing(self.framed(batch))


class SchemaWaits:
    """Fetches what batches need. ``reader`` reads records once ``ready`` has returned.

    For formats without a registry there is nothing to wait for.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        """Connect to nothing yet; raises ``SettingsError`` for a client that cannot be made."""
        self._metrics = metrics
        self._waiting: str | None = None
        self._line_at = 0.0
        self._refusals = 0
        self._url = settings.registry.url
        self._parts: list[_PartSchemas] = []
        caches: dict[Part, SchemaCache] = {}
        formats = schema_formats(settings.fields)
        for part, framed in ((VALUE, _values), (KEY, _keys)):
            if part.setting in formats:
                client = RegistryClient(settings.registry, formats[part.setting])
                cache = SchemaCache(settings.fields, part, validate=settings.registry.validate)
                fetches = SchemaFetches(client, cache, metrics.schema_fetch)
                self._parts.append(_PartSchemas(cache, fetches, framed))
                caches[part] = cache
        schemas = SchemaDecoders(caches.get(VALUE), caches.get(KEY))
        self.reader = DocumentReader(settings.fields, settings.max_record_bytes, schemas)

    def why_waiting(self) -> str | None:
        """Return what records wait for; None while they wait for nothing. From any thread."""
        return self._waiting

    async def ready(self, batch: Sequence[RawRecords]) -> None:
        """Return once the schemas of a batch are there, however long that takes.

        Until the next call they stay. Raises ``RegistryRefusedError``.
        """
        if not any(part.missing(batch) for part in self._parts):
            return
        again = AsyncRetrying(
            retry=retry_if_exception(self._is_tried_again),
            wait=wait_exponential_jitter(_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS),
            before_sleep=self._note,
            reraise=True,
        )
        self._refusals = 0
        try:
            await again(self._fetch, batch)
        finally:
            self._metrics.registry_waiting(waiting=False)
        if self._waiting is not None:
            logger.warning("the schema registry answers again; reading goes on")
            self._waiting = None

    async def _fetch(self, batch: Sequence[RawRecords]) -> None:
        for part in self._parts:
            await asyncio.to_thread(part.fetches.fetch, part.missing(batch))
            part.cache.trim(part.cache.schemas_of(part.framed(batch)))

    def _is_tried_again(self, error: BaseException) -> bool:
        if isinstance(error, RegistryRefusedError):
            self._refusals += 1
            return self._refusals < _REFUSALS_MAX
        self._refusals = 0
        return isinstance(error, RegistryUnavailableError)

    def _note(self, state: RetryCallState) -> None:
        """Log that the registry does not answer, or not this user."""
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, RegistryRefusedError):
            self._waiting = str(error)
            return  # the third time the worker ends with it
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


def _keys(batch: Sequence[RawRecords]) -> Iterator[tuple[Headers, bytes]]:
    for run in batch:
        for message in run.messages:
            key = message.key()
            if key:
                yield _headers(message), key


def _headers(message: Message) -> Headers:
    return tuple(cast("list[tuple[str, bytes | None]]", message.headers() or ()))
