"""A schema as the registry gave it, and values decoded by it: Avro, JSON, Protobuf.

confluent-kafka's deserialisers (2.16) do not replace this. They request a schema in the middle of a
batch, and keep all schemas. Theirs for Protobuf needs a generated class. None has the limits below.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC
from enum import StrEnum
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from simhash_core.errors import ErrorReason, FirstseenError
from simhash_core.verdicts import RejectionReason
from streams.documents.json_values import UnreadableError, decode_json

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message


# ---- A schema as the registry gave it, and the outcomes of fetching one.

Decode = Callable[[bytes], object]  # decodes a value's content; raises ``UnreadableError``


class Reference(NamedTuple):
    """A schema that another one refers to, by a name; for Protobuf a file name."""

    name: str
    text: str


class FetchedSchema(NamedTuple):
    kind: str  # AVRO, PROTOBUF or JSON
    text: str  # JSON, or for Protobuf a FileDescriptorProto in base64
    references: tuple[Reference, ...] = ()  # each after its own references


class RegistryUnavailableError(FirstseenError):
    reason = ErrorReason.TIMEOUT


class UnknownSchemaError(FirstseenError):
    reason = ErrorReason.FORMAT


class FetchOutcome(StrEnum):
    FETCHED = "fetched"
    UNKNOWN = "unknown"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"


def bad_schema(detail: str) -> UnreadableError:
    return UnreadableError(RejectionReason.BAD_SCHEMA, detail)


def not_of_schema(detail: str) -> UnreadableError:
    return UnreadableError(RejectionReason.NOT_OF_SCHEMA, detail)


# ---- Avro values, decoded by fastavro.
#
# fastavro decodes in C without limits. With a schema that contains itself, or has thousands of
# types in each other, a record overflows the stack and ends the process. With a list of items that
# take no bytes, ten bytes announce a trillion items; and thirty records, each with the one before
# it twice, are a billion values without bytes. These forms are refused.

_PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)


def avro_decoder(schema: FetchedSchema) -> Decode:
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


_AVRO_DEPTH_MAX: Final = 128  # of types in each other
_NULLS_MAX: Final = 128  # values without bytes that a record has, as nulls


class _Kind(NamedTuple):
    """What values of a schema may do to a decoder."""

    depth: int = 1  # of types in each other
    nulls: int = 0  # how many values without bytes it has; those of items and branches apart
    is_empty: bool = False  # it has no bytes at all


class _Check:
    """Checks a parsed schema, and makes decimals plain bytes; ``named`` has its named types."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._records: dict[str, _Kind] = {}

    def walk(self, schema: Any, path: tuple[str, ...]) -> _Kind:  # noqa: ANN401 - as JSON has them
        """Raise ``UnreadableError`` for a refused form; ``path`` has the enclosing types."""
        if isinstance(schema, list):  # the number of the branch takes a byte
            return _around([self.walk(branch, path) for branch in schema])
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            return self.walk(kind, path)
        if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
            # It stays bytes: fastavro takes a minute for a megabyte, and no field can have either.
            del schema["logicalType"]
        if kind in {"record", "error"}:
            return self._walk_record(schema, path)
        if kind in {"array", "map"}:
            items = self.walk(schema["items" if kind == "array" else "values"], path)
            if kind == "array" and items.is_empty:
                raise bad_schema("an array of items without bytes, so its length has no limit")
            return _around([items])
        if kind not in _PRIMITIVES and kind in self._named:
            if kind in path:
                raise _contains_itself(kind)
            return self.walk(self._named[kind], path)
        is_empty = kind == "null" or (kind == "fixed" and not schema["size"])
        return _Kind(nulls=int(is_empty), is_empty=is_empty)

    def _walk_record(self, schema: dict[str, Any], path: tuple[str, ...]) -> _Kind:
        name = schema["name"]
        if name in path:
            raise _contains_itself(name)
        if name not in self._records:
            fields = [self.walk(field["type"], (*path, name)) for field in schema["fields"]]
            is_empty = all(each.is_empty for each in fields)
            nulls = sum(each.nulls for each in fields) + is_empty
            if nulls > _NULLS_MAX:
                raise bad_schema(f"{name} has more than {_NULLS_MAX} values without bytes")
            self._records[name] = _around(fields, nulls, is_empty=is_empty)
        return self._records[name]


def _around(inner: Iterable[_Kind], nulls: int = 0, *, is_empty: bool = False) -> _Kind:
    depth = 1 + max((each.depth for each in inner), default=0)
    if depth > _AVRO_DEPTH_MAX:
        raise bad_schema(f"more than {_AVRO_DEPTH_MAX} types in each other")
    return _Kind(depth, nulls, is_empty)


def _contains_itself(name: str) -> UnreadableError:
    return bad_schema(f"{name} contains itself, so the depth of a value has no limit")


# ---- JSON values with a JSON Schema, validated by jsonschema.
#
# References that the registry did not give are not fetched, so a schema cannot make a worker
# contact other servers. Patterns are searched by ``regex``: Python's ``re`` may take hours for one
# line of text, and cannot be interrupted.

_SEARCH_SECONDS: Final = 0.25
"""How long the search for a pattern may take; most take microseconds."""


def json_decoder(schema: FetchedSchema, *, validate: bool) -> Decode:
    if not validate:
        return decode_json
    validator = _validator(schema)

    def decode(content: bytes) -> object:
        value = decode_json(content)
        try:
            error = next(validator.iter_errors(value), None)
        except TimeoutError:
            raise not_of_schema("a pattern of its JSON Schema takes too long on it") from None
        except Exception as failure:  # noqa: BLE001 - a reference that is not there, a regex, depth
            raise bad_schema(f"its JSON Schema cannot be used: {type(failure).__name__}") from None
        if error is not None:
            # The error's message repeats the value; the place of the rule does not.
            rule = "/".join(map(str, error.absolute_schema_path))
            raise not_of_schema(f"its JSON Schema does not allow it, by the rule {rule}")
        return value

    return decode


def _validator(schema: FetchedSchema) -> Any:  # noqa: ANN401 - jsonschema's protocol has no types
    from jsonschema import FormatChecker
    from jsonschema.validators import Draft7Validator, extend, validator_for
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT7

    try:
        registry: Registry[Any] = Registry()
        for reference in schema.references:
            content = msgspec.json.decode(reference.text)
            resource = Resource.from_contents(content, default_specification=DRAFT7)
            registry = registry.with_resource(reference.name, resource)
        parsed = msgspec.json.decode(schema.text)
        of_draft = validator_for(parsed, default=Draft7Validator)
        # Without formats, because jsonschema would check patterns by the rules of Python's ``re``.
        no_formats = FormatChecker(formats=())
        of_draft.check_schema(parsed, format_checker=no_formats)  # type: ignore[call-arg]
        bounded = extend(of_draft, _BOUNDED)  # type: ignore[no-untyped-call]
        return bounded(parsed, registry=registry)
    except Exception as error:  # noqa: BLE001 - a schema may be anything
        raise bad_schema(f"no JSON Schema: {type(error).__name__}") from None


def _unique_items(
    _validator: object, unique: object, items: object, _schema: object
) -> Iterator[Exception]:
    """Check that items differ; jsonschema compares each with each if they cannot be sorted."""
    from jsonschema import ValidationError

    if not (unique and isinstance(items, list)):
        return
    if len({json.dumps(_canonical(each), sort_keys=True) for each in items}) < len(items):
        yield ValidationError("items repeat")


def _pattern(
    _validator: object, pattern: str, text: object, _schema: object
) -> Iterator[Exception]:
    from jsonschema import ValidationError

    if isinstance(text, str) and not _is_in(pattern, text):
        yield ValidationError("it does not match")


def _pattern_properties(
    validator: Any,  # noqa: ANN401 - jsonschema's protocol has no types
    by_pattern: Mapping[str, object],
    value: object,
    _schema: object,
) -> Iterator[Exception]:
    if isinstance(value, dict):
        for pattern, inner in by_pattern.items():
            for name in [each for each in value if _is_in(pattern, each)]:
                yield from validator.descend(value[name], inner, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any,  # noqa: ANN401 - jsonschema's protocol has no types
    additional: object,
    value: object,
    schema: Mapping[str, Any],
) -> Iterator[Exception]:
    from jsonschema import ValidationError

    if not isinstance(value, dict):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    others = [name for name in value if name not in named]
    others = [name for name in others if not any(_is_in(each, name) for each in patterns)]
    if isinstance(additional, dict):
        for name in others:
            yield from validator.descend(value[name], additional, path=name)
    elif not additional and others:
        yield ValidationError("it has other properties")


def _is_in(pattern: str, text: str) -> bool:
    """Return whether a pattern is found in a text; raise ``TimeoutError``."""
    import regex

    return regex.search(pattern, text, timeout=_SEARCH_SECONDS) is not None


_BOUNDED: Final = {
    "uniqueItems": _unique_items,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
}
"""The rules of a JSON Schema that may take for ever, as jsonschema has them."""


def _canonical(value: object) -> object:
    """Return a value with one spelling for each number: 1.0 is 1."""
    if isinstance(value, dict):
        return {name: _canonical(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_canonical(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# ---- Protobuf values, without generated classes, by descriptors from the registry.
#
# Only wanted fields are converted. In proto3, fields may lack presence: then a number that is 0
# counts as absent, and an absent text is "".

_FILE: Final = "value, not a file"  # no other file is imported by this name
_DEPTH_MAX: Final = 32  # maximum nesting of declared messages
_VARINT_BYTES_MAX: Final = 5
_WRAPPED: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)


def protobuf_decoder(schema: FetchedSchema, names: Collection[str]) -> Decode:
    """Return a decoder of the fields ``names``; raise ``UnreadableError`` (``BAD_SCHEMA``)."""
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    try:
        imported = {each.name: _file(each.name, each.text) for each in schema.references}
        file = _file(_FILE, schema.text)
        _add(pool, file, imported, set())
    except Exception as error:  # noqa: BLE001 - a schema may be anything
        raise bad_schema(
            f"no descriptor of a Protobuf file ({type(error).__name__}): the registry must know "
            "the query format=serialized, and all imports must be among its references"
        ) from None
    wanted = frozenset(names)
    messages: dict[tuple[int, ...], type[Message]] = {}

    def decode(content: bytes) -> object:
        indexes, start = _indexes(content)
        if indexes not in messages:
            messages[indexes] = _message(pool, file, indexes)
        message = messages[indexes]()
        try:
            message.ParseFromString(content[start:])
            return {
                field.name: _value(message, field)
                for field in message.DESCRIPTOR.fields
                if field.name in wanted and _is_there(message, field)
            }
        except Exception as error:  # noqa: BLE001 - DecodeError, and times out of range
            raise not_of_schema(f"not Protobuf of its schema ({type(error).__name__})") from None

    return decode


def _file(name: str, text: str) -> FileDescriptorProto:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    file.name = name  # the name by which other files import it
    return file


def _add(
    pool: DescriptorPool,
    file: FileDescriptorProto,
    imported: Mapping[str, FileDescriptorProto],
    done: set[str],
) -> None:
    """Add a file to a pool after its imports. Raises ``KeyError`` for a missing one."""
    done.add(file.name)
    for name in file.dependency:
        if name not in done:
            _add(pool, imported[name] if name in imported else _well_known(name), imported, done)
    pool.Add(file)


def _well_known(name: str) -> FileDescriptorProto:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto()
    _importable().FindFileByName(name).CopyToProto(file)
    return file


@cache
def _importable() -> DescriptorPool:
    """Return a pool with the types of Google and Confluent that any schema may import."""
    from confluent_kafka.schema_registry.common.protobuf import _init_pool
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    _init_pool(pool)
    return pool


def _indexes(content: bytes) -> tuple[tuple[int, ...], int]:
    """Return the message's indexes in its file, and where the value's bytes begin.

    The encoding is a count and that many numbers, as zigzag varints; count 0 is the first message.
    """
    count, start = _varint(content, 0)
    if not 0 <= count <= _DEPTH_MAX:
        raise not_of_schema("it does not name its message in the schema")
    indexes = []
    for _ in range(count):
        number, start = _varint(content, start)
        indexes.append(number)
    return tuple(indexes) or (0,), start


def _varint(content: bytes, start: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(content[start : start + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            return (value >> 1) ^ -(value & 1), start + index + 1
    raise not_of_schema("it does not name its message in the schema")


def _message(
    pool: DescriptorPool, file: FileDescriptorProto, indexes: tuple[int, ...]
) -> type[Message]:
    from google.protobuf.message_factory import GetMessageClass

    declared, path = file.message_type, [file.package] if file.package else []
    for index in indexes:
        if not 0 <= index < len(declared):
            raise not_of_schema("its message is not in the schema")
        path.append(declared[index].name)
        declared = declared[index].nested_type
    descriptor = pool.FindMessageTypeByName(".".join(path))
    message_class: type[Message] = GetMessageClass(descriptor)
    return message_class


def _is_there(message: Message, field: FieldDescriptor) -> bool:
    if field.is_repeated:
        return True
    if field.has_presence:
        return bool(message.HasField(field.name))
    return field.type == field.TYPE_STRING or bool(getattr(message, field.name))


def _value(message: Message, field: FieldDescriptor) -> object:
    value = getattr(message, field.name)
    if not field.is_repeated:
        return _single(value, field)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        held = field.message_type.fields_by_name["value"]
        return {str(key): _single(value[key], held) for key in value}
    return [_single(each, field) for each in value]


def _single(value: Any, field: FieldDescriptor) -> object:  # noqa: ANN401 - of any type of Protobuf
    if field.type == field.TYPE_ENUM:
        member = field.enum_type.values_by_number.get(value)
        return value if member is None else member.name
    if field.message_type is None:
        return value
    kind = field.message_type.full_name
    if kind == "google.protobuf.Timestamp":
        return value.ToDatetime(tzinfo=UTC)
    if kind in _WRAPPED:
        return value.value
    if kind in {"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"}:
        from google.protobuf.json_format import MessageToDict

        return MessageToDict(value)
    return {
        each.name: _value(value, each)
        for each in field.message_type.fields
        if _is_there(value, each)
    }
