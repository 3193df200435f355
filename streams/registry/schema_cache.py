"""The schemas that a process has fetched, at most so many; values or keys are decoded by them.

What is not in the cache is fetched before records are read (``missing``), never while they are.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from simhash_core.documents import Headers
from simhash_core.rejections import RejectionReason
from streams.documents.fields import FieldSettings
from streams.documents.json_values import UnreadableError
from streams.documents.schema_framing import VALUE, Part, SchemaId, unframed
from streams.registry.avro_values import avro_decoder
from streams.registry.fetched_schema import Decode, FetchedSchema, bad_schema
from streams.registry.json_schema_values import json_decoder
from streams.registry.protobuf_values import protobuf_decoder
from streams.settings.registry import schema_formats

SCHEMAS_MAX: Final = 1_000
"""Schemas that are kept; the one that was used longest ago goes first."""
UNKNOWN_SECONDS: Final = 10.0
"""How long an id stays unknown before the registry is queried again."""

_KINDS: Final = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}


class _Known(NamedTuple):
    """What decodes values of a schema, until a time of the clock; None: for good."""

    decode: Decode
    until: float | None


class SchemaCache:
    """Keeps schemas, and decodes by them. From any thread."""

    def __init__(
        self,
        fields: FieldSettings,
        part: Part = VALUE,
        *,
        validate: bool = True,
        limit: int = SCHEMAS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The format of ``part`` is one of ``SCHEMA_FORMATS``; ``validate``: by JSON Schemas."""
        self._part = part
        self._format = schema_formats(fields)[part.setting]
        self._validate = validate
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[SchemaId, _Known] = OrderedDict()
        names = (getattr(fields, name) for name in fields.__struct_fields__)
        self._names = {part for name in names for part in (name, name.partition(".")[0])}

    def __len__(self) -> int:
        """How many are kept, unknown ones among them."""
        return len(self._known)

    def missing(self, framed: Iterable[tuple[Headers, bytes]]) -> list[SchemaId]:
        """Return the schemas of values or keys that must be fetched before these can be decoded.

        Those that are there become the ones that were used last.
        """
        wanted = self.schemas_of(framed)
        now = self._clock()
        with self._lock:
            missing = []
            for schema in wanted:
                known = self._known.get(schema)
                if known is None or (known.until is not None and known.until <= now):
                    missing.append(schema)
                else:
                    self._known.move_to_end(schema)
            return missing

    def keep(self, schema: SchemaId, fetched: FetchedSchema) -> None:
        """Keep a schema; one that cannot be used is kept as such."""
        try:
            decode = self._decoder(schema, fetched)
        except UnreadableError as error:
            decode = _refusing(error.reason, error.detail)
        self._put(schema, _Known(decode, None))

    def keep_unknown(self, schema: SchemaId, why: str) -> None:
        """Keep for a while that the registry has no such schema."""
        decode = _refusing(
            RejectionReason.UNKNOWN_SCHEMA,
            f"the schema registry has no schema {schema} ({why}): register it, and replay the "
            "record; or set registry.url to the registry of those who send",
        )
        self._put(schema, _Known(decode, self._clock() + UNKNOWN_SECONDS))

    def trim(self, in_use: Collection[SchemaId]) -> None:
        """Forget the oldest beyond the limit; but none of ``in_use``, however many those are."""
        with self._lock:
            for schema in [each for each in self._known if each not in in_use]:
                if len(self._known) <= self._limit:
                    return
                del self._known[schema]

    def schemas_of(self, framed: Iterable[tuple[Headers, bytes]]) -> dict[SchemaId, None]:
        """Return schemas, each once, in order; what has none is left out."""
        schemas: dict[SchemaId, None] = {}
        for headers, data in framed:
            with suppress(UnreadableError):
                schemas[unframed(headers, data, self._part).schema] = None
        return schemas

    def decode(self, headers: Headers, data: bytes) -> object:
        """Implement ``SchemaDecoder``."""
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
