"""A worker that has decided real documents, and requests to its pages."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any, NamedTuple, Protocol

from simhash_core.documents import SourcePosition
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Raw

SECONDS = 90.0
HOSTILE_ID = '"><img src=x onerror=document.title="owned">'
ORIGINAL = (
    "The harbour board met on Tuesday <script>document.title='owned'</script> to talk about the "
    "new ferry, its timetable and what a ticket should cost. Nobody expected the vote to be close, "
    "yet after two hours of questions from the public gallery the chairman had to count the raised "
    "hands three times. Fishermen from the northern quay want the old berth back; the town wants a "
    "promenade. A decision on money was put off until the spring, when the surveyors report."
)
EDITED = ORIGINAL.replace("Tuesday", "Wednesday").replace("three times", "twice")
STRANGER = (
    "Bakers who let their dough rest overnight in a cold cellar get a crust that crackles and a "
    "crumb with large, uneven holes. The yeast works slowly, so sugar is left for the oven to "
    "brown. Flour from older kinds of wheat takes up more water, and needs a gentle hand and "
    "a very hot stone; steam in the first ten minutes does the rest, as every apprentice learns."
)


class Server(Protocol):
    @property
    def port(self) -> int: ...


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever it holds
        return json.loads(self.body)


class Live(NamedTuple):
    stream: Stream
    worker: Worker
    original: SourcePosition
    edited: SourcePosition

    def ask(
        self, method: str, path: str, body: bytes | Iterator[bytes] = b"", **headers: str
    ) -> Reply:
        return ask(self.worker, method, path, body, **headers)

    def status(self) -> Any:  # noqa: ANN401 - JSON
        return self.ask("GET", "/api/status").json

    def check(self, text: str, **fields: object) -> Any:  # noqa: ANN401 - JSON
        """Check a text; retry while the worker answers that there are too many checks."""
        deadline = time.monotonic() + SECONDS
        while (
            reply := ask_about(self.worker, text, **fields)
        ).status == HTTPStatus.TOO_MANY_REQUESTS:
            assert time.monotonic() < deadline, "no text is checked any more"
            time.sleep(0.2)
        assert reply.status == HTTPStatus.OK, reply.body
        return reply.json

    def send(self, *texts: str, ids: Sequence[str] = ()) -> list[SourcePosition]:
        """Send documents, wait until each has an output, and return their source positions."""
        names = ids or [f"sent-{len(self.stream.sent) + n}" for n in range(len(texts))]
        places = self.stream.send(
            Raw(None, json.dumps({"id": name, "text": text}).encode(), timestamp_ms=now_ms())
            for name, text in zip(names, texts, strict=True)
        )
        self.stream.settle()
        return places


def ask(
    server: Server, method: str, path: str, body: bytes | Iterator[bytes] = b"", **headers: str
) -> Reply:
    """Send a request on a new connection; ``_`` in the names of headers stands for ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)) as connection:
        connection.request(method, path, body or None, named)
        response = connection.getresponse()
        return Reply(response.status, dict(response.getheaders()), response.read())


def ask_about(server: Server, text: str, token: str | None = None, /, **fields: object) -> Reply:
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    body = json.dumps({"text": text, **fields}).encode()
    return ask(server, "POST", "/api/check", body, **headers)


def now_ms() -> int:
    return int(time.time() * 1000)
