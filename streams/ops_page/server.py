"""The server of a worker's pages: aiohttp on its own event loop and thread.

So the pages respond while the worker's loop is busy or stuck, and no request delays a document.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Final, Self

import msgspec
from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CONTENT_TYPE_LATEST

from simhash_core.errors import FirstseenError
from streams.documents.raw_documents import DocumentReader
from streams.monitoring.worker_state import CheckUnavailableError, partition_ranges
from streams.ops_page.access import Access, Area, Refusal, WorkBudget
from streams.ops_page.duplicates import DuplicateViews
from streams.ops_page.status import Monitored, StatusReport
from streams.ops_page.text_check import CheckRequest, TextCheck
from streams.settings.settings import Settings, WebSettings, http_url

# ---- The paths under ``/api``.

JSON: Final = "application/json"

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_MINIMUM_BYTES: Final = 16 * 1024
"""Cost of the smallest check: look-ups do not depend on the text's length."""
_BYTES_A_SECOND: Final = 512 * 1024
_ENVELOPE_BYTES: Final = 64 * 1024
_ESCAPED: Final = 3
"""Allowance for escapes in the JSON of a text, such as ``\\u00e9``: six bytes instead of two."""


def refused(refusal: Refusal, headers: Mapping[str, str] | None = None) -> web.Response:
    error = {"error": {"reason": refusal.reason, "message": refusal.message}}
    return _response(refusal.status, msgspec.json.encode(error), JSON, headers)


class OpsPage:
    """The ops page; call ``get`` from any thread, and ``check`` on the loop of the pages."""

    def __init__(
        self,
        settings: Settings,
        parts: Monitored,
        loop: asyncio.AbstractEventLoop,
        reader: DocumentReader,
    ) -> None:
        """``loop`` and ``reader`` are the worker's. Heavy parts are loaded on demand."""
        self.parts = parts
        self._report = StatusReport(settings, parts)
        self._views = DuplicateViews(parts.recent, reader, parts.profile.scheme())
        self._check = TextCheck(parts.profile, parts.view, loop, self._views.text_of)
        self._text_bytes = settings.max_record_bytes
        self._budget = WorkBudget(
            limit=2 * max(self._text_bytes, _BYTES_A_SECOND), per_second=_BYTES_A_SECOND
        )

    def tick(self) -> None:
        """Take a sample if it is due; call it often, from one thread."""
        self._report.tick()

    def get(self, path: str) -> web.Response:
        match path.removeprefix("/api/").split("/"):
            case ["status"]:
                return _ok(self._report.status())
            case ["duplicates"]:
                return _ok(self._views.latest())
            case ["dead-letters"]:
                return _ok(self._views.dead_letters())
            case ["duplicates", number] if _NUMBER.fullmatch(number):
                texts = self._views.texts(int(number))
                return refused(_GONE) if texts is None else _ok(texts)
        return refused(_NOT_HERE)

    async def check(self, body: bytes, threads: Executor) -> web.Response:
        """Answer ``POST /api/check``; slow work runs in ``threads``."""
        try:
            request = _decode_request(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            malformed = f'{error}: send a JSON object such as {{"text": "…"}}'
            return refused(Refusal(HTTPStatus.BAD_REQUEST, "malformed", malformed))
        texts = (request.text, request.title, request.scope)
        lists = (*request.keywords, *request.tags, *request.references)
        size = sum(len(text.encode()) for text in (*texts, *lists))
        if size > self._text_bytes:
            message = f"the text has {size} bytes, max_record_bytes is {self._text_bytes}"
            return refused(_too_large(message))
        wait = self._budget.spend(max(size, _MINIMUM_BYTES))
        if wait:
            return refused(_TOO_MANY, {hdrs.RETRY_AFTER: str(math.ceil(wait))})
        try:
            return _ok(await self._check.answer(request, threads))
        except CheckUnavailableError as error:
            unavailable = Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", str(error))
            return refused(unavailable, {hdrs.RETRY_AFTER: "1"})


_GONE: Final = Refusal(
    HTTPStatus.NOT_FOUND,
    "gone",
    "this duplicate is not among the latest ones: /api/duplicates lists them",
)
_TOO_MANY: Final = Refusal(
    HTTPStatus.TOO_MANY_REQUESTS,
    "too_many",
    f"texts arrive faster than this worker checks them ({_BYTES_A_SECOND // 1024} KiB/s): retry "
    "after the time in Retry-After",
)
_decode_request = msgspec.json.Decoder(CheckRequest).decode


def _too_large(message: str) -> Refusal:
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", message)


def _ok(value: object) -> web.Response:
    return _response(HTTPStatus.OK, msgspec.json.encode(value), JSON)


# ---- The files for a browser, and the security headers.
#
# The policy allows no inline script or style and nothing external, so a text that got past the
# escaping would still run nothing.

_FILES: Final = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
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
"""Headers of every response."""


def _file(name: str, content_type: str) -> Handler:
    body = (files(__package__) / name).read_bytes()

    async def serve(_request: web.Request) -> web.Response:
        return _response(HTTPStatus.OK, body, content_type)

    return serve


# ---- The aiohttp application.
#
# The pages' loop answers health and metrics itself, so that they never wait. The API reads files
# and waits for the index, so it runs in threads.

_TEXT: Final = "text/plain; charset=utf-8"
_BODY_SECONDS: Final = 5.0
_MONITORING: Final = frozenset({"/metrics", "/healthz", "/readyz", "/targets"})
_CHECK: Final = "/api/check"


def guarded_application(
    access: Access, files: Mapping[str, Handler], body_bytes: int
) -> web.Application:
    """Return an application that serves ``files`` to all, and the rest as ``access`` allows."""
    application = web.Application(
        middlewares=[_guard(access, files.keys())], client_max_size=body_bytes
    )
    application.on_response_prepare.append(_add_headers)
    for path, handler in files.items():
        application.router.add_get(path, handler)
    return application


def _guard(access: Access, files: Collection[str]) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        area = Area.DATA
        if request.path in files:
            area = Area.FILES
        elif request.path in _MONITORING:
            area = Area.MONITORING
        refusal = access.refusal(
            area, request.headers.get(hdrs.HOST), request.headers.get(hdrs.AUTHORIZATION)
        )
        if refusal is not None:
            return _refuse(refusal)
        try:
            return await handler(request)
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            return refused(_METHOD, {hdrs.ALLOW: allowed})
        except web.HTTPNotFound:
            return refused(_NOT_HERE)

    return guard


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY_HEADERS)
    response.headers[hdrs.SERVER] = "firstseen"


def probed(trouble: str | None, fine: str, remark: str | None = None) -> web.Response:
    """Answer 200, or 503 with the trouble; a remark does not change the status."""
    if trouble is not None:
        return _response(HTTPStatus.SERVICE_UNAVAILABLE, f"{trouble}\n".encode(), _TEXT)
    text = f"{fine}: {remark}" if remark else fine
    return _response(HTTPStatus.OK, f"{text}\n".encode(), _TEXT)


async def _metrics(page: OpsPage, _request: web.Request) -> web.Response:
    return _response(HTTPStatus.OK, page.parts.metrics.exposition(), CONTENT_TYPE_LATEST)


async def _data(threads: Executor, page: OpsPage, request: web.Request) -> web.Response:
    path = request.raw_path.partition("?")[0]
    return await asyncio.get_running_loop().run_in_executor(threads, page.get, path)


async def _check(threads: Executor, page: OpsPage, request: web.Request) -> web.Response:
    limit = request.client_max_size
    if request.content_type != JSON:
        return _refuse(_NOT_JSON)
    if request.content_length is None:
        return _refuse(_NO_LENGTH)
    if request.content_length > limit:
        message = f"the body has {request.content_length} bytes; the limit is {limit}"
        return _refuse(_too_large(f"{message} (max_record_bytes)"))
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            body = await request.read()
    except TimeoutError:
        return _refuse(_SLOW)
    return await page.check(body, threads)


def _refuse(refusal: Refusal) -> web.Response:
    """Refuse a request whose body may not have been read, and close the connection."""
    needs_token = refusal.status is HTTPStatus.UNAUTHORIZED
    response = refused(refusal, {hdrs.WWW_AUTHENTICATE: "Bearer"} if needs_token else None)
    response.force_close()
    return response


def _response(
    status: HTTPStatus, body: bytes, content_type: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(
        status=status, body=body, headers={hdrs.CONTENT_TYPE: content_type, **(headers or {})}
    )


_NOT_HERE: Final = Refusal(
    HTTPStatus.NOT_FOUND,
    "not_found",
    "no such path: the page is at /, and docs/operations.md lists the paths",
)
_METHOD: Final = Refusal(
    HTTPStatus.METHOD_NOT_ALLOWED,
    "method",
    f'method not allowed here: POST {_CHECK} with {{"text": "…"}}, and GET all other paths',
)
_NOT_JSON: Final = Refusal(
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "media_type", f"send Content-Type: {JSON}"
)
_NO_LENGTH: Final = Refusal(
    HTTPStatus.LENGTH_REQUIRED, "length", "send the body in one piece, with Content-Length"
)
_SLOW: Final = Refusal(
    HTTPStatus.REQUEST_TIMEOUT, "slow", f"the body did not arrive within {_BODY_SECONDS:g} s"
)


_STARTING: Final = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "starting",
    "the worker is starting: it waits for its broker and checks the topics; see its log",
)


_IDLE_SECONDS: Final = 5.0  # maximum time of an open connection without a whole request
_CONNECTIONS_LIMIT: Final = 64
_DATA_THREADS: Final = 4
_LINGER_SECONDS: Final = 1.0
"""How long to read the rest of a refused body, so that the client gets the response."""
_TICK_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 1.0


class PortInUseError(FirstseenError):
    """The pages' address cannot be listened on; the message names it and the setting."""


class OpsServer:
    """Serves inside its block: health immediately, and the pages when they are open.

    Does nothing if ``web`` is off.
    """

    def __init__(self, settings: Settings) -> None:
        """Listen now, to notice a port in use before anything else starts.

        Raises ``PortInUseError``, and ``SettingsError`` for an invalid token file.
        """
        self._page: OpsPage | None = None
        self._socket: socket.socket | None = None
        if not settings.web.enabled:
            return
        access = Access(settings.web)
        self._socket = listen(settings.web)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._data = ThreadPoolExecutor(_DATA_THREADS, thread_name_prefix="ops-data")
        longest_body = _ESCAPED * settings.max_record_bytes + _ENVELOPE_BYTES
        application = self._application(access, longest_body)
        serve = partial(self._run, application, self._socket)
        self._thread = threading.Thread(target=serve, daemon=True, name="ops")

    @property
    def url(self) -> str | None:
        """The address of the ops page; None when there are no pages."""
        return None if self._socket is None else url_of(self._socket)

    def __enter__(self) -> Self:
        if self._socket is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._loop.close()

    def open(self, page: OpsPage) -> None:
        """Serve the pages from now on; call it inside the block, once."""
        self._page = page

    def _application(self, access: Access, body_bytes: int) -> web.Application:
        handlers = {path: _file(*file) for path, file in _FILES.items()}
        application = guarded_application(access, handlers, body_bytes)
        add_get = application.router.add_get
        add_get("/healthz", self._healthz)
        add_get("/readyz", self._readyz)
        add_get("/metrics", self._when_open(_metrics))
        add_get("/api/{path:(?!check$).+}", self._when_open(partial(_data, self._data)))
        application.router.add_post(_CHECK, self._when_open(partial(_check, self._data)))
        return application

    def _when_open(
        self, handler: Callable[[OpsPage, web.Request], Awaitable[web.Response]]
    ) -> Handler:
        """Return a handler that refuses all requests until the pages are open."""

        async def handle(request: web.Request) -> web.Response:
            return _refuse(_STARTING) if self._page is None else await handler(self._page, request)

        return handle

    async def _healthz(self, _request: web.Request) -> web.Response:
        if self._page is None:
            return probed(None, "ok", _STARTING.message)
        health = self._page.parts.health
        return probed(health.why_dead(), "ok", health.why_waiting)

    async def _readyz(self, _request: web.Request) -> web.Response:
        if self._page is None:
            return probed(_STARTING.message, "ready")
        view, health = self._page.parts.view, self._page.parts.health
        remarks = [health.why_waiting] if health.why_waiting else []
        if view.without_standby:
            without = partition_ranges(view.without_standby)
            remarks.append(f"shards without an open standby: {without}")
        return probed(view.why_not_ready(), "ready", "; ".join(remarks))

    def _run(self, application: web.Application, listening: socket.socket) -> None:
        self._loop.run_until_complete(self._serve(application, listening))

    async def _serve(self, application: web.Application, listening: socket.socket) -> None:
        async with served(application, listening):
            while not self._stop.is_set():
                if self._page is not None:
                    self._page.tick()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_TICK_SECONDS):
                        await self._stop.wait()
        self._data.shutdown(wait=False, cancel_futures=True)


def listen(settings: WebSettings) -> socket.socket:
    """Listen on the pages' address; raise ``PortInUseError`` if that is not possible."""
    host, port = settings.host.strip("[]"), settings.port
    try:
        return socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=_CONNECTIONS_LIMIT,
        )
    except OSError as error:
        raise PortInUseError(
            f"cannot listen on {settings.host}:{port} for the worker's pages: {error.strerror}. "
            "Set another web.port, or web.enabled=false for no pages"
        ) from error


class _WithoutRequests(logging.Filter):
    """Drops aiohttp's errors about malformed requests, and clients that went away.

    They quote what was sent: texts of documents, and the token. Anybody who reaches the port could
    fill the log with them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | ConnectionError)


_requests_logger = logging.getLogger(f"{__name__}.requests")
_requests_logger.addFilter(_WithoutRequests())


def url_of(listening: socket.socket) -> str:
    return http_url(*listening.getsockname()[:2])


@asynccontextmanager
async def served(application: web.Application, listening: socket.socket) -> AsyncIterator[None]:
    """Serve an application on the running loop inside the block."""
    runner = web.AppRunner(
        application,
        access_log=None,  # frequent probes would bury what matters
        logger=_requests_logger,
        auto_decompress=False,
        keepalive_timeout=_IDLE_SECONDS,
        lingering_time=_LINGER_SECONDS,
        shutdown_timeout=_STOP_SECONDS,
    )
    await runner.setup()
    requests = runner.server
    assert requests is not None
    server = await asyncio.get_running_loop().create_server(
        lambda: _Door(requests), sock=listening, backlog=_CONNECTIONS_LIMIT
    )
    try:
        yield
    finally:
        server.close()
        await runner.cleanup()


class _Door(asyncio.Protocol):
    """Hands a connection to the server, or closes it if too many are open."""

    def __init__(self, server: web.Server) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connections that are open at this moment, because they come in bursts."""
        assert isinstance(transport, asyncio.Transport)
        if len(self._server.connections) >= _CONNECTIONS_LIMIT:
            transport.close()
            return
        handler = self._server()
        transport.set_protocol(handler)
        handler.connection_made(transport)
