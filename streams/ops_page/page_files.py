"""The files that a browser loads, and the headers that keep it to them.

They hold no data, so they are for anybody; what they load is not. No script or style stands in
the page itself and nothing comes from elsewhere, which is what the policy says; so a text that got
around the escaping would still run nothing.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final, NamedTuple

_TYPES: Final = {
    "page.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer."""


class PageFile(NamedTuple):
    """A file with its media type."""

    body: bytes
    content_type: str


def page_files() -> dict[str, PageFile]:
    """Return the files by the path that each is served at."""
    here = files(__package__)
    served = {
        f"/{name}": PageFile((here / name).read_bytes(), content_type)
        for name, content_type in _TYPES.items()
    }
    served["/"] = served.pop("/page.html")
    return served
