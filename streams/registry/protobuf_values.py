"""Protobuf values, without generated classes: the registry gives descriptors of the messages.

Only the fields that are wanted become values of Python. A number that is 0 and says nothing of its
presence is absent, as proto3 has it; a text without presence is "".
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from streams.registry.fetched_schema import Decode, FetchedSchema, bad_schema, not_of_schema

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

_FILE: Final = "value.proto"
_DEPTH_MAX: Final = 32
"""How deep a message may be declared in others."""
_VARINT_BYTES_MAX: Final = 5
_WRAPPED: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)


def protobuf_decoder(schema: FetchedSchema, names: Collection[str]) -> Decode:
    """Return what decodes a value of a schema; raises ``UnreadableError`` (``BAD_SCHEMA``).

    ``names``: the fields of a message that are wanted.
    """
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
    file.name = name  # the name that importers know it by
    return file


def _add(
    pool: DescriptorPool,
    file: FileDescriptorProto,
    imported: Mapping[str, FileDescriptorProto],
    done: set[str],
) -> None:
    """Add a file to a pool, after all that it imports. Raises ``KeyError`` for one not there."""
    done.add(file.name)
    for name in file.dependency:
        if name not in done:
            _add(pool, imported[name] if name in imported else _well_known(name), imported, done)
    pool.Add(file)


def _well_known(name: str) -> FileDescriptorProto:
    """Return a file that comes with Protobuf; raises ``KeyError`` for another."""
    # They are in the default pool once they are imported.
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from google.protobuf import (
        any_pb2,
        descriptor_pb2,
        descriptor_pool,
        duration_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
    from google.type import date_pb2, datetime_pb2

    _ = (any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
    _ = (date_pb2, datetime_pb2, meta_pb2)
    file = descriptor_pb2.FileDescriptorProto()
    descriptor_pool.Default().FindFileByName(name).CopyToProto(file)
    return file


def _indexes(content: bytes) -> tuple[tuple[int, ...], int]:
    """Return which message of the file a value is of, and where its bytes begin.

    A count and so many numbers, as varints in zigzag; a count of 0 stands for the first message.
    """
    count, start = _varint(content, 0)
    if not 0 <= count <= _DEPTH_MAX:
        raise not_of_schema("it does not say which message of its schema it is")
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
    raise not_of_schema("it does not say which message of its schema it is")


def _message(
    pool: DescriptorPool, file: FileDescriptorProto, indexes: tuple[int, ...]
) -> type[Message]:
    from google.protobuf.message_factory import GetMessageClass

    declared, path = file.message_type, [file.package] if file.package else []
    for index in indexes:
        if not 0 <= index < len(declared):
            raise not_of_schema("it is of a message that its schema does not have")
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
    """Return what a field holds: a ``dict`` for a message, a ``datetime`` for a ``Timestamp``."""
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
