"""Asks a worker over HTTP or HTTPS: the index about a text, and the worker whether it is well."""

from __future__ import annotations

import http.client
import ssl
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import msgspec

from simhash_core.errors import FirstseenError, UsageError
from streams.errors import Problem, SettingsError, WorkerUnavailableError
from streams.ops_page.access import token_of_file
from streams.ops_page.check_answer import CheckAnswer, CheckRequest
from streams.settings.web import WebSettings

_SECONDS: Final = 30.0
_ANSWER_BYTES: Final = 16 * 1024 * 1024
_MESSAGE_CHARACTERS: Final = 400
_PATH: Final = "/api/check"

_decode_answer = msgspec.json.Decoder(CheckAnswer).decode


def ask_worker(url: str, web: WebSettings, request: CheckRequest) -> CheckAnswer:
    """Return the answer of the index, through the worker at ``url``, with the token of ``web``.

    Raises ``UsageError`` for an invalid address and a text that is too large, ``SettingsError`` for
    a token that is missing or wrong, ``WorkerUnavailableError`` where the worker cannot be reached
    or cannot ask now, and ``FirstseenError`` for any other answer.
    """
    status, body = _response(url, web, "POST", _PATH, msgspec.json.encode(request))
    if status != HTTPStatus.OK:
        raise _refusal(url, status, body)
    try:
        return _decode_answer(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FirstseenError(
            f"{url} is not a worker of this version ({error}): run the same version of Firstseen "
            f"on both sides"
        ) from None


def why_not_well(url: str, web: WebSettings, *, ready: bool) -> str | None:
    """Return why the worker at ``url`` is not well, or with ``ready`` not ready; None where it is.

    Raises ``UsageError`` for an invalid address, ``SettingsError`` for a token that is missing or
    wrong, and ``WorkerUnavailableError`` where the worker cannot be reached.
    """
    status, body = _response(url, web, "GET", "/readyz" if ready else "/healthz")
    if status == HTTPStatus.OK:
        return None
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return body.decode("utf-8", "replace").strip()[:_MESSAGE_CHARACTERS]
    raise _refusal(url, status, body)


def _response(
    url: str, web: WebSettings, method: str, path: str, body: bytes | None = None
) -> tuple[int, bytes]:
    """Send a request with the token of ``web``; return the status and the body of the answer."""
    token = web.token if web.token_file is None else token_of_file(web.token_file)
    connection, prefix = _connection(url)
    headers = {} if body is None else {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    try:
        connection.request(method, prefix + path, body, headers)
        response = connection.getresponse()
        return response.status, response.read(_ANSWER_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise WorkerUnavailableError(
            f"no worker answers at {url}: {why}. Give the address of its pages with --url"
        ) from error
    finally:
        connection.close()


def own_url(web: WebSettings) -> str:
    """Return where a worker of this machine with these settings has its pages."""
    host = web.host if web.on_loopback else "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{web.port}"


def _connection(url: str) -> tuple[http.client.HTTPConnection, str]:
    """Return a connection, not yet open, and the prefix of all paths."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is not a valid address: {error}") from None
    if parts.scheme not in {"http", "https"} or not host:
        raise UsageError(f"{url!r} is not a valid address: give http://host:port")
    prefix = parts.path.rstrip("/")
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_SECONDS), prefix
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=context), prefix


def _refusal(url: str, status: int, body: bytes) -> FirstseenError:
    message = _message_of(body) or f"it answered {status}"
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return SettingsError([Problem("web.token", "", "the worker's answer", f"{url}: {message}")])
    if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE}:
        return UsageError(f"{url}: {message}")
    if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        return WorkerUnavailableError(f"{url}: {message}")
    return FirstseenError(f"{url}: {message}")


def _message_of(body: bytes) -> str:
    """Return the message of an error; "" where the answer is not one of a worker."""
    try:
        message = msgspec.json.decode(body)["error"]["message"]
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError, TypeError):
        return ""
    return str(message)[:_MESSAGE_CHARACTERS]
