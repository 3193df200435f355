"""Decorators for the options that many commands share.

::

    @click.command()
    @with_broker
    def command(settings: Settings) -> None:
        admin = connect(settings)
        write_answer("version", {"python": "3.12"}, "python 3.12")

``with_local_settings`` is for commands without a broker. ``with_loaded_settings`` passes
``loaded: LoadedSettings``, which knows the origin of each value. Invalid settings end the command
with exit code 78 before its function is called. The functions of this module read ``--json`` and
``--timeout`` from click's context.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import click

from simhash_core.errors import UsageError

if TYPE_CHECKING:
    import msgspec

    from streams.kafka.clients import AdminClient
    from streams.settings.loader import LoadedSettings
    from streams.settings.settings import Settings as Settings  # noqa: PLC0414 - for commands
    from streams.terminal.layout import Block


# ---- The output of ``--json``: an object per line, with a ``schema``: ``firstseen.KIND/VERSION``.
#
# The version rises when a field is removed or changes its meaning. Unprintable characters are
# escaped, because a record must not control the terminal.


_Content: TypeAlias = "Mapping[str, object] | msgspec.Struct"


def write_json(kind: str, content: _Content) -> None:
    sys.stdout.write(json_line(kind, content) + "\n")
    sys.stdout.flush()


def json_line(kind: str, content: _Content) -> str:
    import msgspec

    fields = msgspec.to_builtins(content)
    text = msgspec.json.encode({"schema": f"firstseen.{kind}/1"} | fields).decode()
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


def write_answer(
    kind: str, content: _Content, view: str | Iterable[Block], *, stderr: bool = False
) -> None:
    """Write ``content`` if the command was called with ``--json``, otherwise ``view``."""
    if is_json():
        write_json(kind, content)
    elif isinstance(view, str):
        click.echo(view, err=stderr)
    else:
        from streams.terminal.layout import show

        show(view, stderr=stderr)


def announce(text: str) -> None:
    click.echo(f"firstseen: {text}", err=True)


def check_page(page: Path, *inputs: str | None) -> None:
    """Raise ``click.BadParameter`` if the page of ``--report`` is an input or cannot be written."""
    try:
        page.open("a").close()
        is_own = is_input(page, inputs)
    except OSError as error:
        raise click.BadParameter(
            f"cannot write {page}: {error.strerror}", param_hint="--report"
        ) from None
    if is_own:
        raise click.BadParameter(f"{page} is an input itself", param_hint="--report")


def is_input(output: Path, inputs: Iterable[str | None]) -> bool:
    existing = [Path(each) for each in inputs if each and Path(each).exists()]
    return output.exists() and any(output.samefile(each) for each in existing)


def given_text(file: str | None, text: str | None, settings: Settings) -> str:
    """Return ``--text``, or the text of a file; raise ``UsageError`` unless one is given."""
    from streams.files.text_files import read_text

    if file is not None and text is None:
        return read_text(file, settings.max_record_bytes)
    if file is None and text is not None:
        return utf8("--text", text)
    raise UsageError("give either a FILE (- is standard input) or --text")


def utf8(option: str, text: str) -> str:
    """Return a text of the command line; raise ``UsageError`` if its bytes are not UTF-8."""
    if text.isascii() or text == text.encode(errors="replace").decode():
        return text
    raise UsageError(f"{option} is not UTF-8: encode it in UTF-8")


_Command = TypeVar("_Command", bound=Callable[..., Any])


def number_option(
    names: str,
    numbers: click.IntRange | click.FloatRange,
    text: str,
    metavar: str = "N",
    **others: Any,  # noqa: ANN401 - of click's option
) -> Callable[[_Command], _Command]:
    """Return an option for a number; ``names`` is as in ``--limit limit``."""
    if "default" in others:
        others["show_default"] = True
    return click.option(*names.split(), type=numbers, metavar=metavar, help=text, **others)


_FLAGS: Final = ("broker", "application_id", "profile")


def _note(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    ctx.meta[f"{__name__}.{parameter.name}"] = value


def is_json() -> bool:
    return bool(click.get_current_context().meta[f"{__name__}.as_json"])


def timeout_seconds() -> float:
    return float(click.get_current_context().meta[f"{__name__}.timeout_seconds"])


def connect(settings: Settings) -> AdminClient:
    """Wait for a broker, up to ``--timeout``."""
    from streams.kafka.connection import connect_admin

    return connect_admin(settings, timeout_seconds(), announce)


def _profiles(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
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
    help="Any setting, e.g. batch.documents=200; repeatable. Not for secrets: other processes can "
    "read the command line. Use the environment or a file.",
)
json_option: Final = click.option(
    "--json",
    "as_json",
    is_flag=True,
    expose_value=False,
    callback=_note,
    help="Print the result as JSON, one object per line.",
)
timeout_option: Final = number_option(
    "--timeout timeout_seconds",
    click.FloatRange(0.1, 300),
    "Longest wait for a broker.",
    default=15.0,
    metavar="SECONDS",
    expose_value=False,
    callback=_note,
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
    click.option(
        "--application-id", metavar="ID", help="Name of the consumer group and of the state."
    ),
    profile_option,
    _set_option,
)


def top_option(shown: str) -> Callable[[_Command], _Command]:
    return number_option("--top", click.IntRange(0, 10_000), shown, default=10)


def _with_options(
    function: _Command, *, options: Sequence[Callable[..., Any]], with_origins: bool = False
) -> _Command:
    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the command takes and returns
        loaded = _load(kwargs)
        given = {"loaded": loaded} if with_origins else {"settings": loaded.settings}
        return function(*args, **given, **kwargs)

    wrapped: Any = update_wrapper(call, function)
    for option in reversed(options):
        wrapped = option(wrapped)
    result: _Command = wrapped
    return result


def _load(kwargs: dict[str, Any]) -> LoadedSettings:
    """Remove the common options from ``kwargs`` and load the settings from them."""
    from streams.settings.loader import load_settings

    flags = {f"--{name.replace('_', '-')}": kwargs.pop(name, None) for name in _FLAGS}
    return load_settings(
        config=kwargs.pop("config"),
        kafka_config=kwargs.pop("kafka_config", None),
        flags={flag: value for flag, value in flags.items() if value is not None},
        assignments=kwargs.pop("assignments"),
    )


with_settings: Final = partial(_with_options, options=_KAFKA_OPTIONS)
"""Adds the common options; the command gets ``settings: Settings``."""
with_local_settings: Final = partial(_with_options, options=_LOCAL_OPTIONS)
"""Adds the options of a command without a broker; it gets ``settings: Settings``."""
with_loaded_settings: Final = partial(_with_options, options=_KAFKA_OPTIONS, with_origins=True)
"""Adds the common options; the command gets ``loaded: LoadedSettings``."""


def with_broker(function: _Command) -> _Command:
    """Add the common options, ``--timeout`` and ``--json``; it gets ``settings: Settings``."""
    return with_settings(timeout_option(json_option(function)))


# ---- An option for every setting of the index: ``--distance 40`` for ``index.distance``.
#
# A command with ``cls=ProfileCommand`` and ``with_profile_settings`` has them. They are read from
# the settings at call time, so a new setting becomes an option automatically.

_TABLE: Final = "index."
_PARAMETER: Final = "index_"
_WIDTHS: Final = frozenset({"bits", "blocks"})
_EVENLY: Final = {"block_bits": "0"}


class ProfileCommand(click.Command):
    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        return [*own[:-1], *_index_options(), *own[-1:]]


def with_profile_settings(function: _Command, *, planned: bool = False) -> _Command:
    """Add ``--json``, the local options and those of the index; it gets ``settings: Settings``.

    If an index is ``planned``, with widths and no profile, the other values are those of
    ``classic``: no verifier, one cut, and blocks that divide the fingerprint evenly.
    """
    inner = with_local_settings(function)

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the command takes and returns
        names = [name for name in kwargs if name.startswith(_PARAMETER)]
        values = {name.removeprefix(_PARAMETER): kwargs.pop(name) for name in names}
        flags = {name: value for name, value in values.items() if value is not None}
        if planned and kwargs["profile"] is None and not flags.keys().isdisjoint(_WIDTHS):
            kwargs["profile"] = "classic"
            flags = _EVENLY | flags
        assignments = (f"{_TABLE}{name}={value}" for name, value in flags.items())
        kwargs["assignments"] = (*kwargs["assignments"], *assignments)
        return inner(*args, **kwargs)

    result: _Command = update_wrapper(call, inner)  # type: ignore[assignment] # the same signature
    return json_option(result)


with_planned_settings: Final = partial(with_profile_settings, planned=True)


def _index_options() -> Iterator[click.Option]:
    from streams.settings.loader import setting_fields

    for name, field in setting_fields().items():
        if name.startswith(_TABLE):
            leaf = name.removeprefix(_TABLE)
            names = [f"--{leaf.replace('_', '-')}", _PARAMETER + leaf]
            yield click.Option(names, metavar="VALUE", help=f"{field.help} [setting {name}]")
