"""Justification: list scheduling backwards in time and forwards again, by the times of the pass before.

Operations that waited without need move up so (double justification: Valls, Ballestin and Quintanilla 2005). A pass
costs as much as a list schedule; on large cases it gains what windows take minutes for. When a round gains nothing, the
next one begins from slightly disturbed priorities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits
from pipesched.core.listsched import list_schedule
from pipesched.core.tasks import reversed_graph
from pipesched.errors import NoSchedule
from pipesched.pipeline.schedule import Schedule
from pipesched.solver.case import Candidate, Case
from pipesched.solver.portfolio import Pools, listed, pools

SOURCE = "justification"


def justify(case: Case, schedule: Schedule, limits: Limits, clock: Clock) -> Iterator[Candidate]:
    """Yield ever better schedules of a case by passes back and forth, under each choice of memory pools in turn."""
    random, policy = Random(limits.seed), case.policy.justification
    longest, every = max(case.graph.durations), pools(case)
    best, least, fruitless = list(schedule.start_ticks), case.value(schedule), 0
    while fruitless < policy.fruitless and not clock.is_over:
        noise = 0 if fruitless < len(every) else longest * random.randint(1, policy.noise)
        fruitless += 1
        for candidate in _round(case, every[fruitless % len(every)], best, noise, random):
            value = case.value(candidate.schedule)
            if value < least and candidate.schedule.fits:
                best, least, fruitless = list(candidate.schedule.start_ticks), value, 0
                yield candidate


def _round(case: Case, choice: Pools, starts: Sequence[int], noise: int, random: Random) -> Iterator[Candidate]:
    """Yield the schedules of a pass backwards and a pass forwards."""
    graph, last = reversed_graph(choice.graph), len(case.graph) - 1
    latest = [-starts[last - task] - graph.durations[task] for task in range(len(graph))]
    if noise:
        latest = [key + random.randint(0, noise) for key in latest]
    owners = case.index.owners[::-1]
    try:
        back = list_schedule(graph, priority=latest, capacities=choice.capacities, owners=owners).starts
    except NoSchedule:
        return
    late = [-back[last - task] - case.graph.durations[task] for task in range(len(graph))]
    yield Candidate(SOURCE, case.replay(late))
    yield from listed(case, SOURCE, choice, late)
