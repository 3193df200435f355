"""A text looked up in the shards of this worker, as ``POST /api/check`` does.

It never changes state. The text is fingerprinted in the thread of the request, by a fingerprinter
of its own; shards are read in a thread as well, each while it has no batch under way: it is locked
for that long, a few milliseconds, so nothing is seen that is not committed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import msgspec

from simhash_core.blocks import Bucket
from simhash_core.documents import Content, Document, RawRecord, SourcePosition
from simhash_core.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.first_visit import first_visit
from simhash_core.neighbours import Look, Neighbour
from simhash_core.placement import Placement
from simhash_core.probes import Probe
from simhash_core.profiles import Profile
from simhash_core.verdicts import DuplicateOf, Method
from streams.evaluation.text_differences import side_by_side
from streams.ops_page.check_answer import (
    CheckAnswer,
    CheckRequest,
    Differences,
    LookedAt,
    NearDocument,
    NotLookedAt,
    Place,
    concluded,
)
from streams.pipeline import Pipeline
from streams.timestamps import format_rfc3339

AT_ONCE: Final = 2
"""Texts that are looked up at one time."""

_TURN_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 10.0
_DIGITS: Final = 6
_NO_SOURCE: Final = SourcePosition("check", 0, 0)

TextOf = Callable[[SourcePosition], str | None]
"""The text of a document of the index, where it is held."""


class CheckUnavailableError(Exception):
    """The worker cannot look now; the message says why."""


class TextCheck:
    """Looks texts up; any thread may ask."""

    def __init__(
        self,
        profile: Profile,
        partitions: int,
        pipeline: Pipeline,
        loop: asyncio.AbstractEventLoop,
        text_of: TextOf,
    ) -> None:
        """``loop`` is that of the pipeline. The fingerprinter is made at the first question."""
        self._profile = profile
        self._partitions = partitions
        self._pipeline = pipeline
        self._loop = loop
        self._text_of = text_of
        self._fingerprinter: Fingerprinter | None = None
        self._fingerprinting = threading.Lock()
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        # Not the loop's own threads, where shards are opened: a look must not wait for a recovery
        # while it holds up a shard.
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="check")

    def answer(self, request: CheckRequest) -> CheckAnswer:
        """Look a text up. Raises ``CheckUnavailableError`` after waiting for too long."""
        if not self._turns.acquire(timeout=_TURN_SECONDS):
            raise CheckUnavailableError("other texts are being looked up: try again")
        try:
            return self._answer(request)
        finally:
            self._turns.release()

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _answer(self, request: CheckRequest) -> CheckAnswer:
        content = Content(
            request.text, request.title, request.keywords, request.tags, request.references
        )
        fingerprinter, made = self._fingerprinted(content)
        scheme = fingerprinter.scheme
        # A placement of its own: the pipeline's remembers ways, for one thread.
        route = Placement(scheme, self._partitions).by_partition(
            made.fingerprint, made.content_digest
        )
        looks = self._looks(_probe_of(content, made), route, request.nearest)
        found = {shard: look for shard, look in looks.items() if isinstance(look, Look)}
        near = partial(_neighbour, bits=scheme.bits, digest=made.content_digest)
        answer = CheckAnswer(
            verdict="",
            complete=False,
            original=None,
            nearest=[near(each, shard) for shard, look in found.items() for each in look.nearest],
            looked_at=[_looked_at(shard, look, scheme.bits) for shard, look in found.items()],
            not_looked_at=[
                NotLookedAt(shard, why) for shard, why in looks.items() if isinstance(why, str)
            ],
            fingerprint=made.fingerprint.hex() or None,
            bits=scheme.bits,
            features=made.features,
            undecidable=made.undecidable,
            content_digest=made.content_digest.hex(),
            index=fingerprinter.identity,
            shards=self._partitions,
        )
        answer = concluded(answer, request.nearest)
        return self._with_differences(answer, request.text) if request.differences else answer

    def _fingerprinted(self, content: Content) -> tuple[Fingerprinter, Fingerprinted]:
        """A fingerprinter serves one thread at a time."""
        with self._fingerprinting:
            if self._fingerprinter is None:
                self._fingerprinter = Fingerprinter(self._profile)
            return self._fingerprinter, self._fingerprinter.fingerprint(content)

    def _looks(
        self, probe: Probe, route: Mapping[int, list[Bucket]], most: int
    ) -> dict[int, Look | str]:
        """Ask each shard on the way; a text says why one was not asked."""
        if not self._loop.is_running():
            raise CheckUnavailableError("the worker is starting or stopping: try again")
        asked = self._pipeline.look(probe, route, most, self._threads)
        try:
            return asyncio.run_coroutine_threadsafe(asked, self._loop).result(_LOOK_SECONDS)
        except (TimeoutError, concurrent.futures.CancelledError):
            raise CheckUnavailableError(
                f"the shards have not answered within {_LOOK_SECONDS:g} s: /healthz may say why"
            ) from None

    def _with_differences(self, answer: CheckAnswer, text: str) -> CheckAnswer:
        """Show the text beside its original, or the nearest within the distance that is held."""
        within = self._profile.distance
        ranked = [each for each in answer.nearest if each.distance <= within]
        for each in [answer.original] if answer.original else ranked:
            held = self._text_of(SourcePosition(*msgspec.structs.astuple(each.source)))
            if held is not None:
                document, passages = side_by_side(held, text)
                shown = Differences(each.source, document, passages)
                return msgspec.structs.replace(answer, differences=shown)
        return answer


def _probe_of(content: Content, made: Fingerprinted) -> Probe:
    document = Document("", content.text, _NO_SOURCE, event_time_ms=0)
    return first_visit(document, made, RawRecord(None, None, 0)).probe


def _neighbour(found: Neighbour, shard: int, *, bits: int, digest: bytes) -> NearDocument:
    entry, same = found.entry, found.entry.content_digest == digest
    return NearDocument(
        id=entry.document_id,
        source=place_of(entry.source),
        timestamp=format_rfc3339(entry.event_time_ms),
        distance=found.distance,
        similarity=_similarity(found.distance, bits, same=same),
        near=found.near,
        method=(Method.EXACT if same else Method.NEAR) if found.near else None,
        agreement=_rounded(found.agreement),
        block=found.block,
        shard=shard,
    )


def _looked_at(shard: int, look: Look, bits: int) -> LookedAt:
    return LookedAt(
        shard=shard,
        candidates=look.candidates,
        fullest_bucket=look.fullest_bucket,
        original=None if look.duplicate is None else _original(look.duplicate, shard, bits),
        behind=None if look.behind is None else str(look.behind),
    )


def _original(verdict: DuplicateOf, shard: int, bits: int) -> NearDocument:
    exact = verdict.method is Method.EXACT
    return NearDocument(
        id=verdict.original_id,
        source=place_of(verdict.original),
        timestamp=format_rfc3339(verdict.original_event_time_ms),
        distance=verdict.distance,
        similarity=_similarity(verdict.distance, bits, same=exact),
        near=True,
        method=verdict.method,
        agreement=_rounded(verdict.agreement),
        block=verdict.block,
        shard=shard,
    )


def place_of(source: SourcePosition) -> Place:
    """Return a source position with names."""
    return Place(source.topic, source.partition, source.offset)


def _similarity(distance: int, bits: int, *, same: bool) -> float:
    return 1.0 if same else round(1 - distance / bits, _DIGITS)


def _rounded(agreement: float | None) -> float | None:
    return None if agreement is None else round(agreement, _DIGITS)
