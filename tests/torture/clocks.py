"""The wall clocks of brokers, which libfaketime lets jump."""

from __future__ import annotations

from pathlib import Path

LIBRARIES = Path("/usr/lib")
LIBRARY = "*/faketime/libfaketimeMT.so.1"


class BrokerClock:
    """The wall clock of a broker whose command is run by ``launcher``."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._library = next(iter(sorted(LIBRARIES.glob(LIBRARY))), None)
        file.parent.mkdir(parents=True, exist_ok=True)
        self.set(0)

    @property
    def launcher(self) -> tuple[str, ...]:
        if self._library is None:
            return ()
        return (
            "env",
            f"LD_PRELOAD={self._library}",
            f"FAKETIME_TIMESTAMP_FILE={self._file}",
            "FAKETIME_CACHE_DURATION=1",  # the longest time until it jumps, in seconds
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
            "FAKETIME_FORCE_MONOTONIC_FIX=0",  # with it (0.9.10), waits of a JVM end at once
        )

    @property
    def can_jump(self) -> bool:
        return self._library is not None

    def set(self, seconds: float) -> None:
        """Set how far the clock is off; the time that programs measure with it goes on."""
        self._file.write_text(f"{seconds:+.0f}\n", "utf-8")
