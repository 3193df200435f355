"""The settings of the flow of documents: how many are handled at once, and how many may wait."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB


class BatchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The maximum done at once. Nothing waits for a batch to fill: a busy worker has full ones."""

    documents: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="Maximum raw records per fingerprint batch, which is one packet in the "
            "log.",
        ),
    ] = 500
    packets: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000,
            description="Maximum packets per report, control record and transaction.",
        ),
    ] = 8


class IntakeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How raw records of several partitions are ordered: by their timestamps, as far as known."""

    idle_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=60_000,
            description="Wait for a partition with records that are not fetched yet, before "
            "later records of other partitions are taken. Milliseconds.",
        ),
    ] = 200


class InFlightSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Raw records that a worker has read and not put out yet; beyond, it reads no further."""

    documents: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Raw records in flight at which a worker pauses reading.",
        ),
    ] = 4_000
    bytes: Annotated[
        int,
        Meta(
            ge=MIB,
            le=64 * GIB,
            description="Bytes of raw records in flight at which a worker pauses reading.",
        ),
    ] = 64 * MIB
