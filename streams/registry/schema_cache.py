"""The fetched schemas of a process; missing ones are fetched before records are read."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Final, NamedTuple

from simhash_core.documents import Headers
from simhash_core.verdicts import RejectionReason
from streams.documents.fields import FieldSettings
from streams.documents.json_values import UnreadableError
from streams.documents.raw_documents import DocumentReader
from streams.documents.schema_framing import KEY, VALUE, Part, SchemaDecoders, SchemaId, unframed
from streams.errors import RegistryRefusedError
from streams.registry.registry_client import RegistryClient
from streams.registry.schemas import (
    Decode,
    FetchedSchema,
    FetchOutcome,
    RegistryUnavailableError,
    UnknownSchemaError,
    avro_decoder,
    bad_schema,
    json_decoder,
    protobuf_decoder,
)
from streams.settings.registry import schema_formats
from streams.settings.settings import Settings

SCHEMAS_MAX: Final = 1_000  # the least recently used goes first
UNKNOWN_SECONDS: Final = 10.0  # how long an id stays unknown before the registry is asked again

_KINDS: Final = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}


class _Known(NamedTuple):
    """The decoder of a schema, and when it expires."""

    decode: Decode
    until: float = math.inf


class SchemaCache:
    """Keeps schemas, and decodes by them; thread-safe."""

    def __init__(
        self,
        fields: FieldSettings,
        part: Part = VALUE,
        *,
        validate: bool = True,
        limit: int = SCHEMAS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The format of ``part`` is in ``SCHEMA_FORMATS``; ``validate``: apply JSON Schemas."""
        self._part = part
        self._format = schema_formats(fields)[part.setting]
        self._validate = validate
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[SchemaId, _Known] = OrderedDict()
        names = (getattr(fields, name) for name in fields.__struct_fields__)
        self._names = {part for name in names for part in (name, name.partition(".")[0])}

    def missing(self, framed: Iterable[tuple[Headers, bytes]]) -> list[SchemaId]:
        """Return the schemas to fetch first; mark the others as just used."""
        wanted = self.schemas_of(framed)
        now = self._clock()
        with self._lock:
            missing = []
            for schema in wanted:
                known = self._known.get(schema)
                if known is None or known.until <= now:
                    missing.append(schema)
                else:
                    self._known.move_to_end(schema)
            return missing

    def keep(self, schema: SchemaId, fetched: FetchedSchema) -> None:
        try:
            decode = self._decoder(schema, fetched)
        except UnreadableError as error:
            decode = _refusing(error.reason, error.detail)
        self._put(schema, _Known(decode))

    def keep_unknown(self, schema: SchemaId, why: str) -> None:
        decode = _refusing(
            RejectionReason.UNKNOWN_SCHEMA,
            f"the schema registry has no schema {schema} ({why}): register it, and replay the "
            "record; or set registry.url to the registry of the senders",
        )
        self._put(schema, _Known(decode, self._clock() + UNKNOWN_SECONDS))

    def trim(self, in_use: Collection[SchemaId]) -> None:
        """Forget the least recently used schemas beyond the limit, but none of ``in_use``."""
        with self._lock:
            for schema in [each for each in self._known if each not in in_use]:
                if len(self._known) <= self._limit:
                    return
                del self._known[schema]

    def schemas_of(self, framed: Iterable[tuple[Headers, bytes]]) -> dict[SchemaId, None]:
        schemas: dict[SchemaId, None] = {}
        for headers, data in framed:
            with suppress(UnreadableError):
                schemas[unframed(headers, data, self._part)[0]] = None
        return schemas

    def decode(self, headers: Headers, data: bytes) -> object:
        schema, content = unframed(headers, data, self._part)
        known = self._known.get(schema)
        if known is None:
            raise UnreadableError(
                RejectionReason.UNKNOWN_SCHEMA, f"the schema {schema} was not fetched"
            )
        return known.decode(content)

    def _put(self, schema: SchemaId, known: _Known) -> None:
        with self._lock:
            self._known[schema] = known
            self._known.move_to_end(schema)

    def _decoder(self, schema: SchemaId, fetched: FetchedSchema) -> Decode:
        if fetched.kind != _KINDS[self._format]:
            raise bad_schema(
                f"the schema {schema} is of the kind {fetched.kind}, and {self._part.setting} is "
                f"{self._format}"
            )
        if self._format == "avro":
            return avro_decoder(fetched)
        if self._format == "protobuf":
            return protobuf_decoder(fetched, self._names)
        return json_decoder(fetched, validate=self._validate)


def _refusing(reason: RejectionReason, detail: str) -> Decode:
    def refuse(_: bytes) -> object:
        raise UnreadableError(reason, detail)

    return refuse


# ---- Fetches schemas into the cache, for workers and for commands.

AGAIN_SECONDS: Final = 0.25
"""Seconds before an unknown schema is requested again: a new schema may not have reached all
servers of a registry."""


def fetch_into(
    cache: SchemaCache,
    fetch: Callable[[SchemaId], FetchedSchema],
    schemas: Sequence[SchemaId],
    count: Callable[[FetchOutcome], object] = lambda _: None,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Fetch schemas into a cache, or mark them as unknown; ``count`` gets each outcome. Blocking.

    Raises ``RegistryUnavailableError`` or ``RegistryRefusedError``, and keeps what was fetched
    before.
    """

    def why_unknown(schema: SchemaId) -> str | None:
        try:
            fetched = fetch(schema)
        except UnknownSchemaError as error:
            return str(error)
        except RegistryUnavailableError:
            count(FetchOutcome.UNAVAILABLE)
            raise
        except RegistryRefusedError:
            count(FetchOutcome.REFUSED)
            raise
        count(FetchOutcome.FETCHED)
        cache.keep(schema, fetched)
        return None

    unknown = [each for each in schemas if why_unknown(each) is not None]
    if any(each.is_possible for each in unknown):
        pause(AGAIN_SECONDS)
    for schema in unknown:
        why = why_unknown(schema)
        if why is not None:
            count(FetchOutcome.UNKNOWN)
            cache.keep_unknown(schema, why)


class BlockingSchemas:
    """Decodes for a command, waiting for each schema on a new connection; for one thread."""

    def __init__(self, connect: Callable[[], RegistryClient], cache: SchemaCache) -> None:
        self._connect = connect
        self._cache = cache

    def decode(self, headers: Headers, data: bytes) -> object:
        """Decode a value; also raise what ``fetch_into`` raises."""
        missing = self._cache.missing([(headers, data)])
        if missing:
            with closing(self._connect()) as client:
                fetch_into(self._cache, client.fetch, missing)
            self._cache.trim(missing)
        return self._cache.decode(headers, data)


def command_reader(settings: Settings, max_record_bytes: int) -> DocumentReader:
    """Return a reader for a command; it may raise ``RegistryUnavailableError``."""
    formats = schema_formats(settings.fields)

    def decoder(part: Part) -> BlockingSchemas | None:
        if part.setting not in formats:
            return None
        cache = SchemaCache(settings.fields, part, validate=settings.registry.validate)
        connect = partial(RegistryClient, settings.registry, formats[part.setting])
        return BlockingSchemas(connect, cache)

    schemas = SchemaDecoders(decoder(VALUE), decoder(KEY))
    return DocumentReader(settings.fields, max_record_bytes, schemas)
