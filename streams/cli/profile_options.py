"""Every setting of the index as an option of its own: ``--distance 40`` for ``index.distance``.

::

    @click.command(cls=ProfileCommand)
    @with_profile_settings
    def command(settings: Settings, ...) -> None: ...

The options are read off the settings when the command is called, so a setting that a profile gets
later is an option without a change here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any, Final, TypeVar

import click

from streams.cli.options import with_local_settings

_Command = TypeVar("_Command", bound=Callable[..., Any])

_TABLE: Final = "index."
_PARAMETER: Final = "index_"
_WIDTHS: Final = frozenset({"bits", "blocks"})
_EVENLY: Final = {"block_bits": "0"}


class ProfileCommand(click.Command):
    """A command with an option for each setting of the index."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own parameters, then those of the index, then ``--help``."""
        own = super().get_params(ctx)
        return [*own[:-1], *_index_options(own), *own[-1:]]


def with_profile_settings(function: _Command) -> _Command:
    """Add the common options and those of the index; the command gets ``settings: Settings``."""
    return _with_options(function, lambda _flags: {})


def with_planned_settings(function: _Command) -> _Command:
    """Add the same, for a scheme that is only being thought of.

    Where widths are given and no profile, the rest is that of ``classic``: without confirmation,
    one cut, and blocks that divide the fingerprint evenly.
    """

    def rest(flags: Mapping[str, str]) -> dict[str, str]:
        return {} if flags.keys().isdisjoint(_WIDTHS) else {"profile": "classic", **_EVENLY}

    return _with_options(function, rest)


def _with_options(
    function: _Command, rest_of: Callable[[Mapping[str, str]], Mapping[str, str]]
) -> _Command:
    """``rest_of`` gives what follows from the settings given, where it is not given as well."""
    inner = with_local_settings(function)

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the command takes and returns
        names = [name for name in kwargs if name.startswith(_PARAMETER)]
        values = {name.removeprefix(_PARAMETER): kwargs.pop(name) for name in names}
        flags = {name: value for name, value in values.items() if value is not None}
        rest = dict(rest_of(flags))
        profile = rest.pop("profile", None)
        if profile is not None and kwargs["profile"] is None:
            kwargs["profile"] = profile
            flags = rest | flags
        kwargs["assignments"] = (
            *kwargs["assignments"],
            *(f"{_TABLE}{name}={value}" for name, value in flags.items()),
        )
        return inner(*args, **kwargs)

    result: _Command = update_wrapper(call, inner)  # type: ignore[assignment] # the same signature
    return result


def _index_options(own: list[click.Parameter]) -> list[click.Option]:
    from streams.settings.setting_fields import setting_fields

    used = {flag for parameter in own for flag in parameter.opts}
    options = []
    for name, field in setting_fields().items():
        if not name.startswith(_TABLE):
            continue
        leaf = name.removeprefix(_TABLE)
        flag = f"--{leaf.replace('_', '-')}"
        # A name that the command uses for something else is still there as --set index.NAME=.
        if flag not in used:
            text = f"{field.help} [setting {name}]"
            options.append(click.Option([flag, _PARAMETER + leaf], metavar="VALUE", help=text))
    return options
