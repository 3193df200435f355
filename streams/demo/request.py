"""What a demo is to do, and the settings that follow from it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from simhash_core.errors import UsageError
from streams.settings.loader import load_settings
from streams.settings.settings import Settings

OUTPUT_PARTITIONS: Final = 4
"""Of the topics of documents that are put out."""
RAW_PARTITIONS: Final = 1
"""One, so that the stream keeps its order: what was written first is seen first."""
DOCUMENTS: Final = 3_000
SEED: Final = 1

_OURS: Final = (
    "brokers",
    "state_dir",
    "broker_wait_seconds",
    "web.enabled",
    "web.host",
    "web.port",
)
# The embedded broker hides nothing that is not committed, needs a session's time for any change of
# the group, and holds a fetch that finds nothing to its end (see its module).
_BESIDE: Final = {
    "delivery": "at_least_once",
    "session_timeout_seconds": "6",
    "kafka.fetch.wait.max.ms": "10",
}


class DemoRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the user wants.

    ``documents`` None: all that there are in ``input``. ``assignments`` are settings of the worker,
    ``name=value``. ``state_dir`` None: a temporary directory, removed at the end.
    """

    documents: int | None = None
    seed: int = SEED
    input: str | None = None
    profile: str | None = None
    assignments: tuple[str, ...] = ()
    state_dir: Path | None = None
    keep_running: bool = False

    def generated(self) -> int:
        """How many documents to generate."""
        return DOCUMENTS if self.documents is None else self.documents


def settings_of(request: DemoRequest, brokers: str, state_dir: Path) -> Settings:
    """Return the settings of everything in the demo: those of the request, and nothing else.

    Raises ``SettingsError``, or ``UsageError`` for a setting that is the demo's to choose.
    """
    loaded = load_settings(
        flags=_flags(request, brokers),
        assignments=_assignments(request, state_dir),
        environ={},
    )
    return loaded.settings


def worker_options(request: DemoRequest, brokers: str, state_dir: Path) -> list[str]:
    """Return the options of ``firstseen worker`` for the same settings."""
    options: list[str] = []
    for flag, value in _flags(request, brokers).items():
        options += [flag, value]
    for assignment in _assignments(request, state_dir):
        options += ["--set", assignment]
    return options


def _flags(request: DemoRequest, brokers: str) -> dict[str, str]:
    profile = {} if request.profile is None else {"--profile": request.profile}
    return {"--broker": brokers, **profile}


def _assignments(request: DemoRequest, state_dir: Path) -> list[str]:
    names = {assignment.partition("=")[0].strip() for assignment in request.assignments}
    for name in _OURS:
        if name in names:
            raise UsageError(f"--set {name}: the demo does not allow this setting")
    assignments = [*request.assignments, f"state_dir={state_dir}"]
    beside = [f"{name}={value}" for name, value in _BESIDE.items() if name not in names]
    return assignments + beside
