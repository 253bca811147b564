"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Generated examples are the same in every run, so that whoever sees a failure can repeat it. New ones are looked for
# with HYPOTHESIS_PROFILE=search. How long one takes is the machine's matter, and no failure.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", derandomize=False, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
