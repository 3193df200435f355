"""The real pages of a worker whose state a test sets, without a broker."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.verdicts import (
    Answer,
    DuplicateOf,
    Match,
    Method,
    Neighbour,
    Rejection,
    RejectionReason,
    Unique,
    Verdict,
)
from streams.documents.raw_documents import DocumentReader
from streams.monitoring.group_watch import GroupWatch, OffsetMetadata
from streams.monitoring.health import Health
from streams.monitoring.metrics import IndexInfo, Metrics
from streams.ops_page.duplicates import RecentDocuments
from streams.ops_page.server import OpsPage, OpsServer
from streams.ops_page.status import FullestBuckets, Monitored
from streams.settings.loader import load_settings
from streams.topics.consumer_group import GroupState, Member
from streams.worker.fingerprint import PendingRecord
from tests.rigs.brokers.loopback_ports import free_port
from tests.unit.monitoring.fake_view import OPEN, FakeView
from tests.unit.ops_page.live_worker import EDITED, HOSTILE_ID, ORIGINAL, Reply, ask, ask_about

INDEX = "identity of the index"
WORKER = "firstseen.0b7d"
LEADER = "firstseen.51aa"
SHARDS = {
    0: OPEN._replace(entries=120_345, waiting=240, next_offset=130_001, log_position=4_120),
    2: OPEN._replace(is_open=False, recovery_remaining=12_345),
}


def group_of_three() -> GroupState:
    """Return a group in which one worker leads, and one has not committed yet."""
    other = OffsetMetadata(
        LEADER,
        1_700_000_000_000,
        1_700_000_360_000,
        {"unique": 5_120, "near_duplicate": 610, "exact_duplicate": 95, "dead_letter": 4},
        "http://worker-1.internal:6066/",
    )
    own = OffsetMetadata(WORKER, 1_700_000_000_000, 1_700_000_300_000, {"unique": 3})
    notes = {
        partition: msgspec.json.encode(each).decode()
        for partition, each in enumerate((own, other, own))
    }
    members = [
        Member(WORKER, "10.0.0.2", (0, 2)),
        Member(LEADER, "10.0.0.1", (1,)),
        Member("firstseen.c9e4", "10.0.0.3", ()),
    ]
    return GroupState(members, 3, notes, 1_904)


@dataclass
class Served:
    port: int
    view: FakeView
    metrics: Metrics
    health: Health
    recent: RecentDocuments
    fullest: FullestBuckets
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        return ask(self, method, path, body, **headers)

    def check(self, text: str, **fields: object) -> Reply:
        return ask_about(self, text, **fields)

    def status(self) -> Any:  # noqa: ANN401 - JSON
        return self.ask("GET", "/api/status").json


@contextmanager
def served_page(state_dir: Path, *more: str) -> Iterator[Served]:
    """Serve the pages of a worker with one shard open and one recovering; another leads."""
    assignments = (f"web.port={free_port()}", f"state_dir={state_dir}", *more)
    settings = load_settings(assignments=assignments, environ={}).settings
    info = IndexInfo(INDEX, settings.application_id, settings.profile, settings.delivery)
    metrics = Metrics(index=info)
    view = FakeView(dict(SHARDS), log_position=4_381, leader=f"{LEADER}.7f3a")
    health = Health(100, lambda: view.failure)
    group = GroupWatch(group_of_three)
    group.group()  # as a visitor of the page
    group.refresh()
    recent, fullest = RecentDocuments(1024 * 1024), FullestBuckets()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    parts = Monitored(
        view=view,
        metrics=metrics,
        health=health,
        recent=recent,
        fullest=fullest,
        index_info=info,
        profile=settings.index_profile(),
        name=WORKER,
        group=group,
    )
    reader = DocumentReader(settings.fields, settings.max_record_bytes)
    with OpsServer(settings) as server:
        server.open(OpsPage(settings, parts, loop, reader))
        yield Served(settings.web.port, view, metrics, health, recent, fullest, loop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def at_work(served: Served) -> None:
    """Note events as a busy worker does; the page shows them after its next sample."""
    metrics = served.metrics
    metrics.verdicts({"unique": 880, "near_duplicate": 90, "exact_duplicate": 25, "undecidable": 5})
    metrics.latencies([0.03] * 900 + [0.09] * 100)
    metrics.distances([0] * 25 + [3, 12, 20, 33, 47, 61] * 15)
    metrics.lag({("raw-documents", 0): 1_260, ("raw-documents", 2): 7})
    metrics.log_position(4_381, 4_390)
    metrics.undecided(250, 0.012)
    metrics.in_flight(240, 480_000)
    metrics.packet_skipped(3)
    metrics.control_refused(1)
    metrics.broker_up(up=True)
    metrics.state_disk(50 * 1024**3, 80 * 1024**3)
    metrics.candidates(4_000, 100)
    metrics.error("commit", "broker")
    metrics.rebalance()
    reasons = (RejectionReason.NOT_JSON, RejectionReason.NOT_JSON, RejectionReason.MISSING_TEXT)
    for offset, reason in enumerate(reasons, 70):
        metrics.dead_letter(reason)
        raw = RawRecord(None, b'{"text": "<b>half of a record', 0)
        place = SourcePosition("raw-documents", 0, offset)
        rejected = Rejection(place, raw, reason, "what is wrong with it")
        served.recent.note_rejections([rejected], 1_700_000_000_000)
    served.fullest.note(37)
    ferry = _decided(1, "ferry", ORIGINAL, Unique())
    repeat = DuplicateOf("ferry", ferry.source, 1_700_000_000_000, 9, 4, Method.NEAR, 0.81)
    edited = _decided(2, HOSTILE_ID, EDITED, repeat)
    served.recent.note([ferry, edited], 1_700_000_000_000)


def near_answer(distance: int = 9) -> Answer:
    source = SourcePosition("raw-documents", 0, 1)
    near = Match(0, distance, 17, "ferry", source, 1_700_000_000_000, 4, False, 0.81)
    far = Match(0, 70, 99, "bakers", SourcePosition("raw-documents", 1, 5), 0, 2, False, 0.1)
    return Answer(near, [Neighbour(near, near=True), Neighbour(far, near=False)], 41, 12)


def _decided(offset: int, name: str, text: str, verdict: Verdict) -> PendingRecord:
    value = json.dumps({"id": name, "text": text}).encode()
    source = SourcePosition("raw-documents", 0, offset)
    return PendingRecord(source, RawRecord(None, value, 0), None, name, verdict=verdict)
