"""What the protocol costs: messages between shards, a document, by the number of partitions."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from simhash_core.blocks import BlockScheme
from simhash_core.placement import Placement
from tests.simulation.cluster import simulate
from tests.simulation.scenario import Delivery, RawDocument, Scenario

SCHEME: Final = BlockScheme(256, 16, 56)
PARTITIONS: Final = (1, 2, 4, 16, 64)


def documents_of(seed: int, size: int, duplicates: float) -> tuple[RawDocument, ...]:
    """Return documents of which a share ``duplicates`` copies an earlier one, with some bits other.

    A copy differs in up to an eighth of the bits, all of them within a quarter of the blocks, as
    where a passage was edited. Others differ in about half of the bits.
    """
    chance = Random(f"costs/{seed}")
    numbers: list[int] = []
    for _ in range(size):
        if numbers and chance.random() < duplicates:
            number = chance.choice(numbers)
            first = chance.randrange(SCHEME.bits * 3 // 4)
            for _ in range(chance.randint(0, SCHEME.bits // 8)):
                number ^= 1 << first + chance.randrange(SCHEME.bits // 4)
        else:
            number = chance.getrandbits(SCHEME.bits)
        numbers.append(number)
    return tuple(
        RawDocument(f"d{index}", chance.randrange(4), 0, fingerprint, fingerprint[:16])
        for index, fingerprint in enumerate(number.to_bytes(SCHEME.bits // 8) for number in numbers)
    )


class Cost(NamedTuple):
    """Messages between shards, a document: ``visits`` onward, and ``settling`` ones back."""

    visits: float
    settling: float


def cost(partitions: int, duplicates: float, size: int = 400) -> Cost:
    """Return the measured cost, without faults; ``duplicates`` is their share, 0 to 1."""
    scenario = Scenario(
        schedule_seed=0,
        placement=Placement(SCHEME, partitions),
        raw_partitions=4,
        workers=1,
        delivery=Delivery.EXACTLY_ONCE,
        documents=documents_of(0, size, duplicates),
        faults=frozenset(),
        faults_most=0,
        batch_most=8,
    )
    messages = simulate(scenario).messages
    return Cost(messages["Visit"] / size, (messages["Confirm"] + messages["Withdraw"]) / size)


def expected_for_uniques(partitions: int, blocks: int = SCHEME.blocks) -> float:
    """Return the expected messages of a unique document whose buckets lie anywhere alike.

    It visits P · (1 − (1 − 1/P)^blocks) of P partitions; each beyond the first costs a message
    there, and each before the last a confirm back.
    """
    visited = partitions * (1 - (1 - 1 / partitions) ** blocks)
    return 2 * (visited - 1)


def table() -> list[str]:
    """Return a table of costs, a line for each number of partitions."""
    shares = (0.0, 0.25, 0.5, 0.75, 0.9)
    lines = [
        f"Messages between shards, a document, {SCHEME.blocks} blocks: visits + confirms and",
        "withdraws, by the share of documents that are duplicates.",
        "partitions " + " ".join(f"{f'{share:.0%}':>13}" for share in shares),
    ]
    for partitions in PARTITIONS:
        costs = [cost(partitions, share) for share in shares]
        row = " ".join(f"{visits:5.2f} + {settling:5.2f}" for visits, settling in costs)
        lines.append(f"{partitions:10} {row}")
    return lines
