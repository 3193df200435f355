"""Queries of the index about a text (``POST /api/check``): the server's side and the client's.

A query goes through the log: every shard looks the text up, and the leader decides as for a
document. The text is not stored. A second fingerprinter, in a thread of the pages, adds the
features of the text itself.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from simhash_core.documents import Content, SourcePosition
from simhash_core.errors import FirstseenError, UsageError
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.text.profiles import Profile, index_digest
from simhash_core.verdicts import Answer, Match, Method, UndecidableReason
from streams.documents.output_records import PositionValue
from streams.documents.timestamps import format_rfc3339
from streams.errors import Problem, SettingsError, WorkerUnavailableError
from streams.monitoring.worker_state import CheckUnavailableError, WorkerView
from streams.offline.pages.text_differences import Piece, side_by_side
from streams.ops_page.access import token_of
from streams.settings.settings import WebSettings, http_url

# ---- Query and answer; docs/operations.md describes each field, which a test checks.

CHECK_SCHEMA: Final = "firstseen.check/2"
NEAREST_LIMIT: Final = 50


class CheckRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    title: str = ""
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    scope: str = ""
    nearest: Annotated[int, Meta(ge=0, le=NEAREST_LIMIT)] = 10
    differences: bool = False


class NearDocument(msgspec.Struct, frozen=True):
    """``similarity``: 1 − distance / bits, 1 for equal content."""

    id: str
    source: PositionValue
    timestamp: str
    distance: int
    similarity: float
    near: bool
    method: Method | None
    agreement: float | None
    block: int | None


class Differences(msgspec.Struct, frozen=True):
    source: PositionValue
    document: list[Piece]
    text: list[Piece]


class CheckAnswer(msgspec.Struct, frozen=True):
    """``verdict`` is one of ``VERDICT_NAMES``."""

    verdict: str
    original: NearDocument | None
    nearest: list[NearDocument]
    candidates: int
    fullest_bucket: int
    fingerprint: str | None
    bits: int
    features: int
    undecidable: UndecidableReason | None
    content_digest: str
    index: str
    differences: Differences | None = None
    schema: str = CHECK_SCHEMA


# ---- The client, over HTTP or HTTPS.

_SECONDS: Final = 30.0
_ANSWER_BYTES: Final = 16 * 1024 * 1024
_MESSAGE_CHARACTERS: Final = 400
_PATH: Final = "/api/check"

_decode_answer = msgspec.json.Decoder(CheckAnswer).decode


def ask_worker(url: str, web: WebSettings, request: CheckRequest) -> CheckAnswer:
    """Ask the worker at ``url``, with the token of ``web``.

    Raises ``UsageError`` for an invalid address or too large a text, ``SettingsError`` for a
    missing or wrong token, ``WorkerUnavailableError`` if the worker cannot answer now, and
    ``FirstseenError`` for any other answer.
    """
    status, body = _response(url, web, "POST", _PATH, msgspec.json.encode(request))
    if status != HTTPStatus.OK:
        raise _refusal(url, status, body)
    try:
        return _decode_answer(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FirstseenError(
            f"{url} is not a worker of this version ({error}): use the same version of Firstseen "
            "for both"
        ) from None


def why_unhealthy(url: str, web: WebSettings, *, ready: bool) -> str | None:
    """Return why the worker at ``url`` is not well (or not ready), or None.

    Raises ``UsageError`` for an invalid address, ``SettingsError`` for a missing or wrong token,
    and ``WorkerUnavailableError`` if the worker cannot be reached.
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
    token, (connection, prefix) = token_of(web), _connection(url)
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


_LOOPBACK_OF: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not listened on


def own_url(web: WebSettings) -> str:
    """Return the address of the pages of a local worker with these settings.

    A worker that listens on one address answers only there, not on the loopback.
    """
    host = web.host.strip("[]")
    return http_url(_LOOPBACK_OF.get(host, host), web.port).rstrip("/")


def _connection(url: str) -> tuple[http.client.HTTPConnection, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is not a valid address: {error}") from None
    if (
        parts.scheme not in {"http", "https"}
        or not host
        or " " in host
        or not (host.isprintable() and parts.path.isascii())
    ):
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
    try:
        message = msgspec.json.decode(body)["error"]["message"]
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError, TypeError):
        return ""
    return str(message)[:_MESSAGE_CHARACTERS]


CONCURRENT_CHECKS: Final = 2

_TURN_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 15.0
_DIGITS: Final = 6

TextOf = Callable[[SourcePosition], str | None]
"""Returns the text of an indexed document, if it is kept."""


class TextCheck:
    """Answers checks on the server; it runs on the event loop of the pages."""

    def __init__(
        self, profile: Profile, view: WorkerView, loop: asyncio.AbstractEventLoop, text_of: TextOf
    ) -> None:
        """``loop`` is the worker's. The fingerprinter is made for the first text."""
        self._profile = profile
        self._view = view
        self._loop = loop
        self._text_of = text_of
        self._fingerprinter: Fingerprinter | None = None
        self._fingerprinting = threading.Lock()
        self._turns = asyncio.Semaphore(CONCURRENT_CHECKS)

    async def answer(self, request: CheckRequest, threads: Executor) -> CheckAnswer:
        """Query the index; ``threads`` fingerprint and compare texts.

        Raises ``CheckUnavailableError`` if there is no answer in time.
        """
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            raise CheckUnavailableError("other texts are being checked: try again") from None
        try:
            content = Content(
                request.text, request.title, request.keywords, request.tags, request.references
            )
            indexed = await self._ask(content, request)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(threads, self._answer, request, content, indexed)
        finally:
            self._turns.release()

    def _answer(self, request: CheckRequest, content: Content, indexed: Answer) -> CheckAnswer:
        with self._fingerprinting:  # a fingerprinter is for one thread at a time
            if self._fingerprinter is None:
                self._fingerprinter = Fingerprinter(self._profile)
            fingerprinter, printed = self._fingerprinter, self._fingerprinter.fingerprint(content)
        bits = self._profile.bits
        original = None if indexed.match is None else _near_document(indexed.match, bits, near=True)
        nearest = [
            _near_document(each.match, bits, near=each.near)
            for each in indexed.neighbours[: request.nearest]
        ]
        differences = None
        if request.differences:
            within = [each for each in nearest if each.distance <= self._profile.distance]
            differences = self._differences([original] if original else within, request.text)
        return CheckAnswer(
            verdict=_verdict_name(indexed.match, printed),
            original=original,
            nearest=nearest,
            candidates=indexed.candidates,
            fullest_bucket=indexed.fullest_bucket,
            fingerprint=printed.fingerprint.hex() or None,
            bits=bits,
            features=printed.features,
            undecidable=printed.undecidable,
            content_digest=printed.content_digest.hex(),
            index=index_digest(fingerprinter.identity),
            differences=differences,
        )

    async def _ask(self, content: Content, request: CheckRequest) -> Answer:
        if not self._loop.is_running():
            raise CheckUnavailableError("the worker is starting or stopping: try again")
        question = self._view.look_up(content, request.nearest, request.scope)
        future = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise CheckUnavailableError(
                f"no answer from the index within {_ANSWER_SECONDS:g} s: /healthz and /readyz of "
                "the workers may show the reason"
            ) from None
        except CheckUnavailableError:
            raise
        except FirstseenError as error:
            raise CheckUnavailableError(f"the query was not sent: {error}") from error

    def _differences(self, documents: Iterable[NearDocument], text: str) -> Differences | None:
        """Compare the text with the first of these documents whose text is kept."""
        for each in documents:
            document_text = self._text_of(each.source.position())
            if document_text is not None:
                return Differences(each.source, *side_by_side(document_text, text))
        return None


def _verdict_name(match: Match | None, printed: Fingerprinted) -> str:
    if match is not None:
        return "exact_duplicate" if match.exact else "near_duplicate"
    return "unique" if printed.undecidable is None else "undecidable"


def _near_document(match: Match, bits: int, *, near: bool) -> NearDocument:
    agreement = match.similarity
    return NearDocument(
        id=match.original_id,
        source=PositionValue.of(match.source),
        timestamp=format_rfc3339(match.event_time_ms),
        distance=match.distance,
        similarity=1.0 if match.exact else round(1 - match.distance / bits, _DIGITS),
        near=near,
        method=(Method.EXACT if match.exact else Method.NEAR) if near else None,
        agreement=None if agreement is None else round(agreement, _DIGITS),
        block=match.block,
    )
