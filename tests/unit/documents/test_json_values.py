"""Untrusted JSON: both decoders agree, and the limit of nesting does not depend on the stack."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given

from simhash_core.verdicts import RejectionReason
from streams.documents.json_values import (
    NESTING_MAX,
    UnreadableError,
    decode_json,
    without_surrogates,
)
from tests.unit.documents.samples import any_text, as_json, json_values


def nested(depth: int) -> bytes:
    """Return lists and objects in turn, with brackets in strings, which do not count."""
    inner = b'"]}[{\\"[{"'
    for level in range(depth):
        inner = b"[%s]" % inner if level % 2 else b'{"[{":%s}' % inner
    return inner


def reason_for(value: bytes) -> RejectionReason:
    with pytest.raises(UnreadableError) as refused:
        decode_json(value)
    return refused.value.reason


@given(json_values)
def test_json_is_read_as_the_standard_library_reads_it_without_nan(value: object) -> None:
    text = json.dumps(value)
    try:
        expected = json.loads(text, parse_constant=lambda _: 1 / 0)
    except ZeroDivisionError:
        assert reason_for(text.encode()) is RejectionReason.NOT_JSON
    else:
        assert decode_json(text.encode()) == expected


@pytest.mark.parametrize(
    ("value", "decoded"),
    [
        (rb'"\ud800"', "\ud800"),
        (rb'"\udc00 then \ud800\u0041"', "\udc00 then \ud800A"),
        (rb'{"\ud800": "\ud83d\ude00"}', {"\ud800": "😀"}),
        (b"[1e400, -1e400]", [math.inf, -math.inf]),
        (b"1" * 4_301, math.inf),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"1" * 4_300, int("1" * 4_300)),
    ],
)
def test_json_that_strict_decoders_refuse_is_read(value: bytes, decoded: object) -> None:
    assert decode_json(value) == decoded


NOT_JSON = [
    *(b"", b" ", b"{", b'{"text": "x', b'{"text": "x"} y', b"{'text': 'x'}", b"[NaN]"),
    *(b"[-Infinity]", rb'["\ud800", NaN]', rb'{"a": "\ud800"', rb'"\ud8"', b'"\x01"'),
    *(b"\xef\xbb\xbf", b"\xef\xbb\xbf\xef\xbb\xbf{}"),
]
NOT_UTF8 = [b"\xff", b'{"a": "\xe4\xb8"}', b'"\xed\xa0\x80"', "雪人".encode("gb18030"), b'{\xff"']


def test_other_values_are_refused_on_either_path_and_what_is_not_utf8_as_that_first() -> None:
    assert {reason_for(value) for value in NOT_JSON} == {RejectionReason.NOT_JSON}
    assert {reason_for(value) for value in NOT_UTF8} == {RejectionReason.NOT_UTF8}


@pytest.mark.parametrize("calls", [0, 200])
def test_nesting_is_read_up_to_a_limit_that_does_not_move_with_the_stack(calls: int) -> None:
    if calls:
        test_nesting_is_read_up_to_a_limit_that_does_not_move_with_the_stack(calls - 1)
        return
    assert decode_json(nested(NESTING_MAX))
    assert reason_for(nested(NESTING_MAX + 1)) is RejectionReason.NOT_JSON
    for opening in (b"[", b'{"a":', rb'["\ud800",'):
        for closing in (b"", b"]"):
            deep = opening * 100_000 + closing * 100_000
            assert reason_for(deep) is RejectionReason.NOT_JSON


def test_brackets_side_by_side_are_not_deep() -> None:
    assert decode_json(as_json([[]] * 2 * NESTING_MAX)) == [[]] * 2 * NESTING_MAX
    assert decode_json(as_json("[" * 2 * NESTING_MAX)) == "[" * 2 * NESTING_MAX


@given(any_text)
def test_only_lone_surrogates_are_dropped(text: str) -> None:
    kept = without_surrogates(text)
    assert kept.encode().decode() == kept
    assert kept == "".join(c for c in text if not "\ud800" <= c <= "\udfff")
