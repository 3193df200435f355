"""The options that every command which needs settings has, as decorators.

::

    @click.command()
    @with_settings
    @json_option
    def command(settings: Settings, *, as_json: bool) -> None: ...

``with_local_settings`` is for commands that talk to no broker. ``with_loaded_settings`` gives
``loaded: LoadedSettings`` instead, which also knows where each value came from. Invalid settings
end the command with exit code 78 before its function is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from streams.settings.loader import LoadedSettings

_Command = TypeVar("_Command", bound=Callable[..., Any])

_FLAGS: Final[Mapping[str, str]] = {
    "broker": "--broker",
    "application_id": "--application-id",
    "profile": "--profile",
}


def _profiles(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of profiles for the shell's completion."""
    from simhash_core.text.profiles import PROFILES

    return [name for name in PROFILES if name.startswith(incomplete)]


profile_option: Final = click.option(
    "--profile",
    metavar="NAME",
    shell_complete=_profiles,
    help="What counts as near: wide, quick or classic.",
)
_config_option: Final = click.option(
    "--config",
    envvar="FIRSTSEEN_CONFIG",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Settings file, .toml or .json.",
)
_set_option: Final = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any setting, e.g. batch.documents=200; repeatable. Not for secrets, which other "
    "processes could read here: use the environment or a file.",
)
json_option: Final = click.option(
    "--json", "as_json", is_flag=True, help="Write the answer as JSON, one object a line."
)
timeout_option: Final = click.option(
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(0.1, 300),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest wait for a broker.",
)
shard_option: Final = click.option(
    "--shard",
    "shards",
    type=click.IntRange(0, 65_535),
    multiple=True,
    metavar="P",
    help="Only the shard of raw partition P; repeatable. Without it, all shards.",
)
# In the order in which --help lists them.
_LOCAL_OPTIONS: Final = (_config_option, profile_option, _set_option)
_KAFKA_OPTIONS: Final = (
    _config_option,
    click.option(
        "--kafka-config",
        envvar="FIRSTSEEN_KAFKA_CONFIG",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Kafka client properties, such as a client.properties.",
    ),
    click.option("--broker", metavar="HOST:PORT,…", help="Kafka brokers."),
    click.option("--application-id", metavar="ID", help="Names consumer group and state."),
    profile_option,
    _set_option,
)


def top_option(shown: str) -> Callable[[_Command], _Command]:
    """Return the option ``--top``; ``shown``: its help."""
    return click.option(
        "--top",
        type=click.IntRange(0, 10_000),
        default=10,
        show_default=True,
        metavar="N",
        help=shown,
    )


def with_settings(function: _Command) -> _Command:
    """Add the common options to a command, which gets ``settings: Settings`` in their place."""

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the command takes and returns
        return function(*args, settings=_load(kwargs).settings, **kwargs)

    return _with_options(function, call, _KAFKA_OPTIONS)


def with_local_settings(function: _Command) -> _Command:
    """Add the options of a command that talks to no broker; it gets ``settings: Settings``."""

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the command takes and returns
        return function(*args, settings=_load(kwargs).settings, **kwargs)

    return _with_options(function, call, _LOCAL_OPTIONS)


def with_loaded_settings(function: _Command) -> _Command:
    """Add the common options to a command, which gets ``loaded: LoadedSettings`` in their place."""

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the command takes and returns
        return function(*args, loaded=_load(kwargs), **kwargs)

    return _with_options(function, call, _KAFKA_OPTIONS)


def _with_options(
    function: _Command, call: Callable[..., Any], options: Sequence[Callable[..., Any]]
) -> _Command:
    wrapped: Any = update_wrapper(call, function)
    for option in reversed(options):
        wrapped = option(wrapped)
    result: _Command = wrapped
    return result


def _load(kwargs: dict[str, Any]) -> LoadedSettings:
    """Take the common options out of what click passes, and load the settings."""
    from streams.settings.loader import load_settings

    flags = {flag: kwargs.pop(name, None) for name, flag in _FLAGS.items()}
    return load_settings(
        config=kwargs.pop("config"),
        kafka_config=kwargs.pop("kafka_config", None),
        flags={flag: value for flag, value in flags.items() if value is not None},
        assignments=kwargs.pop("assignments"),
    )
