"""Better places for side work of small problems: some that the makespan waits for is taken out, and put in again.

That is large neighbourhood search (Shaw 1998); nothing but a count of rounds ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pipesched.core.clock import look
from pipesched.core.tasks import reversed_graph
from pipesched.core.timing import earliest_times
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.bounds import lower_bound
from pipesched.pipeline.schedule import Schedule
from pipesched.schedulers.side_work.insertion import WAYS, Part, SideInsertion

MOST_ROUNDS = 24
MOST_SLOTS = 6_000  # in all rounds
FEWEST_ROUNDS = 6  # with fewer it is not worth its time
PARTS = 4  # of the side work that are taken out at once, at most


def improved(insertion: SideInsertion, best: Schedule, is_better: Callable[[Schedule, Schedule], bool]) -> Schedule:
    """Return the best schedule that is found from this one on, or itself."""
    rounds = min(MOST_ROUNDS, MOST_SLOTS // len(best.start_ticks))
    random, here = Random(0), best
    if rounds < FEWEST_ROUNDS or best.makespan_ticks == lower_bound(best).ticks:
        return best
    tight = _tight(best)
    for turn in range(rounds):
        look()
        if not tight:
            break
        some = frozenset(random.sample(tight, min(1 + turn % PARTS, len(tight))))
        try:
            found = insertion.again(here, some, WAYS[turn // PARTS % len(WAYS)])
        except InvalidSchedule:
            continue
        if is_better(found, best):
            best = found
        if found.makespan_ticks <= here.makespan_ticks and (found.fits or not here.fits):
            here, tight = found, _tight(found)
    return best


def _tight(schedule: Schedule) -> list[Part]:
    """Return the side work that cannot end later without moving the end of the schedule."""
    graph, index = schedule.graph, schedule.plan.index
    last, whole = len(graph) - 1, schedule.last_ticks
    machines = [[last - one for one in reversed(order)] for order in schedule.plan.machines]
    tails = earliest_times(reversed_graph(graph), machines).starts
    found: dict[Part, None] = {}
    for kind in "EG":
        for number in index.of_kind(kind):
            if schedule.end_ticks[number] + tails[last - number] == whole:
                op = index.op(number)
                found[op.stage, op.microbatch] = None
    return [*found]
