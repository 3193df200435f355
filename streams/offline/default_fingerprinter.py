"""The fingerprinter of the default profile, loaded when this module is.

The server that processes of the pool are forked from imports it: so dictionary and idf table are
loaded once, and not by each process. Nothing else should import it.
"""

from __future__ import annotations

from typing import Final

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import DEFAULT_PROFILE, profile_named

FINGERPRINTER: Final = Fingerprinter(profile_named(DEFAULT_PROFILE))
