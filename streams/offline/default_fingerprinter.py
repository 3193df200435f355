"""The default profile's fingerprinter, loaded on import.

Only the fork server of the process pool imports this module, so that dictionary and idf table are
loaded once and not by each process.
"""

from __future__ import annotations

from typing import Final

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import DEFAULT_PROFILE, profile_named

FINGERPRINTER: Final = Fingerprinter(profile_named(DEFAULT_PROFILE))
