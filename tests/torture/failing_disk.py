"""A file system for a worker's state whose disk can fail, and lose what was not synced.

``python -m tests.torture.failing_disk DIRECTORY MOUNT_POINT`` serves the files of a directory at a
mount point, through FUSE. Orders are written to the file ``CONTROL`` at the mount point:

- ``fail``: reads of what is not in memory, and all writes, are input/output errors; ``heal``
  ends it.
- ``lose SEED``: the power is lost, while no process has a file open. Of each file that grew since
  it was synced (``fsync``), a random part of the end is lost or is zeros. Of the names that were
  made, moved or removed in a directory since it was synced, and in the last seconds (as file
  systems with a journal write it), a random number of the latest are undone.

Bytes that are overwritten in place are not lost; no file of a worker is written so.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

CONTROL = ".disk"
ZEROED_SHARE = 0.3
JOURNAL_SECONDS = 5.0
MOUNT_SECONDS = 20.0
FUSE_DEVICE = Path("/dev/fuse")
_STAT_FIELDS = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_rdev")


def why_no_failing_disk() -> str | None:
    """Return in one line why there can be none here; None if there can."""
    if not os.access(FUSE_DEVICE, os.W_OK):
        return f"no access to {FUSE_DEVICE}"
    if shutil.which("fusermount3") is None:
        return "no fusermount3 on PATH: install fuse3"
    return None


class Disk:
    """A mounted file system; ``directory`` keeps its files, on a file system with hard links."""

    def __init__(self, directory: Path, mount_point: Path) -> None:
        self.directory = directory
        self.mount_point = mount_point
        mount_point.mkdir(exist_ok=True)
        command = (sys.executable, "-m", __name__, str(directory), str(mount_point))
        self._process = subprocess.Popen(command)
        deadline = time.monotonic() + MOUNT_SECONDS
        while not mount_point.is_mount():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise OSError(f"{mount_point}: the failing disk was not mounted")
            time.sleep(0.02)

    @contextmanager
    def failing(self) -> Iterator[None]:
        self._order("fail")
        try:
            yield
        finally:
            self._order("heal")

    def lose_power(self, rng: random.Random) -> None:
        """Lose what was not synced; no process may have a file open."""
        self._order(f"lose {rng.randrange(2**32)}")

    def close(self) -> None:
        subprocess.run(["umount", str(self.mount_point)], check=True)
        self._process.wait(MOUNT_SECONDS)

    def _order(self, order: str) -> None:
        control = os.open(self.mount_point / CONTROL, os.O_WRONLY)
        try:
            os.write(control, order.encode())
        finally:
            os.close(control)


class _Change(NamedTuple):
    """A change of a name in a directory that was not synced since."""

    at: float
    directory: str
    undo: Callable[[], None]
    grave: Path | None  # keeps a removed or replaced file


class _Operations:
    """The operations of the file system; they raise ``OSError``."""

    use_ns = True
    # Operations on an open file get its handle, and no path once its name is gone.
    flag_nopath = flag_nullpath_ok = True

    def __init__(self, directory: Path, graves: Path) -> None:
        self._directory = directory
        self._graves = graves
        control = directory / CONTROL
        control.touch()
        self._control = control.stat().st_ino
        self._is_failing = False
        self._synced: dict[int, int] = {}  # bytes, by inode
        self._changes: deque[_Change] = deque()
        self._buried = 0
        self._all_is_synced()

    # ---- Orders.

    def _obey(self, order: str) -> None:
        match order.split():
            case ["fail"]:
                self._is_failing = True
            case ["heal"]:
                self._is_failing = False
            case ["lose", seed]:
                self._lose(random.Random(int(seed)))
            case _:
                raise OSError(errno.EINVAL, f"no such order: {order}")

    def _lose(self, rng: random.Random) -> None:
        for path in sorted(self._files()):
            found = path.stat()
            synced = min(self._synced.get(found.st_ino, 0), found.st_size)
            if synced < found.st_size:
                os.truncate(path, rng.randint(synced, found.st_size))
                if rng.random() < ZEROED_SHARE:
                    os.truncate(path, found.st_size)
        counts = Counter(change.directory for change in self._changes)
        undone = {directory: rng.randint(0, count) for directory, count in sorted(counts.items())}
        for change in reversed(self._changes):
            if undone[change.directory]:
                undone[change.directory] -= 1
                change.undo()
        self._all_is_synced()

    def _all_is_synced(self) -> None:
        for change in self._changes:
            self._forget(change)
        self._changes.clear()
        self._synced = {each.stat().st_ino: each.stat().st_size for each in self._files()}

    def _files(self) -> Iterator[Path]:
        return (each for each in self._directory.rglob("*") if each.is_file())

    # ---- What is not synced.

    def _changed(self, path: str, undo: Callable[[], None], grave: Path | None = None) -> None:
        now = time.monotonic()
        while self._changes and now - self._changes[0].at > JOURNAL_SECONDS:
            self._forget(self._changes.popleft())
        self._changes.append(_Change(now, str(Path(path).parent), undo, grave))

    def _bury(self, path: str) -> Path | None:
        """Keep a file that loses its name; None if there is none."""
        if not self._real(path).is_file():
            return None
        self._buried += 1
        grave = self._graves / str(self._buried)
        grave.hardlink_to(self._real(path))
        return grave

    def _forget(self, change: _Change) -> None:
        if change.grave is not None and change.grave.exists():
            found = change.grave.stat()
            change.grave.unlink()
            if found.st_nlink == 1:
                self._synced.pop(found.st_ino, None)

    def _real(self, path: str) -> Path:
        return self._directory / path.removeprefix("/")

    def _works(self) -> None:
        if self._is_failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    # ---- The operations on files.

    def create(self, path: str, mode: int, flags: int) -> int:
        self._works()
        real = self._real(path)
        is_new = not real.exists()
        handle = os.open(real, flags | os.O_CREAT, mode)
        if is_new:
            self._changed(path, lambda: real.unlink(missing_ok=True))
        return handle

    def open(self, path: str, flags: int) -> int:
        return os.open(self._real(path), flags & ~os.O_APPEND)  # the kernel gives the place

    def read(self, _path: str | None, size: int, offset: int, handle: int) -> bytes:
        self._works()
        return os.pread(handle, size, offset)

    def write(self, _path: str | None, data: bytes, offset: int, handle: int) -> int:
        if os.fstat(handle).st_ino == self._control:
            self._obey(data.decode())
            return len(data)
        self._works()
        return os.pwrite(handle, data, offset)

    def fsync(self, _path: str | None, _datasync: int, handle: int) -> int:
        self._works()
        found = os.fstat(handle)
        self._synced[found.st_ino] = found.st_size
        return 0

    def release(self, _path: str | None, handle: int) -> int:
        os.close(handle)
        return 0

    def truncate(self, path: str | None, length: int, handle: int | None = None) -> int:
        self._works()
        file = handle if handle is not None else self._real(path or "")
        os.truncate(file, length)
        found = os.stat(file)  # noqa: PTH116 - it may be a handle
        self._synced[found.st_ino] = min(self._synced.get(found.st_ino, 0), length)
        return 0

    def getattr(self, path: str | None, handle: int | None = None) -> dict[str, int]:
        found = os.fstat(handle) if handle is not None else os.lstat(self._real(path or ""))
        attributes = {name: getattr(found, name) for name in _STAT_FIELDS}
        times = {
            name: getattr(found, f"{name}_ns") for name in ("st_atime", "st_mtime", "st_ctime")
        }
        return attributes | times

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        os.utime(self._real(path), ns=times or (time.time_ns(),) * 2)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        self._real(path).chmod(mode)
        return 0

    def chown(self, path: str, user: int, group: int) -> int:
        os.chown(self._real(path), user, group)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._real(path))
        return {name: getattr(found, name) for name in dir(found) if name.startswith("f_")}

    # ---- The operations on names.

    def opendir(self, path: str) -> int:
        return os.open(self._real(path), os.O_RDONLY | os.O_DIRECTORY)

    def readdir(self, _path: str | None, handle: int) -> list[str]:
        self._works()
        return [".", "..", *os.listdir(handle)]

    def releasedir(self, path: str | None, handle: int) -> int:
        return self.release(path, handle)

    def fsyncdir(self, _path: str | None, _datasync: int, handle: int) -> int:
        self._works()
        real = Path(f"/proc/self/fd/{handle}").readlink()
        directory = str("/" / real.relative_to(self._directory))
        kept: deque[_Change] = deque()
        for change in self._changes:
            if change.directory == directory:
                self._forget(change)
            else:
                kept.append(change)
        self._changes = kept
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        self._works()
        real = self._real(path)
        real.mkdir(mode)
        self._changed(path, lambda: shutil.rmtree(real, ignore_errors=True))
        return 0

    def rmdir(self, path: str) -> int:
        self._works()
        real = self._real(path)
        real.rmdir()
        self._changed(path, lambda: real.mkdir(parents=True, exist_ok=True))
        return 0

    def unlink(self, path: str) -> int:
        self._works()
        grave = self._bury(path)
        self._real(path).unlink()
        self._changed(path, lambda: self._dig_up(grave, path), grave)
        return 0

    def rename(self, old: str, new: str) -> int:
        self._works()
        source, target = self._real(old), self._real(new)
        grave = self._bury(new)
        source.rename(target)

        def undo() -> None:
            if target.exists():
                source.parent.mkdir(parents=True, exist_ok=True)
                target.rename(source)
            self._dig_up(grave, new)

        self._changed(new, undo, grave)
        return 0

    def link(self, new: str, existing: str) -> int:
        self._works()
        real = self._real(new)
        real.hardlink_to(self._real(existing))
        self._changed(new, lambda: real.unlink(missing_ok=True))
        return 0

    def _dig_up(self, grave: Path | None, path: str) -> None:
        real = self._real(path)
        if grave is not None and not real.exists():
            real.parent.mkdir(parents=True, exist_ok=True)
            real.hardlink_to(grave)


def _serve(directory: Path, mount_point: Path) -> None:
    import mfusepy  # noqa: PLC0415 - it needs libfuse, which a machine may lack

    files, graves = directory / "files", directory / "graves"
    for each in (files, graves):
        each.mkdir(parents=True, exist_ok=True)
    options = dict.fromkeys(("attr_timeout", "entry_timeout", "negative_timeout"), 0)
    flags = dict.fromkeys(("foreground", "nothreads", "hard_remove"), True)
    mfusepy.FUSE(_Operations(files, graves), str(mount_point), **flags, **options)


if __name__ == "__main__":
    _serve(*map(Path, sys.argv[1:]))
