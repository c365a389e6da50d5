"""Makes the helpers of this folder importable (`tests.replay`, `tests.strategies`), and every run the same."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parents[1]))

# A process in the background ignores Ctrl-C, and tests of Ctrl-C would fail there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every run draws the same examples, so that a failure is there again the next time.
# HYPOTHESIS_PROFILE=search looks for new ones, and looks longer; `few` is for the other versions of Python.
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("few", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("search", deadline=None, max_examples=2000, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the golden tables of heuristics slow: together they take half a minute, on every Python the same."""
    for item in items:
        if item.path.name.startswith("test_quality_"):
            item.add_marker("slow")
