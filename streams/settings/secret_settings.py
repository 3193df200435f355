"""Settings of ours whose values are never shown. Those of Kafka's clients go by their names."""

from __future__ import annotations

from typing import Final

SECRETS: Final = frozenset({"registry.oauth_client_secret", "registry.password", "web.token"})
"""By dotted name."""
