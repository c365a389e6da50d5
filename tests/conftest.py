"""Makes every run the same, and gives all tests a clock that does not depend on the machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pipesched.schedulers import own
from tests.fake_clock import fake_clock
from tests.torch_ranks import needs_torch

__all__ = ["fake_clock"]

# A process in the background ignores Ctrl-C, and tests of Ctrl-C would fail there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every run draws the same examples, so that a failure is there again the next time.
# HYPOTHESIS_PROFILE=search looks for new ones, and looks longer.
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("search", deadline=None, max_examples=200, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

GOLDEN = Path(__file__).parent / "golden"
NIGHTLY = ("test_validate_", "test_reproduce_", "test_mutants")  # files of whose subjects .ci/nightly runs all


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow the golden tables of heuristics, which are the same on every Python, and what is nightly.

    As nightly: tests of scripts whose pages the nightly gate makes anew. As torch: what is skipped without PyTorch.
    """
    for item in items:
        if needs_torch.mark in item.iter_markers("skipif"):
            item.add_marker("torch")
        if item.path.name.startswith(NIGHTLY):
            item.add_marker("nightly")
        if item.path.name.startswith("test_quality_") or item.get_closest_marker("nightly"):
            item.add_marker("slow")


@pytest.fixture
def no_own_families() -> Iterator[None]:
    """Begin without families of users, and leave none behind."""
    yield
    own.forget()


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with the golden file of that name. PIPESCHED_WRITE_GOLDEN=1 writes it instead; then look at it."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("PIPESCHED_WRITE_GOLDEN"):
            path.write_text(text, encoding="utf-8", newline="\n")
        assert text == path.read_text(encoding="utf-8")

    return compare
