"""How many random examples a property is tried with: more than the profile's at night alone."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100  # a profile with more examples than these looks for new ones


def examples(count: int) -> settings:
    """The examples of the profile; in one that looks for new ones, as that of the nightly gate, so many at least."""
    usual = _usual()
    return settings(max_examples=max(count, usual) if usual > USUAL else min(count, usual), deadline=None)


def part(divisor: int) -> settings:
    """A part of the profile's examples: of a costly property, or one that is tried for each of many families."""
    return settings(max_examples=max(1, _usual() // divisor), deadline=None)


def _usual() -> int:
    return settings.default.max_examples if settings.default else USUAL
