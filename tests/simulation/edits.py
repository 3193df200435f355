"""Edits of real functions: a line and its replacement, for as long as a mutant runs."""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any


class EditError(Exception):
    """An edit of code that has changed since."""


@dataclass(frozen=True, slots=True)
class Edit:
    """``old`` is in the source of ``target`` once, and ``new`` replaces it.

    ``target``: ``log.decider:Decider.report``, in ``simhash_core``.
    """

    target: str
    old: str
    new: str


@contextmanager
def edited(edits: Sequence[Edit]) -> Iterator[None]:
    """Put edits in place; raises ``EditError`` where one does not apply."""
    with ExitStack() as stack:
        for edit in edits:
            stack.enter_context(_edited(edit))
        yield


@contextmanager
def _edited(edit: Edit) -> Iterator[None]:
    module, owner, name = _place(edit.target)
    before = inspect.getattr_static(owner, name)
    function: Any = before.fget if isinstance(before, property) else before
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(edit.old) != 1:
        raise EditError(
            f"{edit.target} has {source.count(edit.old)} times, not once: {edit.old!r}. The code "
            "has changed: change the mutant as well"
        )
    source = "from __future__ import annotations\n" + source.replace(edit.old, edit.new)
    code = compile(source, f"<mutant of {edit.target}>", "exec")
    defined: dict[str, Any] = {}
    exec(code, module.__dict__, defined)  # noqa: S102 - our own source, with a line replaced
    holders = [owner]
    if owner is module:  # others have imported it by name
        core = [each for key, each in sys.modules.items() if key.startswith("simhash_core.")]
        holders = [each for each in core if getattr(each, name, None) is before]
    for holder in holders:
        setattr(holder, name, defined[name])
    try:
        yield
    finally:
        for holder in holders:
            setattr(holder, name, before)


def _place(target: str) -> tuple[ModuleType, Any, str]:
    """Return the module, what holds the function, and its name there."""
    module_name, path = target.split(":")
    module = importlib.import_module(f"simhash_core.{module_name}")
    *owners, name = path.split(".")
    owner: Any = module
    for each in owners:
        owner = getattr(owner, each)
    return module, owner, name
