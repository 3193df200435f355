"""Decodes JSON from untrusted bytes, or refuses it with a reason.

The result depends only on the bytes, so that a record that is read again gives the same result:
nesting has its own limit, because the interpreter's limit depends on the caller. The fast decoder
refuses half a surrogate pair and ``1e400``, which RFC 8259 allows; the standard library decodes
these.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final

import msgspec

from simhash_core.verdicts import RejectionReason

NESTING_MAX: Final = 500  # the deepest nesting of lists and objects

_BYTE_ORDER_MARK: Final = "\ufeff"
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
# Matches a whole string, or one bracket; in valid JSON every string ends.
_STRING_OR_BRACKET: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_DETAIL_MAX: Final = 1_000  # characters of a reason
_DIGITS_MAX: Final = 4_300  # digits of an integer; the interpreter converts no longer integers

_TYPE_NAMES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "a boolean"),  # before int, because a bool is an int
    (int, "a number"),
    (float, "a number"),
    (str, "a string"),
    (list, "a list"),
    (dict, "an object"),
)

_decode = msgspec.json.Decoder().decode


class UnreadableError(Exception):
    """A value that cannot be read; it becomes a ``Rejection``.

    ``detail`` names the fix, never the body. It is cut, because it may quote a schema or a setting,
    and the topic of dead letters must have room for it.
    """

    def __init__(self, reason: RejectionReason, detail: str) -> None:
        self.reason = reason
        self.detail = detail if len(detail) <= _DETAIL_MAX else f"{detail[:_DETAIL_MAX]}…"
        super().__init__(f"{reason}: {self.detail}")


def decode_text(value: bytes) -> str:
    try:
        return value.decode().removeprefix(_BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise UnreadableError(
            RejectionReason.NOT_UTF8, f"not UTF-8 at byte {error.start}: encode records in UTF-8"
        ) from None


def decode_json(value: bytes) -> object:
    """Decode JSON, perhaps with lone surrogates; raise ``UnreadableError``."""
    try:
        decoded: object = _decode(value)
    except RecursionError:
        raise _nested_too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        decoded = _decode_again(value, error)
    # Counting brackets is cheap. Only if their number reaches the limit, find the depth.
    if value.count(b"[") + value.count(b"{") > NESTING_MAX and _nesting(value) > NESTING_MAX:
        raise _nested_too_deep()
    return decoded


def without_surrogates(text: str) -> str:
    """Remove lone surrogates; as normalisation removes them too, fingerprints do not change."""
    return text if is_encodable(text) else _SURROGATES.sub("", text)


def is_encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def type_named(value: object) -> str:
    if value is None:
        return "null"
    for kind, name in _TYPE_NAMES:
        if isinstance(value, kind):
            return name
    return f"a value of type {type(value).__name__}"  # bytes or a date, from Avro or Protobuf


def _decode_again(value: bytes, error: msgspec.DecodeError | UnicodeDecodeError) -> object:
    text = decode_text(value)
    if (
        isinstance(error, msgspec.ValidationError)  # well formed, but a number out of range
        or value.startswith(_BYTE_ORDER_MARK.encode())
        or _SURROGATE_ESCAPE.search(value)
    ):
        try:
            return json.loads(text, parse_int=_integer, parse_constant=_refuse_constant)
        except RecursionError:
            raise _nested_too_deep() from None
        except json.JSONDecodeError as second:
            raise _not_json(f"{second.msg} (character {second.pos})") from None
    raise _not_json(str(error)) from None


def _integer(digits: str) -> int | float:
    """Return infinity, which no field accepts, for an integer that is too long."""
    return int(digits) if len(digits) <= _DIGITS_MAX else math.inf


def _refuse_constant(name: str) -> object:
    raise _not_json(f"{name} is not JSON")


def _nesting(value: bytes) -> int:
    depth = deepest = 0
    for match in _STRING_OR_BRACKET.finditer(value):
        first = match[0]
        if first in (b"[", b"{"):
            depth += 1
            deepest = max(depth, deepest)
        elif first in (b"]", b"}"):
            depth -= 1
    return deepest


def _nested_too_deep() -> UnreadableError:
    return _not_json(f"lists and objects are nested more than {NESTING_MAX} deep")


def _not_json(detail: str) -> UnreadableError:
    return UnreadableError(RejectionReason.NOT_JSON, f"not JSON: {detail}")
