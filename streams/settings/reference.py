"""Shows settings to readers: values with their origin, and the tables of the docs."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from simhash_core.text.profiles import PROFILES
from simhash_core.window import format_duration
from streams.settings.kafka_properties import MASK, RESERVED, is_secret
from streams.settings.loader import (
    DEFAULT_ORIGIN,
    KAFKA,
    OTHER_VARIABLES,
    SECRETS,
    LoadedSettings,
    SettingField,
    setting_fields,
    shown,
)

BEGIN: Final = "<!-- begin: firstseen config reference -->"
END: Final = "<!-- end -->"

_INDEX: Final = "index."
_OF_NO_PROFILE: Final = frozenset(
    {"window", "lateness", "same_id", "scoped", "fold_traditional", "short_texts"}
)
"""Parts that are the same in all profiles."""


class Row(NamedTuple):
    """A setting in force and its origin; secrets are masked."""

    setting: str
    value: object
    origin: str


def rows(loaded: LoadedSettings) -> list[Row]:
    """Return all settings in force, in the order of the tree, then the Kafka properties."""
    settings = loaded.settings
    profile = msgspec.structs.asdict(settings.index_profile())
    result: list[Row] = []
    for name in setting_fields():
        value, origin = attrgetter(name)(settings), loaded.origin_of(name)
        if name.startswith(_INDEX) and value is None:
            value = profile[name.removeprefix(_INDEX)]
            if name.removeprefix(_INDEX) in _OF_NO_PROFILE:
                value = format_duration(value) if type(value) is int else value
            else:
                origin = f"the profile {settings.profile}"
        if name in SECRETS and value is not None:
            value = MASK
        result.append(Row(name, value, origin))
    for name, text in sorted(settings.kafka.items()):
        setting = f"{KAFKA}.{name}"
        result.append(Row(setting, MASK if is_secret(name) else text, loaded.origin_of(setting)))
    return result


def text_rows(loaded: LoadedSettings) -> list[tuple[str, str, str]]:
    """Return name, value and origin as texts; the origin is blank for defaults."""
    return [
        (row.setting, shown(row.value) or "-", row.origin if row.origin != DEFAULT_ORIGIN else "")
        for row in rows(loaded)
    ]


def with_tables(page: str) -> str:
    """Replace the tables between a page's two marks; raise ``ValueError`` without the marks."""
    return between_marks(page, BEGIN, END, markdown_tables())


def between_marks(page: str, begin: str, end: str, text: str) -> str:
    """Replace the text between two marks; raise ``ValueError`` without them."""
    before, has_begin, rest = page.partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"the page lacks {end if has_begin else begin}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def markdown_tables() -> str:
    settings = [
        (f"`{field.name}`", f"{field.help} {_sentence(field.expected)}", _default(field))
        for field in setting_fields().values()
    ]
    by_name = [msgspec.structs.asdict(profile) for profile in PROFILES.values()]
    profiles = [
        (f"`{_INDEX}{name}`", *(_of_profile(profile[name]) for profile in by_name))
        for name in by_name[0]
        if name not in _OF_NO_PROFILE
    ]
    variables = [(f"`{name}`", text) for name, text in OTHER_VARIABLES.items()]
    reserved = [(f"`{name}`", _sentence(why)) for name, why in RESERVED.items()]
    return "\n\n".join(
        (
            "## All settings",
            "With limits. In the environment, `batch.bundles` is `FIRSTSEEN_BATCH__BUNDLES`.",
            _markdown(("Setting", "What it is", "Default"), settings),
            "## Profiles",
            _markdown(("Setting", *(f"`{name}`" for name in PROFILES)), profiles),
            "## Other environment variables",
            _markdown(("Variable", "What it is"), variables),
            "## Kafka properties that cannot be overridden",
            _markdown(("Property", "Why"), reserved),
        )
    )


def _of_profile(value: object) -> str:
    return "the default" if value is None else str(value)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _default(field: SettingField) -> str:
    """Return the default as Markdown; only literal values are written as code."""
    default = field.default or ("the profile's" if field.name.startswith(_INDEX) else "")
    return f"`{default}`" if default and " " not in default else default


def _markdown(head: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *body]
    return "\n".join(
        "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines
    )
