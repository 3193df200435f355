"""Workers with ``index.short_texts=pass``: repeats of short texts pass, those of others do not."""

from __future__ import annotations

import json
from pathlib import Path

from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Raw
from tests.rigs.workers.worker_metrics import value

SHORT = ("👍", "好的，谢谢！", "", "See you tomorrow.")
LONG = (
    "市图书馆新馆周末试运行，首批开放的阅览室有三千个座位，读者可凭身份证直接入馆，外借图书每人最多二十册。"
    "地下一层为少儿馆，每周二闭馆；自习区凭预约进入，停车场前两小时免费，公交七路和地铁三号线可以到达。"
)
REPEATS = 3


def record(name: str, text: str, partition: int) -> Raw:
    """A document."""
    return Raw(name.encode(), json.dumps({"text": text}).encode(), partition=partition)


def test_repeats_of_short_texts_pass(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given short texts that come again on both partitions, also after a kill, and a long text that
    does as well; then every short one is on ``unique``, marked as undecidable and with its own id,
    each takes an entry of the index, and copies of the long one are duplicates.
    """
    with Stream(kafka_broker, tmp_path, options=["index.short_texts=pass"]) as stream:
        worker = stream.started()
        for round_ in range(REPEATS):
            texts = (*SHORT, LONG)
            stream.send(
                record(f"{round_}-{partition}-{place}", text, partition)
                for partition in range(2)
                for place, text in enumerate(texts)
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
