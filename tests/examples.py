"""How many random examples a property is tried with: above a hundred at night alone."""

from __future__ import annotations

from hypothesis import settings

MOST = 100  # in the gate


def examples(count: int) -> settings:
    """So many examples in the profile `search`, which the nightly gate runs, or more; else a hundred at most."""
    usual = settings.default.max_examples if settings.default else MOST
    return settings(max_examples=max(count, usual) if usual > MOST else min(count, MOST), deadline=None)
