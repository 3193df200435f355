"""The demo stream: articles, copies, posts and broken records, with the truth about each.

The same seed and number of documents give the same bytes on every machine. A copy comes after the
document that it copies, usually soon after it; a copy of a copy has the same root. Only light
copies (exact, typographic, repost, small edit) are copied again, because a heavy edit of a heavy
edit is no longer the same text.
"""

from __future__ import annotations

import json
import random
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from itertools import accumulate, islice
from typing import Final, NamedTuple

from streams.corpus.articles import PostBox, broken_value, write_article
from streams.corpus.draws import chance, integer, log_uniform, pick
from streams.corpus.edits import TITLE_MARKS, change_words, reorder, repost, retype, truncate
from streams.corpus.generated import BROKEN, COPIES, SHARES, EditKind, GeneratedRecord
from streams.corpus.language import LANGUAGES, Language, Topic

DEEPEST: Final = 3
"""The longest chain of copies."""
REMEMBERED_MAX: Final = 20_000
"""Limit of articles that can still be copied, so that memory is bounded."""
EXAMPLE_SEED: Final = 20
EXAMPLE_LINES: Final = 300

_START_MS = 1_709_251_200_000  # 2024-03-01T00:00:00Z
_MIN_STEP_MS, _MAX_STEP_MS = 20, 9_000
_BEIJING = timezone(timedelta(hours=8))
_BANDS = {
    EditKind.EDIT_1_5: (0.01, 0.05),
    EditKind.EDIT_5_10: (0.05, 0.10),
    EditKind.EDIT_10_20: (0.10, 0.20),
}
_NO_LINE = frozenset({EditKind.NULL_RECORD, EditKind.INVALID_UTF8})
"""Records that a text file cannot hold, or that editors refuse to open."""
_COPIED_AGAIN = frozenset(
    {EditKind.EXACT_COPY, EditKind.TYPOGRAPHIC, EditKind.REPOST, EditKind.EDIT_1_5}
)


class _Published(NamedTuple):
    id: str
    root: str | None
    depth: int
    language: Language
    topic: Topic
    title: str
    text: str
    keywords: tuple[str, ...]


def generate(
    seed: int,
    documents: int,
    shares: Mapping[EditKind, float] = SHARES,
    *,
    chinese: float = 0.6,
) -> Iterator[GeneratedRecord]:
    """Generate records in order; ``chinese`` is the share of Chinese articles and posts."""
    return _Stream(seed, shares, chinese).records(documents)


def example_lines() -> Iterator[bytes]:
    """Return the lines of ``examples/documents.jsonl``: documents to try Firstseen with."""
    records = generate(EXAMPLE_SEED, 2 * EXAMPLE_LINES)
    values = (each.value for each in records if each.value and each.kind not in _NO_LINE)
    lines = (value + b"\n" for value in values if value.decode().isprintable())
    return islice(lines, EXAMPLE_LINES)


class _Stream:
    def __init__(self, seed: int, shares: Mapping[EditKind, float], chinese: float) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - a seeded corpus, no secret
        self._seed = seed
        self._chinese = chinese
        total = sum(shares.values())
        self._kinds = list(shares)
        self._limits = list(accumulate(share / total for share in shares.values()))
        self._posts = PostBox(self._rng)
        self._published: list[_Published] = []
        self._next = 0  # position in the ring of published articles
        self._time_ms = _START_MS

    def records(self, documents: int) -> Iterator[GeneratedRecord]:
        for position in range(documents):
            self._time_ms += integer(self._rng, _MIN_STEP_MS, _MAX_STEP_MS)
            doc_id = f"d{self._seed}-{position:07d}"
            kind = self._kind()
            if kind in BROKEN:
                yield self._broken(doc_id, kind)
            elif kind is EditKind.ORIGINAL:
                article = self._article(doc_id)
                self._remember(article)
                yield self._record(kind, article)
            elif kind in COPIES:
                yield self._copy(doc_id, kind)
            else:
                yield self._post(doc_id, kind)

    def _kind(self) -> EditKind:
        kind = self._kinds[bisect_right(self._limits, self._rng.random(), hi=len(self._kinds) - 1)]
        if kind in COPIES and not self._published:
            return EditKind.ORIGINAL
        return kind

    def _language(self) -> Language:
        return LANGUAGES["zh" if chance(self._rng, self._chinese) else "en"]

    def _article(self, doc_id: str) -> _Published:
        language = self._language()
        topic = pick(self._rng, language.topics)
        return _Published(
            doc_id, None, 0, language, topic, *write_article(self._rng, language, topic)
        )

    def _copy(self, doc_id: str, kind: EditKind) -> GeneratedRecord:
        age = log_uniform(self._rng, 1, len(self._published))
        parent = self._published[(self._next - age) % len(self._published)]
        copy = parent._replace(
            id=doc_id,
            root=parent.root or parent.id,
            depth=parent.depth + 1,
            text=self._copied_text(kind, parent),
        )
        if kind is EditKind.REPOST and chance(self._rng, 0.3):
            copy = copy._replace(title=TITLE_MARKS[parent.language.code] + copy.title, keywords=())
        if kind in _COPIED_AGAIN and copy.depth < DEEPEST:
            self._remember(copy)
        return self._record(kind, copy, parent.id)

    def _copied_text(self, kind: EditKind, parent: _Published) -> str:
        rng, language, text = self._rng, parent.language, parent.text
        match kind:
            case EditKind.TYPOGRAPHIC:
                return retype(rng, language, text)
            case EditKind.REPOST:
                return repost(rng, language, parent.title, text)
            case EditKind.TRUNCATED:
                return truncate(rng, language, text)
            case EditKind.REORDERED:
                return reorder(rng, language, text)
            case EditKind.EDIT_1_5 | EditKind.EDIT_5_10 | EditKind.EDIT_10_20:
                low, high = _BANDS[kind]
                other = write_article(rng, language, parent.topic).text
                share = low + (high - low) * (0.1 + 0.8 * rng.random())
                return change_words(rng, text, other, share)
            case _:
                return text

    def _remember(self, article: _Published) -> None:
        if len(self._published) < REMEMBERED_MAX:
            self._published.append(article)
        else:
            self._published[self._next % REMEMBERED_MAX] = article
        self._next += 1

    def _post(self, doc_id: str, kind: EditKind) -> GeneratedRecord:
        text, root = self._posts.post(doc_id, kind, self._language())
        value = self._encoded(self._fields(doc_id, "", text))
        return self._generated(kind, doc_id, value, root, root)

    def _broken(self, doc_id: str, kind: EditKind) -> GeneratedRecord:
        if kind is EditKind.NULL_RECORD:
            return self._generated(kind, None, None)
        article = self._article(doc_id)
        value = broken_value(self._rng, kind, self._fields(doc_id, article.title, article.text))
        return self._generated(kind, doc_id, value)

    def _record(
        self, kind: EditKind, article: _Published, parent: str | None = None
    ) -> GeneratedRecord:
        fields = self._fields(article.id, article.title, article.text)
        if article.keywords and chance(self._rng, 0.6):
            fields["keywords"] = list(article.keywords)
        if chance(self._rng, 0.5):
            fields["lang"] = article.language.code
        return self._generated(kind, article.id, self._encoded(fields), article.root, parent)

    def _generated(
        self,
        kind: EditKind,
        doc_id: str | None,
        value: bytes | None,
        root: str | None = None,
        parent: str | None = None,
    ) -> GeneratedRecord:
        key = None if doc_id is None else doc_id.encode()
        return GeneratedRecord(key, value, doc_id, kind, root, parent, self._time_ms)

    def _fields(self, doc_id: str, title: str, text: str) -> dict[str, object]:
        return {"id": doc_id, "title": title, "text": text, "timestamp": self._timestamp()}

    def _timestamp(self) -> str | int:
        """Return the record's time in one of three forms, as feeds have them."""
        if chance(self._rng, 0.5):
            return self._time_ms
        seconds, milliseconds = divmod(self._time_ms, 1000)
        zone = UTC if chance(self._rng, 0.5) else _BEIJING
        moment = datetime.fromtimestamp(seconds, zone) + timedelta(milliseconds=milliseconds)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _encoded(self, fields: dict[str, object]) -> bytes:
        escaped = chance(self._rng, 0.1)  # some producers escape all but ASCII
        return json.dumps(fields, ensure_ascii=escaped).encode()


if __name__ == "__main__":
    sys.stdout.buffer.writelines(example_lines())
