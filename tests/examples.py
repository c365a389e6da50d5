"""How many examples tests are tried with: most of them at night alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

USUAL = 100  # a profile with more examples than these looks for new ones


def examples(count: int) -> settings:
    """The examples of the profile; in one that looks for new ones, as that of the nightly gate, so many at least."""
    usual = _usual()
    return settings(max_examples=max(count, usual) if usual > USUAL else min(count, usual), deadline=None)


def part(divisor: int) -> settings:
    """A part of the profile's examples: of a costly property, or one that is tried for each of many families."""
    return settings(max_examples=max(2, _usual() // divisor), deadline=None)


def at_night_but(kept: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """The values of a parameter, of which the gate tries those that are `kept`."""
    return [value if value in kept else pytest.param(value, marks=pytest.mark.nightly) for value in values]


def _usual() -> int:
    return settings.default.max_examples if settings.default else USUAL
