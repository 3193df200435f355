"""A schema as the registry gave it, and what fetching one can end with."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from simhash_core.errors import ErrorReason, FirstseenError
from simhash_core.rejections import RejectionReason
from streams.documents.json_values import UnreadableError

Decode = Callable[[bytes], object]
"""Decodes the content of a value; raises ``UnreadableError``."""


class Reference(NamedTuple):
    """A schema that another one refers to, by a name; for Protobuf the name of a file."""

    name: str
    text: str


class FetchedSchema(NamedTuple):
    """A schema with all that it refers to, each after what it refers to itself.

    ``kind``: ``AVRO``, ``PROTOBUF`` or ``JSON``. ``text``: JSON, or for Protobuf a
    ``FileDescriptorProto`` in base64.
    """

    kind: str
    text: str
    references: tuple[Reference, ...] = ()


class RegistryUnavailableError(FirstseenError):
    """The registry did not answer, or not what a registry answers; trying again may help."""

    reason = ErrorReason.TIMEOUT


class UnknownSchemaError(FirstseenError):
    """The registry answered that it has no such schema."""

    reason = ErrorReason.FORMAT


class FetchOutcome(StrEnum):
    """What fetching a schema ended with."""

    FETCHED = "fetched"
    UNKNOWN = "unknown"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"


def bad_schema(detail: str) -> UnreadableError:
    """Return the error for a schema that cannot be used."""
    return UnreadableError(RejectionReason.BAD_SCHEMA, detail)


def not_of_schema(detail: str) -> UnreadableError:
    """Return the error for a value that is not what its schema says."""
    return UnreadableError(RejectionReason.NOT_OF_SCHEMA, detail)
