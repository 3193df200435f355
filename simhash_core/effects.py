"""What a shard wants done: the only way in which it acts on the world."""

from __future__ import annotations

from typing import NamedTuple

from simhash_core.entries import Change
from simhash_core.probes import Message, Probe
from simhash_core.rejections import Rejection
from simhash_core.verdicts import Verdict


class Emit(NamedTuple):
    """Put out the record of a decided document."""

    probe: Probe
    verdict: Verdict


class EmitDeadLetter(NamedTuple):
    """Put out a record that cannot be read."""

    rejection: Rejection


class Send(NamedTuple):
    """Send a message to the shard of ``partition``; ``number`` counts those sent to it so far."""

    partition: int
    number: int
    message: Message


class Remember(NamedTuple):
    """Write a change of this shard's state."""

    change: Change


Effect = Emit | EmitDeadLetter | Send | Remember
