"""A query of the index about a text, as ``POST /api/check`` does.

The query goes through the log: every shard of the index looks the text up, and the leader decides,
as if the text were a document. It is not kept. A second fingerprinter, in a thread of the pages,
provides what the answer says of the text itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

import msgspec

from simhash_core.documents import Content, SourcePosition
from simhash_core.errors import FirstseenError
from simhash_core.index_digest import index_digest
from simhash_core.matches import Answer, Match
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.text.profiles import Profile
from simhash_core.verdicts import Method
from streams.documents.timestamps import format_rfc3339
from streams.monitoring.worker_state import CheckUnavailableError, WorkerView
from streams.offline.pages.text_differences import side_by_side
from streams.ops_page.check_answer import (
    CheckAnswer,
    CheckRequest,
    Differences,
    NearDocument,
    Position,
)

CONCURRENT_CHECKS: Final = 2
"""Texts that are checked at one time."""

_TURN_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 15.0
_DIGITS: Final = 6

TextOf = Callable[[SourcePosition], str | None]
"""The text of a document of the index, where it is held."""


class TextCheck:
    """Asks the index about texts; used on the event loop of the pages."""

    def __init__(
        self,
        profile: Profile,
        view: WorkerView,
        loop: asyncio.AbstractEventLoop,
        text_of: TextOf,
    ) -> None:
        """``loop`` is the worker's. The fingerprinter is created for the first text."""
        self._profile = profile
        self._view = view
        self._loop = loop
        self._text_of = text_of
        self._fingerprinter: Fingerprinter | None = None
        self._fingerprinting = threading.Lock()
        self._turns = asyncio.Semaphore(CONCURRENT_CHECKS)

    async def answer(self, request: CheckRequest, threads: Executor) -> CheckAnswer:
        """Ask the index; ``threads`` fingerprint and compare texts.

        Raises ``CheckUnavailableError`` where there is no answer in time.
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
        fingerprinter, printed = self._fingerprinted(content)
        bits = fingerprinter.scheme.bits
        original = None if indexed.match is None else _near_document(indexed.match, bits, near=True)
        answer = CheckAnswer(
            verdict=_verdict_name(indexed.match, printed),
            original=original,
            nearest=[
                _near_document(each.match, bits, near=each.near)
                for each in indexed.neighbours[: request.nearest]
            ],
            candidates=indexed.candidates,
            fullest_bucket=indexed.fullest_bucket,
            fingerprint=printed.fingerprint.hex() or None,
            bits=bits,
            features=printed.features,
            undecidable=printed.undecidable,
            content_digest=printed.content_digest.hex(),
            index=index_digest(fingerprinter.identity),
        )
        return self._with_differences(answer, request.text) if request.differences else answer

    def _fingerprinted(self, content: Content) -> tuple[Fingerprinter, Fingerprinted]:
        """A fingerprinter serves one thread at a time."""
        with self._fingerprinting:
            if self._fingerprinter is None:
                self._fingerprinter = Fingerprinter(self._profile)
            return self._fingerprinter, self._fingerprinter.fingerprint(content)

    async def _ask(self, content: Content, request: CheckRequest) -> Answer:
        if not self._loop.is_running():
            raise CheckUnavailableError("the worker is starting or stopping: try again")
        question = self._view.ask(content, request.nearest, request.scope)
        future = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise CheckUnavailableError(
                f"no answer from the index within {_ANSWER_SECONDS:g} s: /healthz and /readyz of "
                "the workers may say why"
            ) from None
        except CheckUnavailableError:
            raise
        except FirstseenError as error:
            raise CheckUnavailableError(f"the query was not sent: {error}") from error

    def _with_differences(self, answer: CheckAnswer, text: str) -> CheckAnswer:
        """Show the text beside its original, or the nearest within the distance that is held."""
        within = self._profile.distance
        ranked = [each for each in answer.nearest if each.distance <= within]
        for each in [answer.original] if answer.original else ranked:
            document_text = self._text_of(SourcePosition(*msgspec.structs.astuple(each.source)))
            if document_text is not None:
                document, passages = side_by_side(document_text, text)
                shown = Differences(each.source, document, passages)
                return msgspec.structs.replace(answer, differences=shown)
        return answer


def position_of(source: SourcePosition) -> Position:
    """Return a source position with names."""
    return Position(source.topic, source.partition, source.offset)


def _verdict_name(match: Match | None, printed: Fingerprinted) -> str:
    if match is not None:
        return "exact_duplicate" if match.exact else "near_duplicate"
    return "unique" if printed.undecidable is None else "undecidable"


def _near_document(match: Match, bits: int, *, near: bool) -> NearDocument:
    agreement = match.similarity
    return NearDocument(
        id=match.original_id,
        source=position_of(match.source),
        timestamp=format_rfc3339(match.event_time_ms),
        distance=match.distance,
        similarity=1.0 if match.exact else round(1 - match.distance / bits, _DIGITS),
        near=near,
        method=(Method.EXACT if match.exact else Method.NEAR) if near else None,
        agreement=None if agreement is None else round(agreement, _DIGITS),
        block=match.block,
    )
