"""Avro values: by fastavro, once it is certain that no bytes can stop the decoder.

fastavro decodes in C, and has no limit of its own. A schema that contains itself lets a record of
some thousand bytes overflow the stack, which ends the process; a list of items that take no bytes
lets a record of ten name a trillion of them. Schemas of these two forms are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

import msgspec

from streams.documents.json_values import UnreadableError
from streams.registry.fetched_schema import Decode, FetchedSchema, bad_schema, not_of_schema

_PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)


def avro_decoder(schema: FetchedSchema) -> Decode:
    """Return what decodes a value of a schema; raises ``UnreadableError`` (``BAD_SCHEMA``)."""
    from fastavro import parse_schema, schemaless_reader

    named: dict[str, Any] = {}
    try:
        for reference in schema.references:
            parse_schema(msgspec.json.decode(reference.text), named)
        parsed = parse_schema(msgspec.json.decode(schema.text), named)
        _Check(named).walk(parsed, ())
    except UnreadableError:
        raise
    except Exception as error:  # noqa: BLE001 - a schema may be anything
        raise bad_schema(f"no Avro schema: {type(error).__name__}: {error}") from None

    def decode(content: bytes) -> object:
        stream = BytesIO(content)
        try:
            value: object = schemaless_reader(stream, parsed, None)
        except Exception as error:  # noqa: BLE001 - fastavro raises a dozen kinds for wrong bytes
            raise not_of_schema(f"not Avro of its schema ({type(error).__name__})") from None
        if left := len(content) - stream.tell():
            raise not_of_schema(f"{left} bytes are left after the value that its schema describes")
        return value

    return decode


class _Check:
    """Goes through a parsed schema; ``named`` has the types that have names."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._done: set[str] = set()

    def walk(self, schema: Any, path: tuple[str, ...]) -> None:  # noqa: ANN401 - as JSON has them
        """Raise ``UnreadableError`` for a form that is refused; ``path``: the types around."""
        if isinstance(schema, list):
            for branch in schema:
                self.walk(branch, path)
            return
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            self.walk(kind, path)
        elif kind in {"record", "error"}:
            self._walk_record(schema, path)
        elif kind == "array":
            if self._is_empty(schema["items"]):
                raise bad_schema("an array of items that take no bytes: its length has no limit")
            self.walk(schema["items"], path)
        elif kind == "map":
            self.walk(schema["values"], path)
        elif isinstance(kind, str) and kind in self._named:
            if kind in path:
                raise bad_schema(f"{kind} contains itself: how deep a value goes has no limit")
            self.walk(self._named[kind], path)

    def _walk_record(self, schema: dict[str, Any], path: tuple[str, ...]) -> None:
        name = schema["name"]
        if name in path:
            raise bad_schema(f"{name} contains itself: how deep a value goes has no limit")
        if name in self._done:
            return
        for field in schema["fields"]:
            self.walk(field["type"], (*path, name))
        self._done.add(name)

    def _is_empty(self, schema: Any) -> bool:  # noqa: ANN401 - as JSON has them
        """Return whether a value of a schema takes no bytes."""
        if isinstance(schema, list):  # the number of the branch takes one
            return False
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict):
            return self._is_empty(kind)
        if kind == "fixed":
            return not schema["size"]
        if kind in {"record", "error"}:
            return all(self._is_empty(field["type"]) for field in schema["fields"])
        if isinstance(kind, str) and kind not in _PRIMITIVES and kind in self._named:
            return self._is_empty(self._named[kind])
        return bool(kind == "null")
