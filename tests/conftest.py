"""Shared by all tests: hypothesis without time limits, since a first call compiles."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("apmax", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("apmax")
