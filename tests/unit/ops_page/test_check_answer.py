"""What the index says of a text, as the page and the command show it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import msgspec
import pytest

from simhash_core.verdicts import Answer
from streams.cli.text_views import check_view, exit_code_of_answer
from streams.errors import ExitCode
from streams.ops_page.text_check import CheckAnswer
from tests.unit.cli.running import firstseen
from tests.unit.ops_page.live_worker import EDITED, ORIGINAL
from tests.unit.ops_page.served_page import Served, at_work, near_answer, served_page

NONE = Answer(None, [], 0, 0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_page(tmp_path_factory.mktemp("state")) as running:
        at_work(running)
        yield running


def answered(served: Served, text: str, answer: Answer, **fields: object) -> CheckAnswer:
    """What the page says of a text where the index gives this answer."""
    served.view.answer = answer
    reply = served.check(text, **fields)
    assert reply.status == HTTPStatus.OK, reply.body
    return msgspec.json.decode(reply.body, type=CheckAnswer)


def exact_answer() -> Answer:
    found = near_answer(0)
    assert found.match is not None
    match = msgspec.structs.replace(found.match, exact=True, similarity=None)
    return msgspec.structs.replace(found, match=match)


def test_index_is_asked_about_every_field_of_the_document(served: Served) -> None:
    answered(served, "a text", NONE, title="a title", keywords=["k"], nearest=3)
    content, limit = served.view.asked[-1]
    assert (content.text, content.title, content.keywords) == ("a text", "a title", ("k",))
    assert limit == 3


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


def test_original_is_named_where_no_neighbours_are_wanted(served: Served) -> None:
    made = answered(served, EDITED, near_answer(), nearest=0)
    assert made.nearest == []
    assert made.original is not None


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
    as_json = firstseen("check", "--text", EDITED, "--url", served.url, "--json")
    assert shown.returncode == ExitCode.DUPLICATE, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("verdict ")
    assert "ferry (raw-documents/0@1)" in lines[0]
    assert "fingerprint  " in shown.stdout
    assert any(re.fullmatch("candidates +41, 12 .*", line) for line in lines)
    assert any(line.startswith("bakers") for line in lines)
    assert max(map(len, lines)) <= 110
    assert json.loads(as_json.stdout)["schema"] == "firstseen.check/2"
