"""Settings as people read them: rows of values with their origin, and the table of the docs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from streams.kafka_properties import MASK, RESERVED, is_secret
from streams.kafka_security import SECURITY_PROPERTIES
from streams.setting_fields import KAFKA, setting_fields, shown
from streams.settings import Settings
from streams.settings_loader import DEFAULT_ORIGIN, LoadedSettings
from streams.settings_sources import OTHER_VARIABLES

_INDEX: Final = "index."


class Row(NamedTuple):
    """One setting in force; secrets are masked, ``origin`` is where it was given."""

    setting: str
    value: object
    origin: str


def rows(loaded: LoadedSettings) -> list[Row]:
    """Return every setting in force, in the order of the tree, then the Kafka properties."""
    settings = loaded.settings
    profile = msgspec.structs.asdict(settings.index_profile())
    result: list[Row] = []
    for name in setting_fields():
        value, origin = _value_of(settings, name), loaded.origin_of(name)
        if name.startswith(_INDEX) and value is None:
            value = profile[name.removeprefix(_INDEX)]
            origin = f"the profile {settings.profile}"
        result.append(Row(name, value, origin))
    for name, text in sorted(settings.kafka.items()):
        setting = f"{KAFKA}.{name}"
        result.append(Row(setting, MASK if is_secret(name) else text, loaded.origin_of(setting)))
    return result


def text_table(loaded: LoadedSettings) -> str:
    """Return the rows as aligned columns; of defaults, the origin is left blank."""
    lines = [
        (row.setting, shown(row.value) or "-", row.origin if row.origin != DEFAULT_ORIGIN else "")
        for row in rows(loaded)
    ]
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    return "\n".join(
        f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}".rstrip()
        for name, value, origin in lines
    )


def markdown_tables() -> str:
    """Return the generated part of docs/configuration.md."""
    settings = [
        (f"`{field.name}`", f"{field.help} *{field.expected[0].upper()}{field.expected[1:]}.*",
         f"`{field.default}`" if " " not in field.default and field.default else field.default)
        for field in setting_fields().values()
    ]  # fmt: skip
    variables = [(f"`{name}`", text) for name, text in OTHER_VARIABLES.items()]
    reserved = [(f"`{name}`", f"{why[0].upper()}{why[1:]}.") for name, why in RESERVED.items()]
    return "\n\n".join(
        (
            "## All settings",
            _markdown(("Setting", "What it is", "Default"), settings),
            "## Variables that are no settings",
            _markdown(("Variable", "What it is"), variables),
            "## Kafka properties of security",
            "Both Kafka clients of a worker understand these, and no others that begin with "
            "`sasl.` or `ssl.`:\n" + ", ".join(f"`{name}`" for name in SECURITY_PROPERTIES) + ".",
            "## Kafka properties that cannot be overridden",
            _markdown(("Property", "Why"), reserved),
        )
    )


def _markdown(head: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *body]
    return "\n".join(
        "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines
    )


def _value_of(settings: Settings, name: str) -> object:
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value
