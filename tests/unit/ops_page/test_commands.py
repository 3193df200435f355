"""``firstseen check`` and ``firstseen health``, and the checks of a page behind them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from simhash_core.errors import FirstseenError
from simhash_core.verdicts import Answer
from streams.cli.main import main
from streams.cli.page_commands import check_view, exit_code_of_answer
from streams.errors import ExitCode
from streams.ops_page.text_check import CheckAnswer
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.waiting import await_that
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Raw
from tests.unit.cli.running import firstseen
from tests.unit.ops_page.live_worker import EDITED, ORIGINAL, STRANGER, ask, ask_about, now_ms
from tests.unit.ops_page.served_page import Served, at_work, near_answer, served_page

NONE = Answer(None, [], 0, 0)
TOKEN = "a-token-of-the-worker"  # noqa: S105 - a test's


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_page(tmp_path_factory.mktemp("state")) as running:
        at_work(running)
        yield running


def answered(served: Served, text: str, answer: Answer, **fields: object) -> CheckAnswer:
    served.view.answer = answer
    reply = served.check(text, **fields)
    assert reply.status == HTTPStatus.OK, reply.body
    return msgspec.json.decode(reply.body, type=CheckAnswer)


def exact_answer() -> Answer:
    near = near_answer(0)
    assert near.match is not None
    exact = msgspec.structs.replace(near.match, exact=True, similarity=None)
    return msgspec.structs.replace(near, match=exact)


def test_index_is_asked_about_every_field_of_the_document(served: Served) -> None:
    answered(served, "a text", NONE, title="a title", keywords=["k"], nearest=3)
    content, limit, scope = served.view.asked[-1]
    assert (content.text, content.title, content.keywords) == ("a text", "a title", ("k",))
    assert (limit, scope) == (3, "")
    without_neighbours = answered(served, EDITED, near_answer(), nearest=0)
    assert without_neighbours.nearest == []
    assert without_neighbours.original is not None


@pytest.mark.parametrize(
    ("text", "answer", "verdict", "code"),
    [
        (ORIGINAL, NONE, "unique", ExitCode.OK),
        ("😀 ok", NONE, "undecidable", ExitCode.OK),
        (EDITED, near_answer(), "near_duplicate", ExitCode.DUPLICATE),
        (ORIGINAL, exact_answer(), "exact_duplicate", ExitCode.DUPLICATE),
    ],
)
def test_verdict_original_and_exit_code(
    served: Served, text: str, answer: Answer, verdict: str, code: ExitCode
) -> None:
    made = answered(served, text, answer)
    assert made.verdict == verdict
    assert (made.original is None) is (answer.match is None)
    assert (made.fingerprint is None) is (verdict == "undecidable")
    assert exit_code_of_answer(made) == code
    assert str(check_view(made)[0]).startswith("verdict      " + verdict.replace("_", " "))


def test_answer_describes_the_original_and_the_nearest(served: Served) -> None:
    made = answered(served, EDITED, near_answer(), differences=True)
    assert made.original is not None
    assert made.original.id == "ferry"
    assert (made.original.source.topic, made.original.source.offset) == ("raw-documents", 1)
    assert (made.original.distance, made.original.block, made.original.agreement) == (9, 4, 0.81)
    assert made.original.similarity == pytest.approx(1 - 9 / 256, abs=1e-6)
    assert [(each.id, each.near, each.method) for each in made.nearest] == [
        ("ferry", True, "near"),
        ("bakers", False, None),
    ]
    assert (made.candidates, made.fullest_bucket) == (41, 12)
    assert made.differences is not None
    assert ("only", "Wednesday") in made.differences.text


def test_check_without_a_leader_is_unavailable(served: Served) -> None:
    served.view.answer = None
    reply = served.check(ORIGINAL)
    result = firstseen("check", "--text", "a", "--url", served.url)
    assert reply.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert int(reply.headers["Retry-After"]) >= 1
    assert result.returncode == ExitCode.BROKER_UNAVAILABLE
    assert reply.json["error"]["message"] in result.stderr


def test_check_command_shows_the_answer(served: Served, tmp_path: Path) -> None:
    served.view.answer = near_answer()
    (file := tmp_path / "edited.txt").write_text(EDITED, "utf-8")
    shown = firstseen("check", str(file), "--url", served.url, "--exit-code")
    port = ("--set", f"web.port={served.port}")
    as_json = firstseen("check", "-", "--json", "--nearest", "1", *port, stdin=EDITED)
    assert shown.returncode == ExitCode.DUPLICATE, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("verdict ")
    assert "ferry (raw-documents/0@1)" in lines[0]
    assert "fingerprint  " in shown.stdout
    assert any(re.fullmatch("candidates +41, 12 .*", line) for line in lines)
    assert any(line.startswith("bakers") for line in lines)
    assert max(map(len, lines)) <= 110
    answer = json.loads(as_json.stdout)
    assert (answer["schema"], len(answer["nearest"])) == ("firstseen.check/2", 1)
    assert served.view.asked[-1][0].text == EDITED


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "either a FILE"),
        (["a.txt", "--text", "b"], "either a FILE"),
        (["--text", "b", "--url", "ftp://a"], "not a valid address"),
        (["--text", "b", "--url", "http://a:x"], "not a valid address"),
        (["--text", "b", "--url", "http://a b"], "not a valid address"),
        (["--text", "b", "--url", "http://127.0.0.1:1/wörker"], "not a valid address"),
        (["--text", "b", "--nearest", "51"], "51"),
        (["missing.txt"], "missing.txt"),
    ],
)
def test_invalid_arguments(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *arguments]) == ExitCode.USAGE
    assert says in capsys.readouterr().err


class OtherServer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_response(200 if self.path == "/worker-1/api/check" else 404)
        self.end_headers()
        self.wfile.write(b"<html>a page of another server</html>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is inherited
        """Log nothing."""


def test_check_without_a_worker_names_the_address(capsys: pytest.CaptureFixture[str]) -> None:
    with HTTPServer(("127.0.0.1", 0), OtherServer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        other = f"http://127.0.0.1:{server.server_port}/worker-1/"
        assert main(["check", "--text", "b", "--url", other]) == ExitCode.RUNTIME
        server.shutdown()
    assert f"{other} is not a worker of this version" in capsys.readouterr().err
    url = f"http://127.0.0.1:{free_port()}"
    assert main(["check", "--text", "b", "--url", url]) == ExitCode.BROKER_UNAVAILABLE
    assert url in capsys.readouterr().err


def test_health_of_a_worker_that_opens_a_shard_and_then_fails(tmp_path: Path) -> None:
    with served_page(tmp_path, f"web.token={TOKEN}") as served:
        environ = {"FIRSTSEEN_WEB__PORT": str(served.port)}
        without = firstseen("health", environ=environ)
        environ["FIRSTSEEN_WEB__TOKEN"] = TOKEN
        well = firstseen("health", environ=environ)
        ready = firstseen("health", "--ready", environ=environ)
        served.view.failure = FirstseenError("no room on the disk")
        failed = firstseen("health", environ=environ)
    assert without.returncode == ExitCode.CONFIGURATION
    assert (well.returncode, well.stdout) == (ExitCode.OK, "well\n"), well.stderr
    assert ready.returncode == failed.returncode == ExitCode.RUNTIME
    assert "[2]" in ready.stderr
    assert "no room on the disk" in failed.stderr


def status_of(worker: Worker) -> Any:  # noqa: ANN401 - JSON
    return ask(worker, "GET", "/api/status", Authorization=f"Bearer {TOKEN}").json


def has_one_shard(worker: Worker) -> bool:
    return [shard["state"] for shard in status_of(worker)["shards"]] == ["ready"]


def test_any_worker_answers_even_after_the_leader_is_killed(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN, "utf-8")
    options = (f"web.token_file={token}", "web.open_monitoring=true")
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        workers = [stream.worker(*options, state=f"state-{n}") for n in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.await_ready()
        await_that(lambda: all(map(has_one_shard, workers)))
        for partition, text in enumerate((ORIGINAL, STRANGER)):
            value = json.dumps({"id": f"d{partition}", "text": text}).encode()
            stream.send([Raw(None, value, partition=partition, timestamp_ms=now_ms())])
            stream.settle()

        answers = [
            [ask_about(worker, text, TOKEN).json for text in (EDITED, STRANGER)]
            for worker in workers
        ]
        url = ("--url", workers[1].url)
        environ = {"FIRSTSEEN_WEB__TOKEN_FILE": str(token)}
        told = firstseen("check", "--text", EDITED, *url, "--json", environ=environ)
        refused = firstseen("check", "--text", EDITED, *url)
        orderings = [status_of(worker)["ordering"] for worker in workers]
        leaders = [each["leads"] for each in orderings]
        assert sorted(leaders) == [False, True]
        assert orderings[0]["leader"] == orderings[1]["leader"]
        workers[leaders.index(True)].kill()
        follower = workers[leaders.index(False)]

        def answers_again() -> bool:
            reply = ask_about(follower, EDITED, TOKEN)
            if reply.status == HTTPStatus.OK:
                assert reply.json["original"]["id"] == "d0"
                return True
            assert reply.status == HTTPStatus.SERVICE_UNAVAILABLE
            assert reply.json["error"]["message"]
            return False

        await_that(answers_again)

    for edited, stranger in answers:
        assert (edited["verdict"], edited["original"]["id"]) == ("near_duplicate", "d0")
        assert (stranger["verdict"], stranger["original"]["id"]) == ("exact_duplicate", "d1")
    assert answers[0] == answers[1]
    assert json.loads(told.stdout)["original"] == answers[0][0]["original"]
    assert refused.returncode == ExitCode.CONFIGURATION
    assert "web.token" in refused.stderr
