"""Unwraps CloudEvents 1.0 in both Kafka modes; other records stay as they are.

*Binary* mode: the attributes are headers ``ce_…``, the value is the data. *Structured* mode: the
``content-type`` is ``application/cloudevents+json``, and the value is an object with attributes and
``data`` or ``data_base64``. Source: CloudEvents 1.0.2, Kafka protocol binding, section 3, and JSON
event format, section 3.1.2.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final, NamedTuple

from simhash_core.documents import RawRecord
from simhash_core.verdicts import RejectionReason
from streams.documents.json_values import (
    UnreadableError,
    decode_json,
    type_named,
    without_surrogates,
)

SPEC_VERSION: Final = "1.0"
TEXT_PLAIN: Final = "text/plain"
_STRUCTURED_PREFIX: Final = "application/cloudevents"
_STRUCTURED_JSON: Final = "application/cloudevents+json"
_REQUIRED: Final = ("id", "source", "type")
_HEADER_PREFIX: Final = "ce_"


class Content(NamedTuple):
    data: object  # undecoded bytes, or a JSON value from an envelope
    media_type: str = ""  # in lower case, without parameters; "": none
    event_id: str | None = None
    event_time: str | None = None


def unwrap(record: RawRecord, value: bytes) -> Content:
    """Return the content of ``record``, whose value is ``value``; raise ``UnreadableError``."""
    if not record.headers:
        return Content(value)
    media_type = ""
    attributes: dict[str, bytes | None] = {}
    for name, header in record.headers:
        # The last of repeated headers counts, as for Kafka's own clients.
        if name.startswith(_HEADER_PREFIX):
            attributes[name] = header
        elif name.lower() == "content-type":
            media_type = _media_type((header or b"").decode(errors="replace"))
    if media_type.startswith(_STRUCTURED_PREFIX):
        return _structured(value, media_type)
    if "ce_specversion" in attributes:
        return _binary(attributes, value, media_type)
    return Content(value, media_type)


def _binary(headers: Mapping[str, bytes | None], value: bytes, media_type: str) -> Content:
    try:
        attributes = {name: header.decode() for name, header in headers.items() if header}
    except UnicodeDecodeError:
        raise _bad("a ce_ header is not UTF-8") from None
    event_id = _check_required(attributes, _HEADER_PREFIX)
    return Content(value, media_type, event_id, attributes.get("ce_time"))


def _structured(value: bytes, media_type: str) -> Content:
    if media_type != _STRUCTURED_JSON:
        raise _bad(f"the only supported event format is {_STRUCTURED_JSON}, one event per record")
    envelope = decode_json(value)
    if not isinstance(envelope, dict):
        raise UnreadableError(
            RejectionReason.NOT_AN_OBJECT,
            f"the CloudEvent is {type_named(envelope)}: its envelope must be an object",
        )
    event_id = _check_required(envelope, "")
    time, data_type = (_optional(envelope, name) for name in ("time", "datacontenttype"))
    data_type = _media_type(data_type or "")
    return Content(_data(envelope, data_type), data_type, event_id, time)


def _data(envelope: Mapping[str, object], media_type: str) -> object:
    data, encoded = envelope.get("data"), envelope.get("data_base64")
    if encoded is None:
        is_json = not media_type or media_type.endswith(("/json", "+json"))
        if is_json or data is None:
            return data
        if not isinstance(data, str):
            raise _bad(f'"data" is {type_named(data)}: its datacontenttype makes it a string')
        return without_surrogates(data).encode()
    if data is not None:
        raise _bad('both "data" and "data_base64" are present: remove one')
    try:
        if isinstance(encoded, str):
            return base64.b64decode(encoded.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        pass
    raise _bad('"data_base64" is not base64')


def _check_required(attributes: Mapping[str, object], prefix: str) -> str:
    if attributes.get(f"{prefix}specversion") != SPEC_VERSION:
        raise _bad(f'"{prefix}specversion" must be "{SPEC_VERSION}"')
    for name in _REQUIRED:
        value = attributes.get(f"{prefix}{name}")
        if not isinstance(value, str) or not value:
            raise _bad(f'"{prefix}{name}" is required, and must be a string that is not empty')
    return str(attributes[f"{prefix}id"])


def _optional(attributes: Mapping[str, object], name: str) -> str | None:
    value = attributes.get(name)
    if value is not None and not isinstance(value, str):
        raise _bad(f'"{name}" is {type_named(value)}: it must be a string')
    return value


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _bad(detail: str) -> UnreadableError:
    return UnreadableError(RejectionReason.BAD_CLOUDEVENT, f"CloudEvent: {detail}")
