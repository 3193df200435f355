"""Records that no reader can make a document of: what real topics carry sooner or later."""

from __future__ import annotations

import json
import random

from streams.corpus.draws import integer, pick
from streams.corpus.generated import EditKind

_LOG_LINES = (
    "ERROR 504 upstream timed out while reading the feed",
    "<html><head><title>502 Bad Gateway</title></head></html>",
    "id,title,text\n17,晨报,内容缺失",
    "正在维护，请稍后再试",
    "{'id': 'a1', 'text': 'single quotes'}",
    "\x00\x01\x02\x03",
)


def broken_value(rng: random.Random, kind: EditKind, fields: dict[str, object]) -> bytes:
    """Break a record of these JSON fields in the way of the kind.

    Raises:
        ValueError: the kind is not one of broken bytes.
    """
    whole = json.dumps(fields, ensure_ascii=False)
    match kind:
        case EditKind.NOT_JSON:
            return pick(rng, _LOG_LINES).encode()
        case EditKind.TRUNCATED_JSON:
            value = whole[: integer(rng, len(whole) // 4, len(whole) - 2)]
        case EditKind.JSON_ARRAY:
            value = json.dumps([fields["id"], fields["text"]], ensure_ascii=False)
        case EditKind.TEXT_MISSING:
            value = json.dumps({name: fields[name] for name in fields if name != "text"})
        case EditKind.TEXT_NUMBER:
            value = json.dumps(fields | {"text": integer(rng, 0, 99_999)})
        case EditKind.INVALID_UTF8:
            return _in_another_encoding(whole)
        case _:
            raise ValueError(f"{kind!r} is not a kind of broken bytes")
    return value.encode()


def _in_another_encoding(whole: str) -> bytes:
    """Encode Chinese as old feeds do; in English text, lose a byte of a sign on the way."""
    if any(sign >= "\u4e00" for sign in whole):
        return whole.encode("gb18030")
    return whole.encode().replace(b'"text": "', b'"text": "\xe2\x80', 1)
