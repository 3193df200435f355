"""A record as a JSON value, for people and for schemas: bytes become text, or base64 by name."""

from __future__ import annotations

import base64

from simhash_core.documents import Headers

BytesView = str | dict[str, str] | None


def record_view(
    key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers
) -> dict[str, object]:
    """Return ``{"key", "value", "timestamp_ms", "headers": [{"name", "value"}]}``."""
    return {
        "key": bytes_view(key),
        "value": bytes_view(value),
        "timestamp_ms": timestamp_ms,
        "headers": [{"name": name, "value": bytes_view(header)} for name, header in headers],
    }


def bytes_view(raw: bytes | None) -> BytesView:
    """Return UTF-8 as a string, other bytes as ``{"base64": …}``, null as None."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
