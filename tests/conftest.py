"""The plugins of all tests."""

from __future__ import annotations

pytest_plugins = ["tests.brokers.fixtures", "tests.hypothesis_profiles"]
