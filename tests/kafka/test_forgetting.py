"""Whole workers forget: windows, tombstones, documents that replace others; and scopes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from simhash_core.documents import SourcePosition
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Output, Raw
from tests.unit.ops_page.live_worker import ask

START_MS = 1_714_536_000_000
DAY_MS = 86_400_000
SNOW = "北京今天下了第一场雪，地铁照常运行，学校下午停课，气象部门提醒市民出门注意防滑。"
TEA = "今年春茶的产量比去年高出两成，茶农忙着采摘，收购价却比往年低了不少，合作社正在想办法。"
CHESS = "两位棋手下了六个小时，最后以和棋结束，观众起立鼓掌，赛后他们一起复盘了关键的几步。"


def document(name: str, text: str, *, days: float = 0, tenant: str = "") -> Raw:
    """A record under the key that is its id, all of them in one partition."""
    fields = {"id": name, "text": text, "timestamp": START_MS + int(days * DAY_MS)}
    value = json.dumps(fields | ({"tenant": tenant} if tenant else {}), ensure_ascii=False)
    return Raw(name.encode(), value.encode(), timestamp_ms=START_MS, partition=0)


def tombstone(name: str) -> Raw:
    """A record that takes the document with this id out."""
    return Raw(name.encode(), None, timestamp_ms=START_MS, partition=0)


def verdicts(stream: Stream, places: list[SourcePosition]) -> list[str]:
    """What became of records that were sent: ``unique``, or the id of the original."""
    outputs = stream.settle()
    originals = {source: said.original_id for source, said in outputs.duplicates.items()}
    return [
        "unique" if source in outputs.uniques else originals[source]
        for source in places
        if not stream.sent[source].is_tombstone
    ]


def on_unique(stream: Stream, name: str) -> list[Output]:
    """What stands on ``unique`` under a key, in order."""
    stream.outputs.read_to_ends()
    found = [*stream.outputs.uniques.values(), *stream.outputs.tombstones]
    of_key = [each for each in found if each.record.key == name.encode()]
    return sorted(of_key, key=lambda each: each.record.position)


def original_of(worker: Worker, text: str, scope: str) -> str | None:
    """What the page of a worker says of a text that would come now; None for a unique."""
    body = json.dumps({"text": text, "scope": scope}).encode()
    reply = ask(worker, "POST", "/api/check", body, Content_Type="application/json")
    found = reply.json["original"]
    return None if found is None else str(found["id"])


def test_a_window_and_scopes(broker: Broker, tmp_path: Path) -> None:
    """Given a window and tenants, then a copy is a duplicate within the window and the tenant, and
    unique beyond either.
    """
    options = ("index.window=30d", "index.lateness=1d", "fields.scope=tenant")
    with Stream(broker, tmp_path, options=options) as stream:
        worker = stream.started()
        sent = stream.send(
            [
                document("a", SNOW, tenant="x"),
                document("b", SNOW, tenant="y", days=1),
                document("c", SNOW, tenant="x", days=30),
                document("d", SNOW, tenant="x", days=31),
                document("e", SNOW, tenant="y", days=31),
                document("f", "好", tenant="x", days=31),
                document("g", "好", tenant="y", days=31),
                document("h", "好", tenant="x", days=32),
                document("i", SNOW, tenant="x", days=90),
            ]
        )

        assert verdicts(stream, sent) == [
            *("unique", "unique", "a", "unique", "b", "unique", "unique", "f", "unique")
        ]
        assert original_of(worker, SNOW, "x") == "i"
        assert original_of(worker, SNOW, "y") is None, "it is of 89 days ago"


def test_tombstones(broker: Broker, tmp_path: Path) -> None:
    """Given tombstones, then the documents are taken out from there on, and a tombstone is on
    ``unique`` behind them where they were there. So it stays when the worker is killed, and its
    state is lost where the broker keeps the changelog.
    """
    with Stream(broker, tmp_path) as stream:
        worker = stream.started()
        sent = stream.send(
            [
                document("a", SNOW),
                document("b", SNOW),
                tombstone("a"),
                document("c", SNOW),
                tombstone("b"),
                tombstone("unknown"),
                document("short", "好"),
                tombstone("short"),
                document("short-2", "好"),
            ]
        )

        assert verdicts(stream, sent) == ["unique", "a", "unique", "unique", "unique"]
        first, gone = on_unique(stream, "a")
        assert (first.record.value, gone.record.value) == (stream.sent[sent[0]].value, None)
        assert dict(gone.record.headers)["firstseen-verdict"] == b"deleted"
        assert gone.said.source == sent[2]
        assert not on_unique(stream, "b")
        assert not on_unique(stream, "unknown")

        worker.kill()
        if broker.supports_transactions:
            shutil.rmtree(tmp_path / "state")
        stream.started()
        again = stream.send([document("d", SNOW), tombstone("c"), document("e", SNOW)])

        assert verdicts(stream, again) == ["c", "unique"]


def test_documents_that_replace_others(broker: Broker, tmp_path: Path) -> None:
    """Given ``index.same_id=replace``, then a document takes the place of the one with its id: of
    the old text nothing is a duplicate any more, and where the new text repeats another document, a
    tombstone follows on ``unique``.
    """
    with Stream(broker, tmp_path, options=("index.same_id=replace",)) as stream:
        stream.started()
        sent = stream.send(
            [
                document("a", SNOW),
                document("a", TEA),
                document("b", SNOW),
                document("b", SNOW),
                document("c", CHESS),
                document("c", TEA),
                document("d", CHESS),
            ]
        )

        assert verdicts(stream, sent) == [
            *("unique", "unique", "unique", "unique", "unique", "a", "unique")
        ]
        assert [each.record.value is None for each in on_unique(stream, "a")] == [False, False]
        unique, gone = on_unique(stream, "c")
        assert (unique.said.source, gone.said.source) == (sent[4], sent[5])
        assert dict(gone.record.headers)["firstseen-verdict"] == b"replaced"
