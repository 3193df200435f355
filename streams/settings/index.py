"""The settings of the index: changes to the profile."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from simhash_core.errors import UsageError
from simhash_core.text.profiles import BLOCKS_INSTEAD_OF_BANDS, Profile, profile_named
from simhash_core.text.verification import WITH_BANDS, usual_threshold
from simhash_core.window import parse_duration
from streams.settings.named_files import read_index_files

_DURATIONS: Final = frozenset({"window", "lateness"})


class IndexSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to the profile, and so to the index identity; None keeps the profile's value."""

    bits: Annotated[int, Meta(ge=64, le=512)] | None = None
    blocks: Annotated[int, Meta(ge=0, le=128)] | None = None
    block_bits: Annotated[int, Meta(ge=0, le=32)] | None = None
    distance: Annotated[int, Meta(ge=0, le=511)] | None = None
    segmenter: str | None = None
    weighting: str | None = None
    feature_hash: str | None = None
    min_features: Annotated[int, Meta(ge=1, le=1000)] | None = None
    long_characters: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    cuts: Annotated[int, Meta(ge=1, le=2)] | None = None
    bands: Annotated[int, Meta(ge=0, le=64)] | None = None
    fingerprint: Literal["terms", "shingles"] | None = None
    verify: str | None = None
    verify_at: Annotated[float, Meta(ge=0, le=1)] | None = None
    idf: str | None = None
    user_dictionary: str | None = None
    stop_words: str | None = None
    window: str | None = None
    lateness: str | None = None
    fold_traditional: bool | None = None
    short_texts: Literal["exact", "pass"] | None = None
    same_id: Literal["compare", "replace"] | None = None

    def changed(self, profile: str, *, scoped: bool) -> Profile:
        """Return a profile with these changes; raise ``UnknownNameError`` or ``UsageError``."""
        changes = {k: v for k, v in msgspec.structs.asdict(self).items() if v is not None}
        changes |= {name: _duration(name, changes[name]) for name in _DURATIONS & changes.keys()}
        named = profile_named(profile)
        # Measures have different scales, so each needs its own threshold.
        if changes.get("verify", named.verify) != named.verify:
            changes = {"verify_at": usual_threshold(changes["verify"])} | changes
            if named.bands and changes["verify"] != WITH_BANDS:
                changes = {**BLOCKS_INSTEAD_OF_BANDS, **changes}
        changed = replace(named, **read_index_files(changes), scoped=scoped)
        changed.scheme()
        return changed


def _duration(setting: str, text: str) -> int:
    try:
        return parse_duration(text)
    except UsageError as error:
        raise UsageError(f"{setting}: {error}", setting=setting) from None
