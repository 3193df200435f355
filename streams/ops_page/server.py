"""The worker's own pages: the ops page with its API, ``/healthz``, ``/readyz``, ``/metrics``.

They are served from threads of their own, so that they answer while the worker is busy.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self

from simhash_core.errors import FirstseenError
from streams.monitoring.metrics import CONTENT_TYPE
from streams.ops_page.access import Access, Area, Refusal
from streams.ops_page.api import JSON, Answer, refused
from streams.ops_page.page import OpsPage
from streams.ops_page.page_files import SECURITY_HEADERS, page_files
from streams.settings.settings import Settings

logger = logging.getLogger(__name__)

_TEXT: Final = "text/plain; charset=utf-8"
_REQUEST_SECONDS: Final = 5.0
_CONNECTIONS_LIMIT: Final = 64
_LINGER_SECONDS: Final = 1.0
_LINGER_BYTES: Final = 16 * 1024 * 1024
_LINGER_BLOCK_BYTES: Final = 256 * 1024
_MONITORING: Final = frozenset({"/metrics", "/healthz", "/readyz"})
_CHECK: Final = "/api/check"


class PortInUseError(FirstseenError):
    """The address for the pages cannot be listened on; the message names it and the setting."""


class OpsServer:
    """Serves the pages of one worker while it is entered; does nothing when ``web`` is off."""

    def __init__(self, settings: Settings, page: OpsPage) -> None:
        """Listen at once, so that a port in use is found before anything else starts.

        Raises ``PortInUseError``, and ``SettingsError`` for a file that holds no token.
        """
        self._server: _Server | None = None
        if not settings.web.enabled:
            return
        access = Access(settings.web)
        address = (settings.web.host, settings.web.port)
        try:
            self._server = _Server(address, page, access)
        except OSError as error:
            raise PortInUseError(
                f"cannot listen on {address[0]}:{address[1]} for the worker's pages: "
                f"{error.strerror}. Choose another with web.port, or none with web.enabled=false"
            ) from error

    @property
    def url(self) -> str | None:
        """The address of the ops page; None when there are no pages."""
        if self._server is None:
            return None
        host = str(self._server.server_address[0])
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self._server.server_port}/"

    def __enter__(self) -> Self:
        """Begin to answer."""
        if self._server is not None:
            thread = threading.Thread(target=self._server.serve_forever, daemon=True, name="ops")
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop answering and free the port."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = _CONNECTIONS_LIMIT

    def __init__(self, address: tuple[str, int], page: OpsPage, access: Access) -> None:
        self.page = page
        self.access = access
        self.files = page_files()
        self._connections = threading.BoundedSemaphore(_CONNECTIONS_LIMIT)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__((address[0].strip("[]"), address[1]), _Handler)

    def service_actions(self) -> None:
        """Run twice a second, between requests."""
        self.page.tick()

    def verify_request(self, request: object, client_address: object) -> bool:
        """Turn a connection away where too many are open."""
        del request, client_address
        return self._connections.acquire(blocking=False)

    def finish_request(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Serve one connection, then give its place back."""
        try:
            super().finish_request(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Log what a request failed of; that its client has gone is not worth a line."""
        del request
        error = sys.exception()
        if not isinstance(error, OSError):
            logger.error("a request of %s failed", client_address, exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_SECONDS
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes: the second must not wait for the first to be acknowledged.
    disable_nagle_algorithm = True
    server_version = "firstseen"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if self._is_refused(path):
            return
        if path in self.server.files:
            file = self.server.files[path]
            self._answer(HTTPStatus.OK, file.body, file.content_type)
        elif path in _MONITORING:
            self._answer_monitoring(path)
        elif path == _CHECK:
            self._answer_json(refused(_POST_IT), ("Allow", "POST"))
        else:
            self._answer_json(self.server.page.api.get(path) or refused(_NOT_HERE))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        if self._is_refused(path):
            return
        if path != _CHECK:
            self._refuse(_NOT_HERE)
            return
        body = self._body(self.server.page.api.body_bytes)
        if body is not None:
            self._answer_json(self.server.page.api.check(body))

    def _is_refused(self, path: str) -> bool:
        """Answer a request that may not be, and say so."""
        area = Area.DATA
        if path in self.server.files:
            area = Area.FILES
        elif path in _MONITORING:
            area = Area.MONITORING
        refusal = self.server.access.refusal(
            area, self.headers.get("Host"), self.headers.get("Authorization")
        )
        if refusal is None:
            return False
        needs_token = refusal.status is HTTPStatus.UNAUTHORIZED
        self._refuse(refusal, *([("WWW-Authenticate", "Bearer")] if needs_token else []))
        return True

    def _refuse(self, refusal: Refusal, *headers: tuple[str, str]) -> None:
        """Answer a request whose body, if it has one, is not looked at, and end the connection.

        To close it with bytes unread would reset it, and the client might lose the answer: so the
        rest is read and thrown away, as far as it comes within a second.
        """
        self.close_connection = True
        self._answer_json(refused(refusal), *headers)
        has_body = self.headers.get("Content-Length", "0") != "0"
        if not has_body and "Transfer-Encoding" not in self.headers:
            return
        self.connection.shutdown(socket.SHUT_WR)
        end, left = time.monotonic() + _LINGER_SECONDS, _LINGER_BYTES
        while left > 0 and (seconds := end - time.monotonic()) > 0:
            self.connection.settimeout(seconds)
            received = self.connection.recv(_LINGER_BLOCK_BYTES)
            if not received:
                return
            left -= len(received)

    def _body(self, longest: int) -> bytes | None:
        """Read the body of a request; None where it was refused."""
        kind = self.headers.get_content_type()
        length = self.headers.get("Content-Length", "")
        refusal = None
        if kind != JSON:
            refusal = _NOT_JSON
        elif not (length.isascii() and length.isdecimal() and len(length) <= _LENGTH_DIGITS):
            refusal = _NO_LENGTH
        elif int(length) > longest:
            refusal = Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "too_large",
                f"the body has {length} bytes, {longest} are read (max_record_bytes)",
            )
        if refusal is not None:
            self._refuse(refusal)
            return None
        return self.rfile.read(int(length))

    def _answer_monitoring(self, path: str) -> None:
        parts = self.server.page.parts
        if path == "/metrics":
            self._answer(HTTPStatus.OK, parts.metrics.exposition(), CONTENT_TYPE)
        elif path == "/healthz":
            self._answer_unless(parts.health.why_dead(), "ok")
        else:
            self._answer_unless(parts.view.why_not_ready(), "ready")

    def _answer_unless(self, trouble: str | None, fine: str) -> None:
        status = HTTPStatus.OK if trouble is None else HTTPStatus.SERVICE_UNAVAILABLE
        self._answer(status, f"{trouble or fine}\n".encode(), _TEXT)

    def _answer_json(self, answer: Answer, *headers: tuple[str, str]) -> None:
        more = list(headers)
        if answer.wait_seconds is not None:
            more.append(("Retry-After", str(answer.wait_seconds)))
        self._answer(answer.status, answer.body, JSON, *more)

    def _answer(
        self, status: HTTPStatus, body: bytes, content_type: str, *headers: tuple[str, str]
    ) -> None:
        self.send_response(status)
        for name, value in (*SECURITY_HEADERS.items(), *headers):
            self.send_header(name, value)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is inherited
        """Log no requests: a probe every few seconds would bury what matters."""


_LENGTH_DIGITS: Final = 12
_NOT_HERE: Final = Refusal(
    HTTPStatus.NOT_FOUND, "not_found", "not here: / has the page, docs/operations.md the paths"
)
_POST_IT: Final = Refusal(
    HTTPStatus.METHOD_NOT_ALLOWED, "method", 'POST a JSON object: {"text": "…"}'
)
_NOT_JSON: Final = Refusal(
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "media_type", f"send Content-Type: {JSON}"
)
_NO_LENGTH: Final = Refusal(
    HTTPStatus.LENGTH_REQUIRED, "length", "send the body at once, with Content-Length"
)
