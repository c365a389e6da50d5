"""Justification: schedule backwards in time as late as possible, then forwards again, in the order of what came out.

Each pass is a list schedule whose priorities are the times of the pass before, so operations that waited without need
move to where they belong (double justification: Valls, Ballestin and Quintanilla 2005). A pass costs as much as a list
schedule; on large cases it gains what windows take minutes for. When a round brings nothing, the next one begins from
priorities that are a little out of order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from pipesched.core.listsched import list_schedule
from pipesched.core.tasks import reversed_graph
from pipesched.errors import NoSchedule
from pipesched.solver.case import Case
from pipesched.solver.portfolio import Room, listed, rooms
from pipesched.solver.search import Find, Search

SOURCE = "justification"
FRUITLESS = 30  # rounds without success until it is enough


def justify(search: Search, place: int, seconds: float) -> None:
    """Improve the best schedule of a case by passes back and forth, within each way to share out the budget in turn."""
    case, find = search.cases[place], search.finds[place]
    if find is None or find.schedule.plan.pairs:
        return
    random, until = Random(search.limits.seed), search.seconds + seconds
    longest, every = max(case.graph.durations), rooms(case)
    best, fruitless = list(find.schedule.starts), 0
    while fruitless < FRUITLESS and place in search.open and search.seconds < until:
        noise = 0 if fruitless < len(every) else longest * random.randint(1, 8)
        fruitless += 1
        for found in _round(case, every[fruitless % len(every)], best, noise, random):
            if search.offer(place, found):
                best, fruitless = list(found.schedule.starts), 0


def _round(case: Case, room: Room, starts: Sequence[int], noise: int, random: Random) -> Iterator[Find]:
    """A pass back and a pass forth."""
    graph, last = reversed_graph(room.graph), len(case.graph) - 1
    latest = [-starts[last - task] - graph.durations[task] for task in range(len(graph))]
    if noise:
        latest = [key + random.randint(0, noise) for key in latest]
    try:
        back = list_schedule(graph, priority=latest, caps=room.caps, owners=case.owners[::-1]).starts
    except NoSchedule:
        return
    late = [-back[last - task] - case.graph.durations[task] for task in range(len(graph))]
    yield Find(SOURCE, case.replay(late))
    yield from listed(case, SOURCE, room, late)
