"""The shortest schedule of a task graph without memory: bounds, list schedules, and a search for what they leave open.

The stages, each only if the ones before leave a gap: bounds; list schedules; each improved backwards and forwards;
bounds that count the resources; CP-SAT with intervals, if the gap is wide; a search at the horizon of the bound,
which it raises tick by tick, or meets; the same one tick below the best schedule; CP-SAT with intervals again, which
needs no horizon.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from time import monotonic

from pipesched.core.bounds import critical_path, energy, sharpened
from pipesched.core.branching import HorizonSearch, Margins, columns_of, state
from pipesched.core.cpsat import Limits, TaskModel
from pipesched.core.listsched import Listing, back_and_forth, by_rules, by_tails, length_of
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import heads, tails

MOST_SHARPENED = 500  # tasks; sharpened bounds cost up to their cube
FEW_TICKS = 5  # of a gap that is soon closed tick by tick; CP-SAT with intervals comes first where it is wider
FIRST_SECONDS, FIRST_PART = 0.05, 0.3  # of that search: for each tick of the gap, and at most a part of the time
MOST_COLUMNS = 50_000  # of a relaxation that is worth its memory; it takes half a minute to solve
FEW_COLUMNS = 15_000  # some seconds
PART, PART_OF_MANY = 0.99, 0.75  # of the time left, for all horizons: few and small ones, or others
PART_OF_ONE = 0.95  # of the time left for horizons, for one of them


@dataclass(frozen=True)
class Optimum:
    """The best schedule of a search, its length, the best bound, and the method of each. Times are in ticks."""

    starts: Sequence[int]
    length: int
    bound: int
    method: str  # what made the schedule
    proof: str  # what gave the bound
    stopped_by: str = ""  # time or interrupt, when a gap was left

    @property
    def is_proved(self) -> bool:
        """Whether no schedule is shorter."""
        return self.length == self.bound

    @property
    def is_open(self) -> bool:
        """Whether a gap is left, and nothing has ended the search."""
        return not self.is_proved and not self.stopped_by

    def raised(self, bound: int, proof: str) -> Optimum:
        """Return this with `bound`, if that is better."""
        return replace(self, bound=bound, proof=proof) if bound > self.bound else self


def lower_bound(graph: TaskGraph) -> tuple[int, str]:
    """Return the larger of critical path and energy bound, in ticks, and its name."""
    before, after = heads(graph), tails(graph)
    return max((critical_path(graph), "critical path"), (energy(graph, before, after), "energy"), key=itemgetter(0))


def shortest(graph: TaskGraph, limits: Limits) -> Optimum:
    """Return the shortest schedule that `limits` allow to find, and what is proved about it.

    The search goes on until the gap is closed, whatever gap `limits` allow. The clock decides when each method has its
    turn, so that answers need not repeat. OR-Tools is loaded only when bounds and list schedules disagree.
    """
    begin = monotonic()
    bound, proof = lower_bound(graph)
    best = Optimum((), sum(graph.durations) + critical_path(graph) + 1, bound, "", proof)
    best = _better(graph, best, by_rules(graph))
    if not best.is_proved:
        best = _better(graph, best, back_and_forth(graph))
    if best.is_proved:
        return best
    before, after = heads(graph), tails(graph)
    if len(graph) <= MOST_SHARPENED:
        before, after = sharpened(graph)
        bound = max(energy(graph, before, after), *map(sum, zip(before, graph.durations, after, strict=True)))
        best = best.raised(bound, "sharpened energy")
        best = best if best.is_proved else _better(graph, best, by_tails(graph, after))
    if best.is_proved:
        return best
    best = _searched(Margins(graph, before, after), best, limits, begin)
    return replace(best, stopped_by="time") if best.is_open else best


def _better(graph: TaskGraph, best: Optimum, listings: Iterable[Listing]) -> Optimum:
    """Return `best` or the best of `listings`, which are made until one meets the bound."""
    for starts, method in listings:
        length = length_of(graph, starts)
        if length < best.length:
            best = replace(best, starts=starts, length=length, method=method)
        if best.is_proved:
            break
    return best


def _searched(margins: Margins, best: Optimum, limits: Limits, begin: float) -> Optimum:
    """Search by horizons, and by CP-SAT with intervals: first where the gap is wide, and last where any is left."""

    def left(share: float = 1) -> float:
        return max(limits.seconds - (monotonic() - begin), 0.01) * share

    try:
        gap = best.length - best.bound
        if gap > FEW_TICKS:
            best = _by_intervals(margins, best, limits._replace(seconds=min(FIRST_SECONDS * gap, left(FIRST_PART))))
        columns = columns_of(margins.within(best.length))
        if best.is_open and columns < MOST_COLUMNS:
            is_easy = columns < FEW_COLUMNS and best.length - best.bound <= FEW_TICKS
            best = _by_horizons(margins, best, limits, monotonic() + left(PART if is_easy else PART_OF_MANY))
        return _by_intervals(margins, best, limits._replace(seconds=left())) if best.is_open else best
    except KeyboardInterrupt:
        return replace(best, stopped_by="interrupt")


def _by_horizons(margins: Margins, best: Optimum, limits: Limits, deadline: float) -> Optimum:
    """Search horizons from the bound upwards as long as they are refuted, then from the best schedule downwards."""
    tried = -1
    for is_upwards in (True, False):
        while best.is_open and (horizon := best.bound if is_upwards else best.length - 1) != tried:
            left = deadline - monotonic()
            if left <= 0:
                return best
            best, tried = _within(margins, best, horizon, limits._replace(seconds=left * PART_OF_ONE)), horizon
    return best


def _within(margins: Margins, best: Optimum, horizon: int, limits: Limits) -> Optimum:
    """Refute `horizon`, which raises the bound, or find a schedule within it."""
    search = HorizonSearch(margins.graph, margins.within(horizon), limits)
    try:
        for listing in search.run():
            best = _better(margins.graph, best, [listing])
            if best.length <= horizon:
                break
    except KeyboardInterrupt:
        return replace(best, stopped_by="interrupt")
    if search.refuted_by:
        best = best.raised(horizon + 1, f"no schedule of {horizon} ({search.refuted_by})")
    return replace(best, stopped_by="interrupt") if search.is_interrupted and not best.is_proved else best


def _by_intervals(margins: Margins, best: Optimum, limits: Limits) -> Optimum:
    """Look for a shorter schedule, from the best one, and for a higher bound."""
    model = TaskModel()
    state(model, margins.graph, margins.within(best.length))
    model.shortest(margins.after, best.bound, best.length)
    model.hint(best.starts)
    answer = model.solve(limits)
    if answer.starts:
        best = _better(margins.graph, best, [Listing(answer.starts, "CP-SAT")])
    best = best.raised(min(answer.bound, best.length), "CP-SAT")
    return replace(best, stopped_by="interrupt") if answer.interrupted and not best.is_proved else best
