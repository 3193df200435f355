"""Loads settings only from sources that a test makes, never from its environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from streams.errors import Problem, SettingsError
from streams.settings.loader import LoadedSettings, load_settings
from streams.settings.settings import Settings


def load(
    *assignments: str,
    environ: Mapping[str, str] | None = None,
    config: Path | None = None,
    kafka_config: Path | None = None,
) -> LoadedSettings:
    return load_settings(
        assignments=assignments, environ=environ or {}, config=config, kafka_config=kafka_config
    )


def settings_of(*assignments: str) -> Settings:
    return load(*assignments).settings


def problems_of(
    *assignments: str, environ: Mapping[str, str] | None = None, config: Path | None = None
) -> dict[str, Problem]:
    with pytest.raises(SettingsError) as caught:
        load(*assignments, environ=environ, config=config)
    return {problem.setting: problem for problem in caught.value.problems}
