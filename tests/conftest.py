"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# Generated examples are the same in every run, so that whoever sees a failure can repeat it. New ones are looked for
# with HYPOTHESIS_PROFILE=search.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
