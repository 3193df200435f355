"""The plugins of all tests."""

from __future__ import annotations

import signal

pytest_plugins = ["tests.brokers.fixtures", "tests.hypothesis_profiles"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts what it puts in the background so, and every process that
    # a test starts would inherit it: Ctrl-C could not be tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)
