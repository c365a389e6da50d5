"""Better places for side work of small problems: some of it is taken out, and put in again.

That is large neighbourhood search (Shaw 1998); nothing but a count of rounds ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pipesched.core.clock import look
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.schedule import Schedule
from pipesched.schedulers.side_work.insertion import WAYS, SideInsertion

MOST_ROUNDS = 120
MOST_SLOTS = 60_000  # in all rounds
FEWEST_ROUNDS = 20  # with fewer it is not worth its time
PART = 6  # microbatches that are taken out at once, at most


def improved(
    insertion: SideInsertion, best: Schedule, is_better: Callable[[Schedule, Schedule], bool]
) -> Schedule:
    """Return the best schedule that is found from this one on, or itself."""
    rounds = min(MOST_ROUNDS, MOST_SLOTS // len(best.start_ticks))
    random, items, count = Random(0), len(insertion.problem.side), insertion.problem.microbatches
    here = best
    for _ in range(rounds if rounds >= FEWEST_ROUNDS else 0):
        look()
        size = 1 + int(random.random() * min(PART, count))
        first, item = int(random.random() * count), int(random.random() * items)
        some = {(item, (first + one) % count) for one in range(size)}
        way = WAYS[int(random.random() * len(WAYS))]
        try:
            found = insertion.again(here, some, way)
        except InvalidSchedule:
            continue
        if is_better(found, best):
            best = found
        if found.makespan_ticks <= here.makespan_ticks and (found.fits or not here.fits):
            here = found
    return best
