"""How long the thread of a client polls: shortly after an event, longer while nothing comes."""

from __future__ import annotations

from streams.kafka.thread_bridge import PollInterval


class _Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_polls_grow_longer_while_nothing_happens_and_short_again_after_an_event() -> None:
    """A quiet client is polled five times a second, one that has just had a call at once."""
    clock = _Clock()
    interval = PollInterval(clock)
    assert interval.seconds == 0.005

    clock.seconds += 1.5
    assert interval.seconds == 0.05

    clock.seconds += 2.0
    assert interval.seconds == 0.2

    interval.extend()
    assert interval.seconds == 0.005
