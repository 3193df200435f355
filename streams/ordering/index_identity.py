"""What an index was made with, as its changelog says, beside what this worker is set to.

Each progress record of the changelog holds two texts: the identity of the index, which decides what
documents are near (``simhash_core.text.profiles``), and the reading rules, which decide what
document a raw record is (``streams.settings.reading_rules``). The last progress record of partition
0 counts. A worker compares before it joins the group or sends anything, so that one with other
settings can do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from simhash_core.log.log_clock import LogClock
from streams.errors import StateMismatchError
from streams.store.changelog_tail import last_progress

_ABSENT: Final = "none"
_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bits": "index.bits",
        "blocks": "index.blocks, index.block_bits, index.cuts",
        "bands": "index.bands",
        "distance": "index.distance",
        "fingerprint": "index.fingerprint",
        "segmenter": "index.segmenter, index.user_dictionary",
        "weighting": "index.weighting",
        "idf": "index.idf",
        "hash": "index.feature_hash",
        "min-features": "index.min_features, index.long_characters",
        "stop-words": "index.stop_words",
        "verify": "index.verify, index.verify_at",
        "window": "index.window",
        "lateness": "index.lateness",
        "same-id": "index.same_id",
        "scoped": "fields.scope",
        "short-texts": "index.short_texts",
        "folding": "index.fold_traditional",
    }
)
"""The settings behind each part of an identity; others are of the program itself."""


class Claim(NamedTuple):
    """What a progress record says of its index, and where in the log its shard goes on.

    ``writer``: the transactional id of the worker that committed it. ``clock``: of the log there.
    """

    identity: str
    reading: str
    position: int
    control: int
    writer: str = ""
    clock: LogClock | None = None


class Difference(NamedTuple):
    """A part that differs. ``setting``: the settings behind it; ``theirs``: the index's value."""

    setting: str
    theirs: str
    ours: str

    def __str__(self) -> str:
        """``index.distance: there 64, here 40``."""
        return f"{self.setting}: there {self.theirs}, here {self.ours}"


class OtherSettingsError(StateMismatchError):
    """The index was made with other settings; ``differences`` says which."""

    def __init__(self, where: str, differences: list[Difference]) -> None:
        """Keep the differences; ``where`` names the index."""
        self.differences = differences
        lines = "\n  ".join(map(str, differences))
        super().__init__(
            f"{where} was made with other settings, so this worker refuses to start:\n  {lines}\n"
            "Use the settings of the index; or start a new index with a new application_id, "
            "which reads all raw records again."
        )


def read_claim(
    topic: str, config: Mapping[str, Any], timeout_seconds: float, partition: int = 0
) -> Claim | None:
    """Return what the last progress record of a partition of the changelog says; None: none yet.

    ``config``: librdkafka's, with a ``group.id``, which nothing is committed to. Blocking. Raises
    what ``last_progress`` raises.
    """
    logged = last_progress(topic, partition, config, timeout_seconds)
    if logged is None:
        return None
    progress = logged.progress
    return Claim(
        logged.identity,
        logged.reading,
        progress.position,
        progress.control,
        logged.writer,
        progress.clock,
    )


def differences(claim: Claim, identity: str, reading: str) -> list[Difference]:
    """Return what differs between what an index was made with and what is set here."""
    all_differences = [
        *_differing(_identity_parts(claim.identity), _identity_parts(identity), _SETTINGS),
        *_differing(_pairs(claim.reading.split("\n")), _pairs(reading.split("\n")), {}),
    ]
    # The identity says whether there are scopes, and the rules of reading where they stand.
    return list({each.setting: each for each in all_differences}.values())


def refuse_other_settings(claim: Claim | None, identity: str, reading: str, where: str) -> None:
    """Raise ``OtherSettingsError`` where a claim differs; ``where`` names the index."""
    if claim is None:
        return
    different = differences(claim, identity, reading)
    if different:
        raise OtherSettingsError(where, different)


def _differing(
    theirs: Mapping[str, str], ours: Mapping[str, str], settings: Mapping[str, str]
) -> list[Difference]:
    return [
        Difference(settings.get(part, part), theirs.get(part, _ABSENT), ours.get(part, _ABSENT))
        for part in {**theirs, **ours}
        if theirs.get(part) != ours.get(part)
    ]


def _identity_parts(identity: str) -> dict[str, str]:
    name, *parts = identity.split(" ")
    return {"format": name} | _pairs(parts)


def _pairs(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition("=") for line in lines if line)
    return {name: value for name, _, value in pairs}
