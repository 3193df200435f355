"""The list of all settings, read from the annotations of ``Settings``, and the check of one value.

Each leaf of the tree is a ``SettingField``. ``kafka`` is not in the list: its names are not ours
(``kafka_properties`` has their rules).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import inspect

from streams.settings.settings import Settings

# ---- Settings of ours whose values are never shown.

SECRETS: Final = frozenset({"registry.oauth_client_secret", "registry.password", "web.token"})


ENVIRONMENT_PREFIX: Final = "FIRSTSEEN_"
KAFKA: Final = "kafka"

TEXT_LENGTH_MAX: Final = 4096  # the longest text of any setting, in characters

_TEXTS_FILE: Final = "texts.toml"


class SettingField(NamedTuple):
    """A setting; ``expected`` says in words what a value must be."""

    name: str
    environment: str
    expected: str
    default: str
    help: str
    type: object

    def parse(self, value: object) -> object:
        """Return a value as the tree holds it; raise ``ValueError`` with what it must be.

        A flag's or variable's text is read as the setting's type; a file's value must have that
        type. Empty text unsets an optional setting.
        """
        nullable = type(None) in get_args(_bare(self.type))
        if value == "" and nullable:
            return None
        if isinstance(value, str) and len(value) > TEXT_LENGTH_MAX:
            raise ValueError(f"it has {len(value)} characters, {TEXT_LENGTH_MAX} are allowed")
        try:
            return msgspec.convert(
                value, self.type, strict=not isinstance(value, str), dec_hook=_path
            )
        except (msgspec.ValidationError, TypeError):
            raise ValueError(f"it must be {self.expected}") from None


@cache
def setting_fields() -> Mapping[str, SettingField]:
    return MappingProxyType({item.name: item for item in _fields_of(Settings, Settings(), "")})


def _fields_of(
    struct: type[msgspec.Struct], defaults: msgspec.Struct, prefix: str
) -> Iterator[SettingField]:
    hints = get_type_hints(struct, include_extras=True)
    described = inspect.type_info(struct)
    assert isinstance(described, inspect.StructType)
    for item in described.fields:
        name = prefix + item.name
        default = getattr(defaults, item.name)
        if isinstance(default, msgspec.Struct):
            yield from _fields_of(type(default), default, f"{name}.")
        elif name != KAFKA:
            texts = _texts()[name]
            yield SettingField(
                name,
                environment_name(name),
                texts.get("expected") or _expected(item.type),
                texts.get("default") or shown(default),
                texts["help"],
                hints[item.name],
            )


@cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    """Return what people read about each setting: help and, where it differs, the rest."""
    return tomllib.loads((files(__package__) / _TEXTS_FILE).read_text("utf-8"))


def environment_name(setting: str) -> str:
    """Return the environment variable of a setting: ``FIRSTSEEN_``, ``__`` for each dot."""
    return ENVIRONMENT_PREFIX + setting.replace(".", "__").upper()


def shown(value: object) -> str:
    """Return a value as in a flag or a variable; "" for None."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case Enum():
            return str(value.value)
    return str(value)


def _expected(info: inspect.Type) -> str:
    """Return in words what a value of a type must be."""
    match info:
        case inspect.Metadata(type=inner):
            text = _expected(inner)
        case inspect.UnionType(types=types):
            parts = [_expected(t) for t in types if not isinstance(t, inspect.NoneType)]
            text = f"{' or '.join(parts)}, or left out"
        case inspect.IntType(ge=low, le=high):
            text = f"a whole number from {low} to {high}"
        case inspect.FloatType(ge=low, le=high):
            text = f"a number from {low} to {high}"
        case inspect.BoolType():
            text = "true or false"
        case inspect.EnumType(cls=cls):
            text = "one of " + ", ".join(str(member.value) for member in cls)
        case inspect.LiteralType(values=values):
            text = "one of " + ", ".join(str(value) for value in values)
        case inspect.StrType(min_length=low):
            text = "text that is not empty" if low else "text"
        case _:
            raise TypeError(f"no setting can be of type {info}")
    return text


def _bare(type_: Any) -> Any:  # noqa: ANN401 - types themselves
    while hasattr(type_, "__metadata__"):
        type_ = type_.__origin__
    return type_


def _path(type_: type, value: object) -> object:
    """Convert text to a path and expand ``~``; msgspec knows no paths."""
    if type_ is Path and isinstance(value, str) and value:
        path = Path(value)
        try:
            return path.expanduser()
        except RuntimeError as error:  # no such user, or no home
            raise ValueError(str(error)) from error
    raise TypeError(f"not a {type_.__name__}")
