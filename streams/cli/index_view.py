"""What ``firstseen index`` says, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streams.care.loading import LoadAccount


def load_text(account: LoadAccount) -> str:
    """Return what was loaded."""
    rate = account.documents / account.seconds if account.seconds else 0.0
    done = f"{account.documents:,} documents into {len(account.shards)} shards"
    lines = [f"Loaded {done} in {account.seconds:.1f} s ({rate:,.0f} a second)."]
    lines += [f"  {count:,} were refused: {reason}" for reason, count in account.refused.items()]
    if account.begins:
        offsets = ", ".join(f"{p} from {offset}" for p, offset in account.begins.items())
        lines.append(f"Workers begin to read raw partition {offsets}.")
    return "\n".join(lines)
