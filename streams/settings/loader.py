"""Loads settings: flag > environment > files > default, checked, with the origin of each."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Final, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import inspect

from simhash_core.errors import UsageError
from streams.errors import Problem, SettingsError
from streams.settings.kafka_properties import (
    MASK,
    is_secret,
    parse_properties,
    property_name,
    translate,
)
from streams.settings.named_files import (
    SECRETS_IN_FILES,
    FileProblemError,
    bounded_text,
    secret_of_file,
)
from streams.settings.rules import violations
from streams.settings.settings import Settings, default_state_dir

# ---- The list of all settings, read from the annotations of ``Settings``.
#
# Each leaf of the tree is a ``SettingField``. ``kafka`` is not in the list: its names are not ours
# (``kafka_properties`` has their rules).

SECRETS: Final = frozenset({"registry.oauth_client_secret", "registry.password", "web.token"})
"""Our own settings whose values are never shown."""

ENVIRONMENT_PREFIX: Final = "FIRSTSEEN_"
KAFKA: Final = "kafka"

TEXT_LENGTH_MAX: Final = 4096  # the longest text of any setting, in characters


class SettingField(NamedTuple):
    """A setting; ``expected`` says in words what a value must be."""

    name: str
    expected: str
    default: str
    help: str
    type: object

    def parse(self, value: object) -> object:
        """Return a value in the form of the tree; raise ``ValueError`` that says what it must be.

        A flag's or variable's text is read as the setting's type; a file's value must have that
        type. Empty text unsets an optional setting.
        """
        if value == "" and NoneType in get_args(self.type):
            return None
        if isinstance(value, str) and len(value) > TEXT_LENGTH_MAX:
            raise ValueError(f"it has {len(value)} characters, the limit is {TEXT_LENGTH_MAX}")
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
    for field, type_ in get_type_hints(struct, include_extras=True).items():
        name, default = prefix + field, getattr(defaults, field)
        if isinstance(default, msgspec.Struct):
            yield from _fields_of(type(default), default, f"{name}.")
        elif name != KAFKA:
            texts = _texts()[name]
            yield SettingField(
                name,
                texts.get("expected") or _expected(inspect.type_info(type_)),
                texts.get("default") or shown(default),
                texts["help"],
                type_,
            )


@cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    """Return the texts about each setting, from texts.toml."""
    return tomllib.loads((files(__package__) / "texts.toml").read_text("utf-8"))


def shown(value: object) -> str:
    """Return a value in the form of a flag or a variable; "" for None."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _expected(info: inspect.Type) -> str:
    match info:
        case inspect.Metadata(type=inner):
            text = _expected(inner)
        case inspect.UnionType(types=types):
            parts = [_expected(t) for t in types if not isinstance(t, inspect.NoneType)]
            text = f"{' or '.join(parts)}, or not set"
        case inspect.IntType(ge=low, le=high):
            text = f"a whole number from {low} to {high}"
        case inspect.FloatType(ge=low, le=high):
            text = f"a number from {low} to {high}"
        case inspect.BoolType():
            text = "true or false"
        case inspect.EnumType(cls=cls):
            text = "one of " + ", ".join(map(str, cls))
        case inspect.LiteralType(values=values):
            text = "one of " + ", ".join(map(str, values))
        case inspect.StrType(min_length=low):
            text = "text that is not empty" if low else "text"
        case _:
            raise TypeError(f"no setting can be of type {info}")
    return text


def _path(type_: type, value: object) -> object:
    """Convert text to a path and expand ``~``, because msgspec does not support paths."""
    if type_ is Path and isinstance(value, str) and value:
        path = Path(value)
        try:
            return path.expanduser()
        except RuntimeError as error:  # no such user, or no home
            raise ValueError(str(error)) from error
    raise TypeError(f"not a {type_.__name__}")


# ---- The sources of settings: flags, the environment, files.
#
# Unknown names are problems, with the nearest setting as a hint.

FILE_BYTES_MAX: Final = 1024 * 1024


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object; raise ``ValueError`` for a name that it has twice, as TOML does."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has {repeated!r} twice: keep one")
    return content


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    ".toml": tomllib.loads,
    ".json": partial(json.loads, object_pairs_hook=_without_repeats),
}

OTHER_VARIABLES: Final[Mapping[str, str]] = {
    "FIRSTSEEN_CONFIG": "The settings file, if --config is not given.",
    "FIRSTSEEN_KAFKA_CONFIG": "The file of Kafka properties, if --kafka-config is not given.",
    "FIRSTSEEN_REQUIRE_KAFKA": "Tests: with 1, a test that needs a real broker fails without one.",
    "FIRSTSEEN_REQUIRE_TOOLS": "Checks, tests: with 1, a check that needs a missing tool fails.",
    "FIRSTSEEN_KAFKA_LIBS": "Tests: the directory with the jars of Apache Kafka.",
}


class SourcedValue(NamedTuple):
    value: object
    origin: str


class _Sources:
    """The values of all sources by dotted name, and their problems; the first source added wins."""

    def __init__(self) -> None:
        self.values: dict[str, SourcedValue] = {}
        self.problems: list[Problem] = []

    def flags(self, flags: Mapping[str, str], assignments: Iterable[str]) -> None:
        """Add named flags, ``{"--broker": value}``, and ``name=value`` of ``--set``."""
        given = [(_setting_of_flag(flag), SourcedValue(flags[flag], flag)) for flag in flags]
        for assignment in assignments:
            name, equals, value = assignment.partition("=")
            if equals and name.strip():
                given.append((name.strip(), SourcedValue(value, "--set")))
            else:
                # Without a name the value may be a secret.
                self._problem("--set", "", "the command line", "give it as name=value")
        values: dict[str, SourcedValue] = {}
        for name, item in given:
            if name in values:
                where = " and ".join(dict.fromkeys((values[name].origin, item.origin)))
                self._problem(name, "", where, "it is set twice: choose one")
            values[name] = item
        self._add(values)

    def environment(self, environ: Mapping[str, str]) -> None:
        by_variable = {
            ENVIRONMENT_PREFIX + name.replace(".", "__").upper(): name for name in setting_fields()
        }
        kafka_prefix = f"{ENVIRONMENT_PREFIX}{KAFKA.upper()}__"
        values: dict[str, SourcedValue] = {}
        for variable, value in sorted(environ.items()):
            if not variable.startswith(ENVIRONMENT_PREFIX) or variable in OTHER_VARIABLES:
                continue
            sourced = SourcedValue(value, f"the environment variable {variable}")
            if variable in by_variable:
                values[by_variable[variable]] = sourced
            elif variable.startswith(kafka_prefix) and variable != kafka_prefix:
                name = property_name(variable.removeprefix(kafka_prefix))
                values[f"{KAFKA}.{name}"] = sourced
            else:
                message = _unknown(variable, (*by_variable, *OTHER_VARIABLES))
                self._problem(variable, "", "the environment", message)
        self._add(values)

    def file(self, path: Path) -> None:
        """Add TOML or JSON, by the file's name; raise ``SettingsError`` for an unreadable file."""
        content = _parsed(path, "--config", lambda text: _object(path.suffix.lower(), text))
        origin = f"the file {path}"
        self._add({name: SourcedValue(value, origin) for name, value in _leaves(content, "")})

    def kafka_file(self, path: Path) -> None:
        """Add a ``client.properties``; raise ``SettingsError`` for an unreadable file."""
        properties = _parsed(path, "--kafka-config", parse_properties)
        origin = f"the file {path}"
        self._add(
            {
                "brokers" if name == "bootstrap.servers" else f"{KAFKA}.{name}": SourcedValue(
                    value, origin
                )
                for name, value in properties.items()
            }
        )

    def _add(self, values: Mapping[str, SourcedValue]) -> None:
        """Add one source: check names, read secret files, and translate Kafka properties."""
        properties: dict[str, SourcedValue] = {}
        for name, sourced in values.items():
            table, _, leaf = name.partition(".")
            if name in setting_fields():
                self.values.setdefault(name, sourced)
            elif table == KAFKA and leaf:
                properties[leaf] = sourced
            else:
                self._problem(name, "", sourced.origin, _unknown(name, setting_fields()))
        self._read_secret_files(properties)
        translation = translate({name: str(each.value) for name, each in properties.items()})
        for name, value in translation.properties.items():
            origin = properties[translation.original_names[name]].origin
            self.values.setdefault(f"{KAFKA}.{name}", SourcedValue(value, origin))
        for name, message in translation.refused:
            setting, sourced = f"{KAFKA}.{name}", properties[name]
            self._problem(setting, shown_value(setting, sourced.value), sourced.origin, message)

    def _read_secret_files(self, properties: dict[str, SourcedValue]) -> None:
        """Replace the names of secret files by the files' contents."""
        for secret in SECRETS_IN_FILES:
            setting, named = f"{KAFKA}.{secret}.file", properties.pop(f"{secret}.file", None)
            if named is None:
                continue
            if secret in properties:
                message = f"{secret} is given too: choose one"
                self._problem(setting, "", named.origin, message)
                continue
            try:
                content = secret_of_file(str(named.value))
            except ValueError as error:
                self._problem(setting, "", named.origin, str(error))
            else:
                properties[secret] = SourcedValue(content, f"{named.origin}: {setting}")

    def _problem(self, setting: str, value: str, origin: str, message: str) -> None:
        self.problems.append(Problem(setting, value, origin, message))


def _setting_of_flag(flag: str) -> str:
    name = flag.removeprefix("--").replace("-", "_")
    return "brokers" if name == "broker" else name


_USER_IN_URL: Final = re.compile(r"(?<=://).*@", re.DOTALL)


def shown_value(setting: str, value: object) -> str:
    """Return a value for a message; secrets are masked, long values cut."""
    if setting in SECRETS or (setting.startswith(f"{KAFKA}.") and is_secret(setting)):
        return MASK
    # An address with a password is refused, and must not be quoted.
    text = repr(_USER_IN_URL.sub(f"{MASK}@", value)) if isinstance(value, str) else shown(value)
    return text if len(text) <= 100 else f"{text[:97]}…"  # noqa: PLR2004 - what fits a line


_Content = TypeVar("_Content")


def _parsed(path: Path, option: str, parse: Callable[[str], _Content]) -> _Content:
    try:
        return parse(bounded_text(path, FILE_BYTES_MAX))
    except FileProblemError as error:
        message = f"it {error}"
    except (ValueError, RecursionError) as error:
        message = str(error)
    raise SettingsError([Problem(f"the file {path}", "", option, message)])


def _object(suffix: str, text: str) -> dict[str, object]:
    if suffix not in _PARSERS:
        raise ValueError(f"its name must end in {' or '.join(_PARSERS)}")
    content = _PARSERS[suffix](text)
    if not isinstance(content, dict):
        raise ValueError("it must be one object, {…}")  # noqa: TRY004 - of the file, not of a caller
    return content


def _leaves(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        elif prefix.startswith(f"{KAFKA}."):
            yield prefix + key, shown(value)  # properties are text, even if they look like numbers
        elif prefix + key == "brokers" and isinstance(value, list):
            yield prefix + key, ",".join(map(str, value))
        else:
            yield prefix + key, value


def _unknown(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    hint = f"did you mean {near[0]}?" if near else "'firstseen config show' lists all settings"
    return f"there is no such setting; {hint}"


DEFAULT_ORIGIN: Final = "default"


class LoadedSettings(NamedTuple):
    """Settings, and the origin of each non-default one by dotted name."""

    settings: Settings
    origins: Mapping[str, str]

    def origin_of(self, setting: str) -> str:
        return self.origins.get(setting, DEFAULT_ORIGIN)


def load_settings(
    *,
    config: Path | None = None,
    kafka_config: Path | None = None,
    flags: Mapping[str, str] | None = None,
    assignments: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Read all sources and return checked settings.

    ``flags`` maps named flags to values; ``assignments`` are ``name=value``; ``environ`` is by
    default the process's. Kafka properties in ``kafka_config`` override those in ``config``. Raises
    ``SettingsError`` with all problems, or with one unreadable file alone.
    """
    environ = os.environ if environ is None else environ
    sources = _Sources()
    sources.flags(flags or {}, assignments)
    sources.environment(environ)
    if kafka_config is not None:
        sources.kafka_file(kafka_config)
    if config is not None:
        sources.file(config)
    sourced, problems = sources.values, sources.problems
    settings = _built(sourced, environ, problems)
    if not problems:
        problems += [_problem(*violation, sourced) for violation in violations(settings)]
    if problems:
        raise SettingsError(problems)
    origins = {name: item.origin for name, item in sourced.items()}
    return LoadedSettings(settings, MappingProxyType(origins))


def _built(
    sourced: Mapping[str, SourcedValue], environ: Mapping[str, str], problems: list[Problem]
) -> Settings:
    tree: dict[str, dict[str, object]] = {"": {"state_dir": default_state_dir(environ)}}
    for name, (value, origin) in sourced.items():
        table, _, leaf = name.rpartition(".")
        if name.startswith(f"{KAFKA}."):
            table, leaf = KAFKA, name.removeprefix(f"{KAFKA}.")
        else:
            try:
                value = setting_fields()[name].parse(value)  # noqa: PLW2901 - given text, then value
            except ValueError as error:
                problems.append(Problem(name, shown_value(name, value), origin, str(error)))
                continue
        tree.setdefault(table, {})[leaf] = value
    defaults, top = Settings(), tree.pop("")
    for table, values in tree.items():
        if table == KAFKA:
            top[KAFKA] = MappingProxyType(values)
            continue
        try:
            # Use the table's own defaults: those of ``Settings`` have the application's name.
            top[table] = type(getattr(defaults, table))(**values)
        except UsageError as error:
            setting = f"{table}.{error.setting}"
            in_one = setting in sourced
            message = error.hint if in_one and error.hint else str(error)
            problems.append(_problem(setting if in_one else table, message, sourced))
    return Settings(**top)  # type: ignore[arg-type] # each value was parsed as its field's type


def _problem(setting: str, message: str, sourced: Mapping[str, SourcedValue]) -> Problem:
    if setting in sourced:
        value, origin = sourced[setting]
        return Problem(setting, shown_value(setting, value), origin, message)
    origins = {item.origin for name, item in sourced.items() if name.startswith(f"{setting}.")}
    return Problem(setting, "", " and ".join(sorted(origins)) or DEFAULT_ORIGIN, message)
