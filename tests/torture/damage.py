"""What may happen to the stores of a machine while its worker is down."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

FLIPPED_BYTES = 64


def delete(store: Path) -> None:
    """Delete a store, as the loss of a disk would."""
    shutil.rmtree(store)


def corrupt(rng: random.Random, store: Path) -> str:
    """Damage one file of a store, as a failing disk would; say what was done."""
    files = [f for f in store.iterdir() if f.is_file() and f.stat().st_size and f.name != "LOCK"]
    if not files:
        return "nothing to damage"
    file = rng.choice(sorted(files))
    change = rng.choice((_flip, _cut, _remove))
    change(rng, file)
    return f"{change.__name__[1:]} {store.name}/{file.name}"


def _flip(rng: random.Random, file: Path) -> None:
    content = bytearray(file.read_bytes())
    start = rng.randrange(len(content))
    for place in range(start, min(start + FLIPPED_BYTES, len(content))):
        content[place] ^= 0xFF
    file.write_bytes(content)


def _cut(rng: random.Random, file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: rng.randrange(len(content))])


def _remove(_rng: random.Random, file: Path) -> None:
    file.unlink()


def set_aside(stores: list[Path]) -> Callable[[], None]:
    """Copy stores; the result puts the copies in their places, as an old backup would be."""
    copies = {store: store.with_name(f"{store.name}.old") for store in stores}
    for store, copy in copies.items():
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(store, copy)

    def put_back() -> None:
        for store, copy in copies.items():
            shutil.rmtree(store, ignore_errors=True)
            copy.rename(store)

    return put_back
