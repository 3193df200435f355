"""The paths of a worker's pages as an aiohttp application: who may use them, and what they return.

Health and metrics are answered by the loop of the pages itself, so that they do not wait behind
anything. The API reads files and waits for the index, so it runs in threads of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from streams.monitoring.metrics import CONTENT_TYPE
from streams.ops_page.access import Access, Area, Refusal
from streams.ops_page.api import JSON, Answer, refused
from streams.ops_page.page import OpsPage
from streams.ops_page.page_files import SECURITY_HEADERS, PageFile, page_files

_TEXT: Final = "text/plain; charset=utf-8"
_BODY_SECONDS: Final = 5.0
_MONITORING: Final = frozenset({"/metrics", "/healthz", "/readyz"})
_CHECK: Final = "/api/check"


def create_application(page: OpsPage, access: Access, data: Executor) -> web.Application:
    """Return the application of one worker; ``data`` runs what may take time."""
    files = page_files()
    application = web.Application(
        middlewares=[_guard(access, frozenset(files))], client_max_size=page.api.body_bytes
    )
    application.on_response_prepare.append(_add_headers)
    for path, file in files.items():
        application.router.add_get(path, partial(_file, file))
    parts = page.parts
    application.router.add_get("/metrics", partial(_metrics, page))
    application.router.add_get("/healthz", partial(_trouble, parts.health.why_dead, "ok"))
    application.router.add_get("/readyz", partial(_trouble, parts.view.why_not_ready, "ready"))
    application.router.add_post(_CHECK, partial(_check, page, data))
    application.router.add_get("/api/{path:(?!check$).+}", partial(_data, page, data))
    return application


def _guard(access: Access, files: frozenset[str]) -> Middleware:
    """Return the middleware that refuses requests without a token, and answers 404 in JSON."""

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
            return _json(refused(_METHOD), {hdrs.ALLOW: allowed})
        except web.HTTPNotFound:
            return _json(refused(_NOT_HERE))

    return guard


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    del request
    response.headers.update(SECURITY_HEADERS)
    response.headers[hdrs.SERVER] = "firstseen"


async def _file(file: PageFile, request: web.Request) -> web.Response:
    del request
    return _response(HTTPStatus.OK, file.body, file.content_type)


async def _metrics(page: OpsPage, request: web.Request) -> web.Response:
    del request
    return _response(HTTPStatus.OK, page.parts.metrics.exposition(), CONTENT_TYPE)


async def _trouble(why: Callable[[], str | None], fine: str, request: web.Request) -> web.Response:
    """Answer a probe: 200 where there is no trouble, 503 with the trouble otherwise."""
    del request
    trouble = why()
    status = HTTPStatus.OK if trouble is None else HTTPStatus.SERVICE_UNAVAILABLE
    return _response(status, f"{trouble or fine}\n".encode(), _TEXT)


async def _data(page: OpsPage, data: Executor, request: web.Request) -> web.Response:
    loop = asyncio.get_running_loop()
    answer = await loop.run_in_executor(data, page.api.get, request.raw_path.partition("?")[0])
    return _json(answer or refused(_NOT_HERE))


async def _check(page: OpsPage, data: Executor, request: web.Request) -> web.Response:
    limit = page.api.body_bytes
    if request.content_type != JSON:
        return _refuse(_NOT_JSON)
    if request.content_length is None:
        return _refuse(_NO_LENGTH)
    if request.content_length > limit:
        return _refuse(_too_large(request.content_length, limit))
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            body = await request.read()
    except TimeoutError:
        return _refuse(_SLOW)
    return _json(await page.api.check(body, data))


def _refuse(refusal: Refusal) -> web.Response:
    """Return an answer that ends the connection: the body of the request was not read."""
    needs_token = refusal.status is HTTPStatus.UNAUTHORIZED
    response = _json(refused(refusal), {hdrs.WWW_AUTHENTICATE: "Bearer"} if needs_token else {})
    response.force_close()
    return response


def _json(answer: Answer, headers: dict[str, str] | None = None) -> web.Response:
    response = _response(answer.status, answer.body, JSON)
    response.headers.update(headers or {})
    if answer.wait_seconds is not None:
        response.headers[hdrs.RETRY_AFTER] = str(answer.wait_seconds)
    return response


def _response(status: HTTPStatus, body: bytes, content_type: str) -> web.Response:
    return web.Response(status=status, body=body, headers={hdrs.CONTENT_TYPE: content_type})


def _too_large(length: int, limit: int) -> Refusal:
    return Refusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too_large",
        f"the body has {length} bytes; the limit is {limit} (max_record_bytes)",
    )


_NOT_HERE: Final = Refusal(
    HTTPStatus.NOT_FOUND, "not_found", "no such path: / has the page, docs/operations.md the paths"
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
