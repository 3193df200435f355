"""The answers of a worker's API: ``/api/status``, ``/api/duplicates``, ``/api/check``."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from http import HTTPStatus
from typing import Any

import pytest

from tests.rigs.waiting import await_that
from tests.unit.ops_page.live_worker import EDITED, ORIGINAL, SECONDS, STRANGER, Live

JSON = "application/json"


def settled(live: Live) -> Any:  # noqa: ANN401 - JSON
    """Return the status once it has all sent documents, lag and log, and nothing in flight.

    Counters are newer than what the worker sets once a second, such as the end of the log.
    """

    def is_settled() -> object:
        status = live.status()
        waiting = status["ordering"]["undecided_documents"] or status["in_flight"]["documents"]
        counted = sum(status["documents"].values()) >= len(live.stream.sent)
        ordering = status["ordering"]
        is_read = 0 < ordering["log_end"] == ordering["log_position"]
        return counted and status["lag"] and is_read and not waiting

    await_that(is_settled, shows=live.status)
    return live.status()


def state_of_index(live: Live) -> list[object]:
    """Return fields of shards and metrics that any change of the index would change."""
    names = ("partition", "state", "entries", "waiting", "next_offset")
    shards = [[shard[name] for name in names] for shard in live.status()["shards"]]
    prefixes = tuple(
        f"firstseen_{name}" for name in ("documents_total", "store_documents", "input_bytes_total")
    )
    lines = live.worker.metrics().splitlines()
    return [shards, [line for line in lines if line.startswith(prefixes)]]


def test_status_agrees_with_the_outputs(live: Live) -> None:
    status, outputs = settled(live), live.stream.outputs
    counts, ordering, distances = status["documents"], status["ordering"], status["distances"]
    assert counts["near_duplicate"] + counts["exact_duplicate"] == len(outputs.duplicates)
    assert counts["unique"] + counts["undecidable"] == len(outputs.uniques)
    assert counts["dead_letter"] == len(outputs.dead_letters)
    assert sum(distances["counts"]) + distances["beyond"] == len(outputs.duplicates)
    assert (status["why_dead"], status["why_not_ready"], status["broker_up"]) == (None, None, True)
    assert [shard["partition"] for shard in status["shards"]] == [0, 1]
    for shard in status["shards"]:
        assert (shard["state"], shard["waiting"]) == ("ready", 0)
        assert shard["entries"] > 5
        assert shard["store_bytes"] > 1000
    assert {lag["topic"] for lag in status["lag"]} == {live.stream.settings.topics.raw}
    assert (ordering["leads"], ordering["reports_missing"]) == (True, [])
    assert ordering["log_position"] == ordering["log_end"] > 0
    assert status["latency"]["documents"] > 0
    assert max(status["throughput"]["documents"]) > 0


@pytest.mark.parametrize("number", ["0", "99999999", "x", "-1", "1/2", "9" * 30, "%D9%A3"])
def test_unknown_duplicate_number_is_not_found(live: Live, number: str) -> None:
    reply = live.ask("GET", f"/api/duplicates/{number}")
    assert reply.status == HTTPStatus.NOT_FOUND
    assert reply.json["error"]["message"]


def test_check_gives_the_verdict_of_the_stream(live: Live) -> None:
    said = live.stream.outputs.duplicates[live.edited]
    answer = live.check(EDITED, differences=True)
    assert answer["verdict"] == "near_duplicate"
    original, nearest = answer["original"], answer["nearest"][0]
    assert (original["id"], original["distance"]) == (said.original_id, said.distance)
    assert original["agreement"] is not None
    assert (nearest["id"], nearest["near"]) == (said.original_id, True)
    assert ["only", "Wednesday"] in answer["differences"]["text"]
    answer = live.check(ORIGINAL)
    assert (answer["verdict"], answer["original"]["distance"]) == ("exact_duplicate", 0)
    assert answer["original"]["source"]["offset"] == live.original.offset
    assert answer["candidates"] >= 1


def test_check_changes_neither_index_nor_metrics(live: Live) -> None:
    before = state_of_index(live)
    for _ in range(5):
        answer = live.check(STRANGER)
        assert (answer["verdict"], answer["original"]) == ("unique", None)
    assert state_of_index(live) == before
    (place,) = live.send(STRANGER)
    assert place in live.stream.outputs.uniques
    assert live.check(STRANGER)["verdict"] == "exact_duplicate"


def test_checks_do_not_disturb_the_stream(live: Live) -> None:
    with ThreadPoolExecutor(3) as threads:
        answers = threads.map(lambda _: live.check(ORIGINAL, nearest=3), range(20))
        for start in range(0, 30, 10):
            live.send(*(f"{STRANGER} {'very ' * n}much" for n in range(start, start + 10)))
        assert {answer["verdict"] for answer in answers} == {"exact_duplicate"}
    assert live.stream.judge.conserved(live.stream.sent, live.stream.outputs) == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"txt": ""}',
        b'{"text": 1}',
        b'{"text": "\xff"}',
        b'{"text": "\\ud800 half"}',
        b'{"text": "", "nearest": 51}',
        b"[" * 5000,
    ],
)
def test_malformed_checks_are_refused(live: Live, body: bytes) -> None:
    reply = live.ask("POST", "/api/check", body, Content_Type=JSON)
    assert (reply.status, reply.json["error"]["reason"]) == (HTTPStatus.BAD_REQUEST, "malformed")
    assert len(reply.json["error"]["message"]) > 10


def test_large_and_too_many_checks_are_refused(live: Live) -> None:
    body = json.dumps({"text": "x" * (live.stream.settings.max_record_bytes + 1)}).encode()
    long = live.ask("POST", "/api/check", body, Content_Type=JSON)
    assert long.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert "max_record_bytes" in long.json["error"]["message"]
    longer = live.ask("POST", "/api/check", b"x" * 3_300_000, Content_Type=JSON)
    assert longer.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    endless = live.ask("POST", "/api/check", iter([b"{}"]), Content_Type=JSON)
    assert endless.status == HTTPStatus.LENGTH_REQUIRED
    no_json = live.ask("POST", "/api/check", b'{"text": ""}', Content_Type="text/plain")
    assert no_json.status == HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    body = json.dumps({"text": " " * live.stream.settings.max_record_bytes}).encode()
    replies = [live.ask("POST", "/api/check", body, Content_Type=JSON) for _ in range(6)]
    assert replies[0].status == HTTPStatus.OK
    put_off = [each for each in replies if each.status == HTTPStatus.TOO_MANY_REQUESTS]
    assert 1 <= int(put_off[0].headers["Retry-After"]) <= 5


@pytest.mark.parametrize("sign", ["é", "😀"])
def test_longest_text_is_checked_with_all_its_characters_escaped(live: Live, sign: str) -> None:
    text = sign * (live.stream.settings.max_record_bytes // len(sign.encode()))
    assert live.check(text)["verdict"] == "undecidable"


@pytest.mark.parametrize(
    "path", ["/", "/page.js", "/page.css", "/api/status", "/api/nothing", "/metrics", "/healthz"]
)
def test_every_answer_has_security_headers(live: Live, path: str) -> None:
    for method in ("GET", "HEAD"):
        reply = live.ask(method, path)
        policy = reply.headers["Content-Security-Policy"]
        for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"):
            assert part in policy
        assert "unsafe" not in policy
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert "Python" not in reply.headers["Server"]
        assert (reply.body == b"") is (method == "HEAD")


def test_other_methods_and_host_names_are_refused(live: Live) -> None:
    assert live.ask("GET", "/api/check").status == HTTPStatus.METHOD_NOT_ALLOWED
    for method, path in (("POST", "/api/status"), ("DELETE", "/api/status"), ("PUT", "/metrics")):
        reply = live.ask(method, path, b"{}")
        assert reply.status == HTTPStatus.METHOD_NOT_ALLOWED
        assert reply.headers["Allow"] == "GET, HEAD"
    reply = live.ask("GET", "/api/duplicates", Host="evil.example")
    assert reply.status == HTTPStatus.MISDIRECTED_REQUEST
    assert b"ferry" not in reply.body


def test_connections_beyond_the_limit_are_closed(live: Live) -> None:
    address = ("127.0.0.1", live.worker.port)
    with ExitStack() as open_ones:
        clients = [
            open_ones.enter_context(socket.create_connection(address, SECONDS)) for _ in range(80)
        ]
        clients[-1].settimeout(2)  # the server closes an idle connection later
        assert clients[-1].recv(1) == b"", "it was not turned away"

    def answers() -> bool:
        with suppress(OSError):
            assert live.ask("GET", "/healthz").body == b"ok\n"
            return True
        return False

    await_that(answers)
