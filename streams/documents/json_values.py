"""Bytes to JSON values, for input that may be anything: it is read, or refused with a reason.

Whether a value is read depends on its bytes alone, so that a record read again gets the same
answer: nesting has a limit of its own (the interpreter's depends on who calls). What the fast
decoder refuses though JSON's grammar (RFC 8259) allows it, half a surrogate pair or ``1e400``, is
given to the standard library's.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final

import msgspec

from simhash_core.rejections import RejectionReason

NESTING_MAX: Final = 500
"""How deep lists and objects may stand in each other."""

_BYTE_ORDER_MARK: Final = "\ufeff"
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
# A whole string, or one bracket. For valid JSON only: there every string has its end.
_STRING_OR_BRACKET: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_DIGITS_MAX: Final = 4_300  # of an integer; the interpreter converts no longer ones

_TYPE_NAMES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "a boolean"),  # before int, of which it is one
    (int, "a number"),
    (float, "a number"),
    (str, "a string"),
    (list, "a list"),
    (dict, "an object"),
)

_decode = msgspec.json.Decoder().decode


class UnreadableError(Exception):
    """A value that cannot be read, on its way to become a ``Rejection``."""

    def __init__(self, reason: RejectionReason, detail: str) -> None:
        """Keep the reason, and the detail for people: it names the fix, never the body."""
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}")


def decode_text(value: bytes) -> str:
    """Return ``value`` as UTF-8 text, without a byte order mark.

    Raises ``UnreadableError`` (``NOT_UTF8``) with the place of the first wrong byte.
    """
    try:
        return value.decode().removeprefix(_BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise UnreadableError(
            RejectionReason.NOT_UTF8, f"not UTF-8 at byte {error.start}: encode records in UTF-8"
        ) from None


def decode_json(value: bytes) -> object:
    """Return the JSON value that ``value`` spells; strings in it may hold lone surrogates.

    Raises ``UnreadableError`` (``NOT_UTF8`` or ``NOT_JSON``). Of a name that stands twice in one
    object, the last is taken.
    """
    try:
        decoded: object = _decode(value)
    except RecursionError:
        raise _nested_too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        decoded = _decode_again(value, error)
    # Counting is nearly free, and seldom passes: only then is the depth worth finding out.
    if value.count(b"[") + value.count(b"{") > NESTING_MAX and _nesting(value) > NESTING_MAX:
        raise _nested_too_deep()
    return decoded


def without_surrogates(text: str) -> str:
    """Return ``text`` less its lone surrogates, so that it can be encoded.

    Normalisation drops them as well, so a document's fingerprint does not change by it.
    """
    return text if is_encodable(text) else _SURROGATES.sub("", text)


def is_encodable(text: str) -> bool:
    """Return whether ``text`` can be encoded as UTF-8: whether it holds no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def type_named(value: object) -> str:
    """Return the type of a decoded value in words, for messages."""
    if value is None:
        return "null"
    for kind, name in _TYPE_NAMES:
        if isinstance(value, kind):
            return name
    return f"a value of type {type(value).__name__}"  # of Avro or Protobuf: bytes, a date


def _decode_again(value: bytes, error: msgspec.DecodeError | UnicodeDecodeError) -> object:
    """Decode what the fast decoder refused with ``error``, or say what is wrong with it."""
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
    """Return an integer; infinity, which no field accepts, for one beyond conversion."""
    return int(digits) if len(digits) <= _DIGITS_MAX else math.inf


def _refuse_constant(name: str) -> object:
    raise _not_json(f"{name} is not JSON")


def _nesting(value: bytes) -> int:
    """Return how deep lists and objects stand in each other; ``value`` is valid JSON."""
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
