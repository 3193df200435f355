"""The worker's own pages: ``/healthz``, ``/readyz``, ``/metrics``, and an index of them.

They are served from a thread of their own, so that they answer while the worker is busy.
"""

from __future__ import annotations

import logging
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self

from simhash_core.errors import FirstseenError
from streams.health import Health
from streams.metrics import CONTENT_TYPE
from streams.pipeline import Pipeline
from streams.settings import Settings

logger = logging.getLogger(__name__)

_TEXT: Final = "text/plain; charset=utf-8"
_REQUEST_SECONDS: Final = 5.0


class PortInUseError(FirstseenError):
    """The address for the pages cannot be listened on; the message names it and the setting."""


class OpsServer:
    """Serves the pages of one pipeline while it is entered; does nothing when ``web`` is off."""

    def __init__(self, settings: Settings, pipeline: Pipeline, health: Health) -> None:
        """Listen at once, so that a port in use is found before anything else starts.

        Raises ``PortInUseError``.
        """
        self._server: _Server | None = None
        if not settings.web.enabled:
            return
        address = (settings.web.host, settings.web.port)
        try:
            self._server = _Server(address, pipeline, health)
        except OSError as error:
            raise PortInUseError(
                f"cannot listen on {address[0]}:{address[1]} for the worker's pages: "
                f"{error.strerror}. Choose another with web.port, or none with web.enabled=false"
            ) from error

    @property
    def url(self) -> str | None:
        """The address of the index page; None when there are no pages."""
        if self._server is None:
            return None
        return f"http://{self._server.server_address[0]!s}:{self._server.server_port}/"

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

    def __init__(self, address: tuple[str, int], pipeline: Pipeline, health: Health) -> None:
        self.pipeline = pipeline
        self.health = health
        super().__init__(address, _Handler)

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

    def do_GET(self) -> None:
        pipeline = self.server.pipeline
        match self.path.partition("?")[0]:
            case "/metrics":
                self._answer(HTTPStatus.OK, pipeline.metrics.exposition(), CONTENT_TYPE)
            case "/healthz":
                self._answer_unless(self.server.health.why_dead(), "ok")
            case "/readyz":
                self._answer_unless(pipeline.why_not_ready(), "ready")
            case "/":
                self._answer(HTTPStatus.OK, b"firstseen worker: /healthz /readyz /metrics\n")
            case _:
                self._answer(HTTPStatus.NOT_FOUND, b"not here: try /\n")

    def _answer_unless(self, trouble: str | None, fine: str) -> None:
        status = HTTPStatus.OK if trouble is None else HTTPStatus.SERVICE_UNAVAILABLE
        self._answer(status, f"{trouble or fine}\n".encode())

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str = _TEXT) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is inherited
        """Log no requests: a probe every few seconds would bury what matters."""
