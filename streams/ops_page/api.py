"""The paths under ``/api``, without HTTP."""

from __future__ import annotations

import math
import re
from concurrent.futures import Executor
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from streams.monitoring.worker_state import CheckUnavailableError
from streams.ops_page.access import Refusal, WorkBudget
from streams.ops_page.duplicates import DuplicateViews
from streams.ops_page.status import StatusReport
from streams.ops_page.text_check import CheckRequest, TextCheck

JSON: Final = "application/json"

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_MINIMUM_BYTES: Final = 16 * 1024
"""Cost of the smallest check: look-ups do not depend on the text's length."""
_BYTES_A_SECOND: Final = 512 * 1024
_ENVELOPE_BYTES: Final = 64 * 1024
_ESCAPED: Final = 2  # allowance for escapes in the JSON of a text


class Answer(NamedTuple):
    """A status and a JSON body; ``wait_seconds``: when to retry."""

    status: HTTPStatus
    body: bytes
    wait_seconds: int | None = None


def refused(refusal: Refusal, wait_seconds: int | None = None) -> Answer:
    """Return an error with a reason for programs and a message for people."""
    error = {"error": {"reason": refusal.reason, "message": refusal.message}}
    return Answer(refusal.status, msgspec.json.encode(error), wait_seconds)


class Api:
    """Call ``get`` from any thread, ``check`` on the loop of the pages."""

    def __init__(
        self, report: StatusReport, views: DuplicateViews, check: TextCheck, max_record_bytes: int
    ) -> None:
        self._report = report
        self._views = views
        self._check = check
        self._text_bytes = max_record_bytes
        self._budget = WorkBudget(
            limit=2 * max(max_record_bytes, _BYTES_A_SECOND), per_second=_BYTES_A_SECOND
        )
        self.body_bytes = _ESCAPED * max_record_bytes + _ENVELOPE_BYTES
        """The longest body of a request."""

    def get(self, path: str) -> Answer | None:
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
        return None

    async def check(self, body: bytes, threads: Executor) -> Answer:
        """Answer ``POST /api/check``; slow work runs in ``threads``."""
        try:
            request = _decode_request(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return refused(_malformed(str(error)))
        texts = (request.text, request.title, request.scope)
        lists = (*request.keywords, *request.tags, *request.references)
        size = sum(len(text.encode()) for text in (*texts, *lists))
        if size > self._text_bytes:
            return refused(
                Refusal(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    "too_large",
                    f"the text has {size} bytes, max_record_bytes is {self._text_bytes}",
                )
            )
        wait = self._budget.spend(max(size, _MINIMUM_BYTES))
        if wait:
            return refused(_TOO_MANY, math.ceil(wait))
        try:
            return _ok(await self._check.answer(request, threads))
        except CheckUnavailableError as error:
            unavailable = Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", str(error))
            return refused(unavailable, 1)


_GONE: Final = Refusal(
    HTTPStatus.NOT_FOUND, "gone", "this duplicate is not among the latest: list /api/duplicates"
)
_TOO_MANY: Final = Refusal(
    HTTPStatus.TOO_MANY_REQUESTS,
    "too_many",
    f"texts arrive faster than this worker checks them ({_BYTES_A_SECOND // 1024} KiB a second): "
    "ask again after Retry-After",
)
_decode_request = msgspec.json.Decoder(CheckRequest).decode


def _malformed(why: str) -> Refusal:
    return Refusal(
        HTTPStatus.BAD_REQUEST, "malformed", f'{why}: send a JSON object such as {{"text": "…"}}'
    )


def _ok(value: object) -> Answer:
    return Answer(HTTPStatus.OK, msgspec.json.encode(value))
