"""Further cuts near known ones, equal in the largest work of a device: one end of a chunk is moved by one item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipesched.estimation.cutting.costs import Costs, Ends, Judgement

TRIES = 600  # cuts that are judged


def with_near(costs: Costs, cuts: Sequence[Ends], best: Judgement, count: int) -> list[Ends]:
    """Return those of the cuts that are as good as `best` but for the largest chunk; with near ones, up to `count`."""
    found = {ends: None for ends in cuts if costs.judge(ends)[:2] == best[:2]}
    queue, seen, tries = [*found], {*cuts}, 0
    for ends in queue:
        for near in _moved(ends):
            if len(found) >= count or tries >= TRIES:
                return [*found]
            if near not in seen:
                seen.add(near)
                tries += 1
                if costs.judge(near)[:2] == best[:2]:
                    found[near] = None
                    queue.append(near)
    return [*found]


def _moved(ends: Ends) -> Iterator[Ends]:
    """Yield the cuts with one end moved by one item."""
    for stage in range(len(ends) - 1):
        begin = ends[stage - 1] if stage else 0
        for end in (ends[stage] + 1, ends[stage] - 1):
            if begin < end < ends[stage + 1]:
                yield (*ends[:stage], end, *ends[stage + 1 :])
