"""What a check of an index finds."""

from __future__ import annotations

from typing import Literal

import msgspec

Where = Literal["disk", "changelog", "log", "group"]


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it must be. ``shard`` None: it is of the whole index.

    ``what``: a sentence that names the file, the record or the document. ``fix``: what to do.
    """

    where: Where
    shard: int | None
    what: str
    fix: str

    def __str__(self) -> str:
        """One line for people."""
        shard = "" if self.shard is None else f" of shard {self.shard}"
        return f"{self.where}{shard}: {self.what}. {self.fix}"
