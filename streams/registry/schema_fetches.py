"""Schemas fetched into the cache: one round of questions to the registry, and a command's wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Final, Protocol

from simhash_core.documents import Headers
from streams.documents.raw_documents import DocumentReader
from streams.documents.schema_framing import KEY, VALUE, Part, SchemaDecoders, SchemaId
from streams.errors import RegistryRefusedError
from streams.registry.fetched_schema import (
    FetchedSchema,
    FetchOutcome,
    RegistryUnavailableError,
    UnknownSchemaError,
)
from streams.registry.registry_client import RegistryClient
from streams.registry.schema_cache import SchemaCache
from streams.settings.registry import schema_formats
from streams.settings.settings import Settings

AGAIN_SECONDS: Final = 0.25
"""Before the registry is asked a second time for a schema that it does not know: one that was
registered a moment ago may not have reached all servers of a registry."""


class Registry(Protocol):
    """A ``RegistryClient``."""

    def fetch(self, schema: SchemaId) -> FetchedSchema:
        """Return a schema; raises as ``RegistryClient.fetch``."""
        ...


class SchemaFetches:
    """Fetches schemas; one thread at a time. ``count`` is called with each outcome."""

    def __init__(
        self,
        registry: Registry,
        cache: SchemaCache,
        count: Callable[[FetchOutcome], object] = lambda _: None,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._registry = registry
        self._cache = cache
        self._count = count
        self._pause = pause

    def fetch(self, schemas: Sequence[SchemaId]) -> None:
        """Fetch schemas into the cache, each as it is or as unknown. Blocking.

        Raises ``RegistryUnavailableError`` where the registry does not answer, and
        ``RegistryRefusedError`` where it refuses the user: those that it gave before are kept.
        """
        unknown = {each: "" for each in schemas if self._fetch_one(each) is not None}
        if any(each.is_possible for each in unknown):
            self._pause(AGAIN_SECONDS)
        for schema in unknown:
            why = self._fetch_one(schema)
            if why is not None:
                self._count(FetchOutcome.UNKNOWN)
                self._cache.keep_unknown(schema, why)

    def _fetch_one(self, schema: SchemaId) -> str | None:
        """Fetch a schema; return why the registry does not know it, or None where it does."""
        try:
            fetched = self._registry.fetch(schema)
        except UnknownSchemaError as error:
            return str(error)
        except RegistryUnavailableError:
            self._count(FetchOutcome.UNAVAILABLE)
            raise
        except RegistryRefusedError:
            self._count(FetchOutcome.REFUSED)
            raise
        self._count(FetchOutcome.FETCHED)
        self._cache.keep(schema, fetched)
        return None


class BlockingSchemas:
    """Decodes values or keys for a command, which may wait for each schema. One thread at a time.

    A command sees few schemas, so it has no connection between them.
    """

    def __init__(self, connect: Callable[[], RegistryClient], cache: SchemaCache) -> None:
        self._connect = connect
        self._cache = cache

    def decode(self, headers: Headers, data: bytes) -> object:
        """Implement ``SchemaDecoder``.

        Raises ``RegistryUnavailableError`` too, where the registry does not answer, and
        ``RegistryRefusedError``.
        """
        missing = self._cache.missing([(headers, data)])
        if missing:
            with closing(self._connect()) as client:
                SchemaFetches(client, self._cache).fetch(missing)
            self._cache.trim(missing)
        return self._cache.decode(headers, data)


def command_reader(settings: Settings, max_record_bytes: int) -> DocumentReader:
    """Return a reader for a command, which fetches schemas as it sees them.

    It raises ``RegistryUnavailableError`` where the registry does not answer.
    """
    formats = schema_formats(settings.fields)

    def decoder(part: Part) -> BlockingSchemas | None:
        if part.setting not in formats:
            return None
        cache = SchemaCache(settings.fields, part, validate=settings.registry.validate)
        connect = partial(RegistryClient, settings.registry, formats[part.setting])
        return BlockingSchemas(connect, cache)

    schemas = SchemaDecoders(decoder(VALUE), decoder(KEY))
    return DocumentReader(settings.fields, max_record_bytes, schemas)
