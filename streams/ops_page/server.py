"""The server of a worker's pages: aiohttp on an event loop and a thread of its own.

The worker's loop has no part in it, so the pages answer while the worker is busy or stuck, and no
request delays a document.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Self

from aiohttp import web

from simhash_core.errors import FirstseenError
from streams.ops_page.access import Access
from streams.ops_page.page import OpsPage
from streams.ops_page.routes import create_application
from streams.settings.settings import Settings

_IDLE_SECONDS: Final = 5.0
"""How long a connection may be open without a whole request."""
_CONNECTIONS_LIMIT: Final = 64
_DATA_THREADS: Final = 4
_LINGER_SECONDS: Final = 1.0
"""How long the rest of a refused body is read, so that the client gets the answer."""
_TICK_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 1.0


class PortInUseError(FirstseenError):
    """The address for the pages cannot be listened on; the message names it and the setting."""


class OpsServer:
    """Serves the pages of one worker while it is entered; does nothing when ``web`` is off."""

    def __init__(self, settings: Settings, page: OpsPage) -> None:
        """Listen at once, so that a port in use is found before anything else starts.

        Raises ``PortInUseError``, and ``SettingsError`` for a file that holds no token.
        """
        self._page = page
        self._socket: socket.socket | None = None
        if not settings.web.enabled:
            return
        self._access = Access(settings.web)
        host, port = settings.web.host.strip("[]"), settings.web.port
        try:
            self._socket = socket.create_server(
                (host, port),
                family=socket.AF_INET6 if ":" in host else socket.AF_INET,
                backlog=_CONNECTIONS_LIMIT,
            )
        except OSError as error:
            raise PortInUseError(
                f"cannot listen on {settings.web.host}:{port} for the worker's pages: "
                f"{error.strerror}. Choose another with web.port, or none with web.enabled=false"
            ) from error
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        serve = partial(self._run, self._socket)
        self._thread = threading.Thread(target=serve, daemon=True, name="ops")

    @property
    def url(self) -> str | None:
        """The address of the ops page; None when there are no pages."""
        if self._socket is None:
            return None
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def __enter__(self) -> Self:
        """Begin to answer."""
        if self._socket is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop answering and free the port."""
        if self._socket is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._loop.close()

    def _run(self, listening: socket.socket) -> None:
        self._loop.run_until_complete(self._serve(listening))

    async def _serve(self, listening: socket.socket) -> None:
        """Serve until ``_stop`` is set."""
        data = ThreadPoolExecutor(_DATA_THREADS, thread_name_prefix="ops-data")
        runner = web.AppRunner(
            create_application(self._page, self._access, data),
            access_log=None,  # a probe every few seconds would bury what matters
            auto_decompress=False,
            keepalive_timeout=_IDLE_SECONDS,
            lingering_time=_LINGER_SECONDS,
            shutdown_timeout=_STOP_SECONDS,
        )
        await runner.setup()
        assert runner.server is not None
        requests = runner.server
        server = await self._loop.create_server(
            lambda: _Door(requests), sock=listening, backlog=_CONNECTIONS_LIMIT
        )
        while not self._stop.is_set():
            self._page.tick()
            try:
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._stop.wait()
            except TimeoutError:
                continue
        server.close()
        await runner.cleanup()
        data.shutdown(wait=False, cancel_futures=True)


class _Door(asyncio.Protocol):
    """Hands a connection to the server, or closes it where too many are open."""

    def __init__(self, server: web.Server) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count what is open at this moment: connections come in bursts."""
        assert isinstance(transport, asyncio.Transport)
        if len(self._server.connections) >= _CONNECTIONS_LIMIT:
            transport.close()
            return
        handler = self._server()
        transport.set_protocol(handler)
        handler.connection_made(transport)
