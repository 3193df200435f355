"""Functions, methods and properties of the core, replaced by name while a mutant runs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

Function = Callable[..., Any]


class ReplacementError(Exception):
    """A replacement of what is not there any more, or is called in another way."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """What ``name`` names in ``owner`` becomes what ``make`` returns for it.

    A function of a module is replaced wherever the core has imported it.
    """

    owner: type | ModuleType
    name: str
    make: Callable[[Any], Any]


def by(owner: type | ModuleType, name: str, function: Function) -> Replacement:
    """Replace a function or method by one with as many parameters."""

    def make(original: Function) -> Function:
        expected, has = (len(inspect.signature(each).parameters) for each in (original, function))
        if expected != has:
            raise ReplacementError(
                f"{_place(owner, name)} has {expected} parameters, and the mutant {has}: change "
                "the mutant as well"
            )
        return function

    return Replacement(owner, name, make)


def by_property(owner: type, name: str, function: Function) -> Replacement:
    """Replace a property."""
    return Replacement(owner, name, lambda _: property(function))


def wrapped(owner: type | ModuleType, name: str, wrapper: Function) -> Replacement:
    """Call ``wrapper`` instead, with the function or method itself as the first argument."""

    def make(original: Function) -> Function:
        def call(*arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401 - of any function
            return wrapper(original, *arguments, **keywords)

        return call

    return Replacement(owner, name, make)


def without(owner: type | ModuleType, name: str) -> Replacement:
    """Let a function or method do nothing."""
    return wrapped(owner, name, lambda _original, *_, **__: None)


@contextmanager
def replaced(replacements: Sequence[Replacement]) -> Iterator[None]:
    """Put replacements in place; raises ``ReplacementError`` where one does not apply."""
    with ExitStack() as stack:
        for each in replacements:
            _put_in_place(stack, each)
        yield


def _put_in_place(stack: ExitStack, replacement: Replacement) -> None:
    owner, name = replacement.owner, replacement.name
    original = inspect.getattr_static(owner, name, None)
    if original is None:
        raise ReplacementError(
            f"{_place(owner, name)} is not there any more: change the mutant as well"
        )
    replacing = replacement.make(original)
    for holder in _holders(owner, name, original):
        if name in vars(holder):
            stack.callback(partial(setattr, holder, name, original))
        else:  # it is inherited
            stack.callback(partial(delattr, holder, name))
        setattr(holder, name, replacing)


def _holders(owner: type | ModuleType, name: str, original: object) -> list[type | ModuleType]:
    if not isinstance(owner, ModuleType) or getattr(original, "__module__", "") != owner.__name__:
        return [owner]  # of a module that imports it, that module's use alone
    core = [each for key, each in sys.modules.items() if key.startswith("simhash_core.")]
    return [each for each in core if getattr(each, name, None) is original]


def _place(owner: type | ModuleType, name: str) -> str:
    return f"{owner.__name__}.{name}"
