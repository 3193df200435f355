"""Whole workers forget documents, separate scopes, and output short texts as unique."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from simhash_core.documents import SourcePosition
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Output, Raw
from tests.rigs.workers.worker_metrics import await_that, value
from tests.unit.ops_page.live_worker import ask

SHORT = ("👍", "好的，谢谢！", "", "See you tomorrow.")
LONG = (
    "市图书馆新馆周末试运行，首批开放的阅览室有三千个座位，读者可凭身份证直接入馆，外借图书每人最多二十册。"
    "地下一层为少儿馆，每周二闭馆；自习区凭预约进入，停车场前两小时免费，公交七路和地铁三号线可以到达。"
)
REPEATS = 3
START_MS = 1_714_536_000_000
DAY_MS = 86_400_000
SNOW = "北京今天下了第一场雪，地铁照常运行，学校下午停课，气象部门提醒市民出门注意防滑。"
TEA = "今年春茶的产量比去年高出两成，茶农忙着采摘，收购价却比往年低了不少，合作社正在想办法。"
BEYOND_LATENESS = "firstseen_entries_beyond_lateness_total"
U, NONE = "unique", "no verdict"
CHESS = "两位棋手下了六个小时，最后以和棋结束，观众起立鼓掌，赛后他们一起复盘了关键的几步。"


def document(name: str, text: str, *, days: float = 0, tenant: str = "") -> Raw:
    """Return a record whose key is its id; all are in one partition."""
    fields = {"id": name, "text": text, "timestamp": START_MS + int(days * DAY_MS)}
    encoded = json.dumps(fields | ({"tenant": tenant} if tenant else {}), ensure_ascii=False)
    return Raw(name.encode(), encoded.encode(), timestamp_ms=START_MS, partition=0)


def tombstone(name: str) -> Raw:
    return Raw(name.encode(), None, timestamp_ms=START_MS, partition=0)


def send_and_check(stream: Stream, *expected: tuple[Raw, str]) -> list[SourcePosition]:
    """Send records, and check their verdicts: U, the id of the original, or NONE of a tombstone."""
    places = stream.send(raw for raw, _ in expected)
    outputs = stream.settle()
    found = {source: said.original_id for source, said in outputs.duplicates.items()}
    found |= dict.fromkeys(outputs.uniques, U)
    assert [found.get(place, NONE) for place in places] == [verdict for _, verdict in expected]
    return places


def on_unique(stream: Stream, name: str) -> list[Output]:
    """Return the values of a key on ``unique``, in order."""
    stream.outputs.read_to_ends()
    found = [*stream.outputs.uniques.values(), *stream.outputs.tombstones]
    of_key = [each for each in found if each.record.key == name.encode()]
    return sorted(of_key, key=lambda each: each.record.position)


def original_of(worker: Worker, text: str, scope: str) -> str | None:
    """Return the original of a text that would come now, by a worker's page; None if unique."""
    body = json.dumps({"text": text, "scope": scope}).encode()
    reply = ask(worker, "POST", "/api/check", body, Content_Type="application/json")
    found = reply.json["original"]
    return None if found is None else str(found["id"])


def test_documents_repeat_within_a_window_and_a_scope(
    embedded_broker: Broker, tmp_path: Path
) -> None:
    options = ("index.window=30d", "index.lateness=1d", "fields.scope=tenant")
    with Stream(embedded_broker, tmp_path, raw_partitions=1, options=options) as stream:
        worker = stream.started()
        send_and_check(
            stream,
            (document("a", SNOW, tenant="x"), U),
            (document("b", SNOW, tenant="y", days=1), U),
            (document("c", SNOW, tenant="x", days=30), "a"),
            (document("d", SNOW, tenant="x", days=31), U),
            (document("e", SNOW, tenant="y", days=31), "b"),
            (document("f", "好", tenant="x", days=31), U),
            (document("g", "好", tenant="y", days=31), U),
            (document("h", "好", tenant="x", days=32), "f"),
            (document("i", SNOW, tenant="x", days=90), U),
        )

        assert original_of(worker, SNOW, "x") == "i"
        assert original_of(worker, SNOW, "y") is None, "it is of 89 days ago"
        assert value(worker, BEYOND_LATENESS) == 0
        send_and_check(
            stream,
            (document("j", CHESS, tenant="x", days=40), U),
            (document("k", TEA, tenant="x", days=89.5), U),
            (document("l", SNOW, tenant="x", days=70), "i"),
        )
        await_that("one is late", lambda: value(worker, BEYOND_LATENESS) == 1, worker)


def test_tombstones_take_documents_out(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        sent = send_and_check(
            stream,
            (document("a", SNOW), U),
            (document("b", SNOW), "a"),
            (tombstone("a"), NONE),
            (document("c", SNOW), U),
            (tombstone("b"), NONE),
            (tombstone("unknown"), NONE),
            (document("short", "好"), U),
            (tombstone("short"), NONE),
            (document("short-2", "好"), U),
        )

        first, gone = on_unique(stream, "a")
        assert (first.record.value, gone.record.value) == (stream.sent[sent[0]].value, None)
        assert dict(gone.record.headers)["firstseen-verdict"] == b"deleted"
        assert gone.said.source == sent[2]
        assert not on_unique(stream, "b")
        assert not on_unique(stream, "unknown")

        worker.kill()
        shutil.rmtree(tmp_path / "state")
        stream.started()
        send_and_check(
            stream,
            (document("d", SNOW), "c"),
            (tombstone("c"), NONE),
            (document("e", SNOW), U),
        )


def test_a_document_replaces_the_one_with_its_id(embedded_broker: Broker, tmp_path: Path) -> None:
    options = ("index.same_id=replace",)
    with Stream(embedded_broker, tmp_path, raw_partitions=1, options=options) as stream:
        stream.started()
        sent = send_and_check(
            stream,
            (document("a", SNOW), U),
            (document("a", TEA), U),
            (document("b", SNOW), U),
            (document("b", SNOW), U),
            (document("c", CHESS), U),
            (document("c", TEA), "a"),
            (document("d", CHESS), U),
        )

        assert [each.record.value is None for each in on_unique(stream, "a")] == [False, False]
        unique, gone = on_unique(stream, "c")
        assert (unique.said.source, gone.said.source) == (sent[4], sent[5])
        assert dict(gone.record.headers)["firstseen-verdict"] == b"replaced"


def test_a_copy_replaces_a_document_that_has_expired(
    embedded_broker: Broker, tmp_path: Path
) -> None:
    options = ("index.window=30d", "index.lateness=1d", "index.same_id=replace")
    with Stream(embedded_broker, tmp_path, raw_partitions=1, options=options) as stream:
        stream.started()
        send_and_check(stream, (document("a", SNOW), U))
        send_and_check(stream, (document("b", TEA, days=70), U))
        send_and_check(stream, (document("c", SNOW, days=71), U))
        send_and_check(stream, (document("a", TEA, days=72), "b"))

        assert [each.record.value is None for each in on_unique(stream, "a")] == [False, True]
        assert [each.record.value is None for each in on_unique(stream, "b")] == [False]


def as_text(text: str) -> bytes:
    return json.dumps({"text": text}).encode()


def test_repeats_of_short_texts_pass(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, options=["index.short_texts=pass"]) as stream:
        worker = stream.started()
        for round_ in range(REPEATS):
            stream.send(
                Raw(b"%d-%d-%d" % (round_, partition, place), as_text(text), partition=partition)
                for partition in range(2)
                for place, text in enumerate((*SHORT, LONG))
            )
            stream.settle()
            if round_ == 0:
                worker.kill()
                worker = stream.started()
        outputs = stream.settle()
        sent = 2 * REPEATS * len(SHORT)
        headers = [dict(each.record.headers) for each in outputs.uniques.values()]

        assert stream.judge.conserved(stream.sent, outputs) == 0
        assert sorted(each["firstseen-verdict"] or b"" for each in headers) == [
            b"undecidable"
        ] * sent + [b"unique"]
        assert len({each["firstseen-id"] for each in headers}) == sent + 1
        assert len(outputs.duplicates) == 2 * REPEATS - 1
        entries = [value(worker, "firstseen_store_documents", partition=p) for p in ("0", "1")]
        assert sum(entries) == sent + 1


ARCHIVE = 1_600
A_DAY = 40


def archive() -> Iterator[tuple[Raw, int]]:
    """Yield forty days of records on four partitions, with the number of the text.

    A copy comes half a day after its original, on any partition.
    """
    rng = random.Random(5)
    texts: list[int] = []
    for number in range(ARCHIVE):
        is_copy = number % 4 == 3 and number > A_DAY
        texts.append(texts[number - A_DAY // 2 - 1] if is_copy else number)
        characters = random.Random(texts[-1])
        text = "".join(chr(characters.randrange(0x4E00, 0x9000)) for _ in range(60))
        value = json.dumps({"id": str(number), "text": text}).encode()
        (partition,) = rng.choices(range(4), (5, 2, 2, 1))
        time_ms = START_MS + number * DAY_MS // A_DAY
        yield Raw(b"", value, partition=partition, timestamp_ms=time_ms), texts[-1]


def test_an_archive_is_read_in_the_order_of_its_times(
    embedded_broker: Broker, tmp_path: Path
) -> None:
    """Shards open one after the other, and partitions have different numbers of records."""
    options = ("index.window=3d", "index.lateness=1d", "intake.idle_ms=5000")
    with Stream(embedded_broker, tmp_path, raw_partitions=4, options=options) as stream:
        raws, texts = zip(*archive(), strict=True)
        places = stream.send(raws)
        worker = stream.started()
        uniques = stream.settle().uniques
        passed = Counter(
            text for place, text in zip(places, texts, strict=True) if place in uniques
        )
        assert passed == Counter(set(texts)), "one of each text is unique"
        assert value(worker, BEYOND_LATENESS) == 0
