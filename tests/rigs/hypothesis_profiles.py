"""Hypothesis profiles: how long property tests search, and what they print if they find a fault.

A pytest plugin module: tests/conftest.py lists it in `pytest_plugins`. HYPOTHESIS_PROFILE chooses,
and `--hypothesis-profile` overrides that:

- `dev`: the default. Random examples, and a local database that repeats the last failures.
- `ci`: derandomised, so that a commit gets one result; prints the blob that reproduces a failure.
- `soak`: fifty times the examples, for a run at night or to look for a fault.

No profile has a deadline for one example: machines share their cores, and a test has a time-out.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILES = ("dev", "ci", "soak")

# The test's time-out limits slow strategies; the machine's load may slow any of them.
_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("dev", _patient)
settings.register_profile("ci", _patient, derandomize=True, print_blob=True)
settings.register_profile("soak", _patient, max_examples=5_000, print_blob=True)

_chosen = os.environ.get("HYPOTHESIS_PROFILE") or "dev"
if _chosen not in PROFILES:
    known = ", ".join(PROFILES)
    raise ValueError(f"HYPOTHESIS_PROFILE is {_chosen!r}; the profiles are: {known}")
settings.load_profile(_chosen)
