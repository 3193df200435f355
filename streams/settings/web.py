"""The settings of a worker's pages, and who may see them.

Health and metrics hold figures; the ops page shows texts. So a worker that listens on more than
the loopback has a token, or serves no more than its monitoring.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

MIB: Final = 1024 * 1024
_EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not listened on

_TOKEN: Final = "^[!-~]{16,256}$"  # noqa: S105 - what one looks like

_URL: Final = r"^https?://[!-~]+$"
_URL_CHARACTERS: Final = 300

_OPEN_TO_ALL: Final = (
    "beyond the loopback the pages need a token: set web.token_file (or web.token). Or set "
    "web.open_monitoring=true, which serves /healthz, /readyz and /metrics to all, and nothing "
    "else; or web.host=127.0.0.1"
)


class WebSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pages of a worker: health, metrics, operations."""

    enabled: Annotated[bool, Meta(description="Whether a worker serves its pages.")] = True
    host: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=253,
            description="Address to listen on. Any address but the loopback needs web.token, "
            "web.token_file or web.open_monitoring.",
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65_535, description="Port to listen on.")] = 6066
    url: Annotated[
        Annotated[str, Meta(pattern=_URL, max_length=_URL_CHARACTERS)] | None,
        Meta(
            extra={"expected": "a URL that begins with http:// or https://", "default": "none"},
            description="Address of this worker's page for links on other workers' pages. "
            "Without it, web.host and web.port, with the machine's name for a host such as "
            "0.0.0.0.",
        ),
    ] = None
    token: Annotated[
        Annotated[str, Meta(pattern=_TOKEN)] | None,
        Meta(
            extra={"expected": "16 to 256 characters, visible ASCII", "default": "none"},
            description="Token that clients must send as 'Authorization: Bearer …'. Secret.",
        ),
    ] = None
    token_file: Annotated[
        str | None,
        Meta(
            extra={"expected": "a path", "default": "none"},
            description="A file that holds the token, instead of web.token.",
        ),
    ] = None
    open_monitoring: Annotated[
        bool,
        Meta(
            description="Whether /healthz, /readyz and /metrics answer without the token. "
            "Without a token, a worker that does not listen on the loopback serves only these."
        ),
    ] = False
    recent_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=1024 * MIB,
            description="Memory for the texts that the ops page shows; 0: no texts.",
        ),
    ] = 16 * MIB

    def __repr__(self) -> str:
        """Every setting but the token."""
        shown = msgspec.structs.asdict(self) | {"token": self.token and "(set)"}
        return f"WebSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the pages."""
        return is_loopback(self.host)

    @property
    def page_url(self) -> str | None:
        """Where others reach the page of this worker; None where it has none."""
        if not self.serves_data:
            return None
        if self.url is not None:
            return self.url
        host = self.host.strip("[]")
        if host in _EVERY_ADDRESS:
            host = socket.gethostname()
        return f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"

    @property
    def has_token(self) -> bool:
        """Whether a token is set, here or in a file."""
        return self.token is not None or self.token_file is not None

    @property
    def serves_data(self) -> bool:
        """Whether more is served than monitoring."""
        return self.enabled and (self.on_loopback or self.has_token)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each setting that does not fit the others, and what it must be."""
        if self.token is not None and self.token_file is not None:
            yield "token_file", "the token is given twice, by web.token as well: choose one"
        if self.enabled and not (self.on_loopback or self.has_token or self.open_monitoring):
            yield "host", _OPEN_TO_ALL


def is_loopback(host: str) -> bool:
    """Return whether a name or an address is this machine's own, by itself (nothing is asked)."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
