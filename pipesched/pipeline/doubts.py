"""What is legal in a problem, and probably not meant."""

from __future__ import annotations

from collections.abc import Iterator

from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import plain


def doubts(problem: Problem) -> Iterator[str]:
    """Yield a sentence for each value that is legal and unlikely: a latency above every forward, say."""
    latency, forward = max(problem.costs.p2p, default=0), max(problem.costs.forward)
    if forward and latency > forward:
        yield f"`costs.p2p` {plain(latency)} is longer than a forward ({plain(forward)}): is it in the same unit?"
