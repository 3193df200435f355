"""Replaces functions, methods and properties of the code by name while a mutant runs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

from simhash_core.index import document_index, key_filter, known_sketches, look_up
from simhash_core.log import decider, nearest_matches, participant, replica, unique_documents

Function = Callable[..., Any]


class ReplacementError(Exception):
    """The original of a replacement no longer exists, or has other parameters."""


class Replacement(NamedTuple):
    """Replaces what ``name`` names in ``owner`` by what ``make`` returns for it.

    A function of a module is replaced in every module of the core that has imported it.
    """

    owner: type | ModuleType
    name: str
    make: Callable[[Any], Any]


def by(owner: type | ModuleType, name: str, function: Function) -> Replacement:
    """Replace a function, method or property by a function with the same number of parameters."""

    def make(original: Any) -> Function:  # noqa: ANN401 - a function or a property
        if isinstance(original, property):
            original = original.fget
        expected, has = (len(inspect.signature(f).parameters) for f in (original, function))
        if expected != has:
            raise ReplacementError(
                f"{owner.__name__}.{name} has {expected} parameters, and the mutant {has}: change "
                "the mutant as well"
            )
        return function

    return Replacement(owner, name, make)


def wrapped(owner: type | ModuleType, name: str, wrapper: Function) -> Replacement:
    """Call ``wrapper`` instead, with the original function or method as the first argument."""

    def make(original: Function) -> Function:
        return lambda *arguments, **keywords: wrapper(original, *arguments, **keywords)

    return Replacement(owner, name, make)


def always(owner: type | ModuleType, name: str, value: object) -> Replacement:
    """Make a function, method, coroutine or property only return a value."""

    def make(original: object) -> Function:
        async def later(*_: object, **__: object) -> object:
            return value

        is_later = inspect.iscoroutinefunction(original)
        return later if is_later else lambda *_, **__: value

    return Replacement(owner, name, make)


def without(owner: type | ModuleType, name: str) -> Replacement:
    return always(owner, name, None)


@contextmanager
def replaced(replacements: Sequence[Replacement]) -> Iterator[None]:
    """Apply replacements; raises ``ReplacementError`` if one does not fit."""
    with ExitStack() as stack:
        for owner, name, make in replacements:
            original = inspect.getattr_static(owner, name, None)
            if original is None:
                raise ReplacementError(
                    f"{owner.__name__}.{name} is not there any more: change the mutant as well"
                )
            other = make(original)
            if isinstance(original, property):
                other = property(other)
            for holder in _holders(owner, name, original):
                stack.enter_context(patch.object(holder, name, other))
        yield


def low_limits(memtable: int, forgotten: int, compared: int) -> AbstractContextManager[None]:
    limits = (
        (document_index, "MEMTABLE_DOCUMENTS", memtable),
        (key_filter, "_FIRST_CAPACITY", 4),
        (known_sketches, "_CAPACITY", 6),
        (look_up, "MANY", 1),
        (unique_documents, "MANY", 0),
        (unique_documents, "_FORGOTTEN_LIMIT", forgotten),
        (nearest_matches, "_COMPARED_WHOLE", compared),
        (decider, "_COMPARED_DOCUMENTS", compared),
        (participant, "REMEMBERED_OFFSETS_MIN", 0),
        (replica, "_PASSED_MIN", 0),
    )
    return replaced([constant(*each) for each in limits])


def constant(owner: ModuleType, name: str, value: object) -> Replacement:
    return Replacement(owner, name, lambda _: value)


def _holders(owner: type | ModuleType, name: str, original: object) -> list[type | ModuleType]:
    """Return where a name is replaced; for a module that imports it, only that module's use."""
    holders = [owner]
    if isinstance(owner, ModuleType) and getattr(original, "__module__", "") == owner.__name__:
        core = [each for key, each in sys.modules.items() if key.startswith("simhash_core.")]
        holders += [each for each in core if each is not owner and vars(each).get(name) is original]
    return holders
