"""What the orders of algorithms have in common, whatever the costs: bounds and the order of a search rest on it."""

from __future__ import annotations

from pipesched.schedulers.family import Family

# Algorithms whose orders follow from the numbers of devices, stages and microbatches alone, and those among them that
# never split a backward. Tests hold both against the registry.
SETTLED = (
    "sequential", "naive", "1f1b", "eager-1f1b", "1f1b-overlap", "interleaved", "interleaved-overlap", "looped-bfs",
    "grouped-interleaved", "gis-h", "zb-h1", "zb-h2", "interleaved-zb", "dualpipe", "dualpipe-v", "chimera",
)  # fmt: skip
WHOLE = (
    "sequential", "naive", "1f1b", "eager-1f1b", "1f1b-overlap", "interleaved", "interleaved-overlap", "looped-bfs",
    "grouped-interleaved", "gis-h", "1f1b-v", "chimera", "hanayo",
)  # fmt: skip
BOTH_WAYS = "bidirectional"


def copies_of(family: Family) -> int:
    """Return how many copies of the weights there are, over all devices of a pipeline."""
    return 2 if family.placement == BOTH_WAYS else 1
