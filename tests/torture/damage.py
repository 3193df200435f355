"""What may happen to the stores of a machine while its worker is down."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

FLIPPED_BYTES = 64
DATA_SHARE = 0.5
DATA_SUFFIXES = {".sst", ".log"}


def delete(store: Path) -> None:
    shutil.rmtree(store)


def corrupt(rng: random.Random, store: Path) -> str:
    """Damage one file of a store, as a failing disk would; say what was done."""
    files = [f for f in store.iterdir() if f.is_file() and f.stat().st_size and f.name != "LOCK"]
    if not files:
        return "nothing to damage"
    data = [file for file in files if file.suffix in DATA_SUFFIXES]
    # There are many small files, all of which matter; yet most of the bytes are in these.
    file = rng.choice(sorted(data if data and rng.random() < DATA_SHARE else files))
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


def set_aside(stores: list[Path], aside: Path) -> Callable[[], None]:
    """Copy stores, as a backup; the result puts the copies in their places."""
    aside.mkdir()
    for store in stores:
        shutil.copytree(store, aside / store.name)

    def put_back() -> None:
        for store in stores:
            shutil.rmtree(store, ignore_errors=True)
            (aside / store.name).rename(store)
        aside.rmdir()

    return put_back
