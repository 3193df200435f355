"""Layers to settings: flag > environment > files > default, checked, with the origin of each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from simhash_core.errors import UsageError
from streams.errors import Problem, SettingsError
from streams.settings.rules import violations
from streams.settings.setting_fields import KAFKA, setting_fields
from streams.settings.settings import Settings, default_state_dir
from streams.settings.sources import (
    Layer,
    SourcedValue,
    environment_layer,
    file_layer,
    flags_layer,
    kafka_file_layer,
    shown_value,
)

DEFAULT_ORIGIN: Final = "default"


class LoadedSettings(NamedTuple):
    """Settings, and by dotted name where each that is no default was given."""

    settings: Settings
    origins: Mapping[str, str]

    def origin_of(self, setting: str) -> str:
        """Return where a setting was given, or "default"."""
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

    ``config`` and ``kafka_config`` are files, ``flags`` maps named flags to their values,
    ``assignments`` are ``name=value``, ``environ`` is the process's environment unless given. Of
    two files that give the same Kafka property, ``kafka_config`` goes first.

    Raises ``SettingsError`` with everything that is wrong, for a file that cannot be read with
    that alone.
    """
    environ = os.environ if environ is None else environ
    layers: list[Layer] = [flags_layer(flags or {}, assignments), environment_layer(environ)]
    if kafka_config is not None:
        layers.append(kafka_file_layer(kafka_config))
    if config is not None:
        layers.append(file_layer(config))
    problems = [problem for layer in layers for problem in layer.problems]
    sourced: dict[str, SourcedValue] = {}
    for layer in layers:
        for name, item in layer.values.items():
            sourced.setdefault(name, item)

    settings = _built(sourced, environ, problems)
    origins = {name: item.origin for name, item in sourced.items()}
    if not problems:
        problems += [
            _problem(setting, message, sourced) for setting, message in violations(settings)
        ]
    if problems:
        raise SettingsError(problems)
    return LoadedSettings(settings, MappingProxyType(origins))


def _built(
    sourced: Mapping[str, SourcedValue], environ: Mapping[str, str], problems: list[Problem]
) -> Settings:
    """Return the tree of the values that can be; the others are added to ``problems``."""
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
    defaults = Settings()
    top = tree.pop("")
    for table, values in tree.items():
        if table == KAFKA:
            top[KAFKA] = MappingProxyType(values)
            continue
        try:
            # From the defaults of the table, not of the whole: those have the application's name.
            top[table] = type(getattr(defaults, table))(**values)
        except UsageError as error:
            problems.append(_of_struct(table, error, sourced))
    return Settings(**top)  # type: ignore[arg-type] # each value was parsed as its field's type


def _problem(setting: str, message: str, sourced: Mapping[str, SourcedValue]) -> Problem:
    """Make a problem of what a rule found; of all Kafka properties together, all are the origin."""
    if setting in sourced:
        return Problem(
            setting, shown_value(setting, sourced[setting].value), sourced[setting].origin, message
        )
    origins = {item.origin for name, item in sourced.items() if name.startswith(f"{setting}.")}
    return Problem(setting, "", " and ".join(sorted(origins)) or DEFAULT_ORIGIN, message)


def _of_struct(table: str, error: UsageError, sourced: Mapping[str, SourcedValue]) -> Problem:
    """Make a problem of an error that a table raised."""
    setting = f"{table}.{error.setting}"
    if error.setting is None or setting not in sourced:
        return Problem(table, "", "several places", str(error))
    value, origin = sourced[setting]
    return Problem(setting, shown_value(setting, value), origin, error.hint or str(error))
