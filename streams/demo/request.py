"""The request for a demo, and the settings and records that follow from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from simhash_core.errors import UsageError
from streams.corpus.corpus import generate
from streams.demo.feed import LONGEST_BYTES, FeedRecord
from streams.demo.scoring import Truth
from streams.files.document_files import InputDocuments
from streams.settings.loader import load_settings
from streams.settings.settings import Settings

OUTPUT_PARTITIONS: Final = 4  # of each topic of documents
RAW_PARTITIONS: Final = 1
"""One, so that the stream keeps its order and originals come before copies."""
DOCUMENTS: Final = 3_000
SEED: Final = 1

_OURS: Final = (
    "brokers",
    "state_dir",
    "broker_wait_seconds",
    "web.enabled",
    "web.host",
    "web.port",
)
# The embedded broker has no read isolation, takes a session time-out for each change of the group,
# and delays an empty fetch to its maximum (see its module).
_BESIDE: Final = {
    "delivery": "at_least_once",
    "session_timeout_seconds": "6",
    "kafka.fetch.wait.max.ms": "10",
}


class DemoRequest(msgspec.Struct, frozen=True, kw_only=True):
    """``assignments``: settings of the worker, ``name=value``.

    ``documents`` None: all of ``input``. ``state_dir`` None: a temporary directory.
    """

    documents: int | None = None
    seed: int = SEED
    input: str | None = None
    profile: str | None = None
    assignments: tuple[str, ...] = ()
    state_dir: Path | None = None
    keep_running: bool = False

    def generated(self) -> int:
        return DOCUMENTS if self.documents is None else self.documents


def settings_of(request: DemoRequest, brokers: str, state_dir: Path) -> Settings:
    """Return the settings of the demo; environment and files are ignored.

    Raises ``SettingsError``, or ``UsageError`` for a setting that the demo chooses itself.
    """
    loaded = load_settings(
        flags=_flags(request, brokers), assignments=_assignments(request, state_dir), environ={}
    )
    return loaded.settings


def worker_options(request: DemoRequest, brokers: str, state_dir: Path) -> list[str]:
    options: list[str] = []
    for flag, value in _flags(request, brokers).items():
        options += [flag, value]
    for assignment in _assignments(request, state_dir):
        options += ["--set", assignment]
    return options


def _flags(request: DemoRequest, brokers: str) -> dict[str, str]:
    profile = {} if request.profile is None else {"--profile": request.profile}
    return {"--broker": brokers, **profile}


def _assignments(request: DemoRequest, state_dir: Path) -> list[str]:
    names = {assignment.partition("=")[0].strip() for assignment in request.assignments}
    for name in _OURS:
        if name in names:
            raise UsageError(f"--set {name}: the demo does not allow this setting")
    assignments = [*request.assignments, f"state_dir={state_dir}"]
    beside = [f"{name}={value}" for name, value in _BESIDE.items() if name not in names]
    return assignments + beside


# ---- The records: generated with known truth, or from the user's files.


class StreamSource:
    """The stream, for one iteration; ``truth`` is None for the user's files."""

    def __init__(self, request: DemoRequest, settings: Settings) -> None:
        self.truth: Truth | None = None
        self.too_long = 0
        self._request = request
        self._input: InputDocuments | None = None
        if request.input is None:
            self.truth = Truth()
        else:
            self._input = InputDocuments([request.input], settings.fields, LONGEST_BYTES)

    def __iter__(self) -> Iterator[FeedRecord]:
        if self._input is not None:
            yield from self._read(self._input)
            return
        assert self.truth is not None
        for record in generate(self._request.seed, self._request.generated()):
            yield FeedRecord(record.key, record.value, self.truth.add(record))

    def share(self, sent: int, decided: int) -> float | None:
        """Return the share of the stream that is done, 0 to 1; None if its length is unknown."""
        if self._input is None:
            return decided / max(1, self._request.generated())
        if self._request.documents is not None:
            return decided / self._request.documents
        if self._input.total_bytes is None:
            return None
        read = self._input.bytes_read / max(1, self._input.total_bytes)
        return read * decided / max(1, sent)

    def _read(self, documents: InputDocuments) -> Iterator[FeedRecord]:
        left = self._request.documents
        for record in documents:
            if left == 0:
                return
            if record.value is None:
                self.too_long += 1
                continue
            yield FeedRecord(record.key, record.value, where=record.where)
            left = None if left is None else left - 1
