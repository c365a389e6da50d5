"""The shortest schedule of a task graph without memory: bounds, list schedules, and CP-SAT for what they leave open.

The stages, each only if the ones before leave a gap: bounds; list schedules; each improved backwards and forwards;
bounds that know of the resources; CP-SAT with intervals, for a better schedule; time-indexed CP-SAT at the horizon of
the bound, which it raises tick by tick, or meets; the same one tick below the best schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import cpu_count
from time import monotonic
from typing import NamedTuple

from pipesched.core.bounds import critical_path, energy, sharpened
from pipesched.core.cpsat import Answer, Limits, Model
from pipesched.core.listsched import list_schedule
from pipesched.core.paths import heads, tails
from pipesched.core.tasks import Edge, TaskGraph
from pipesched.core.timeindexed import TimeIndexed, terms

Rule = tuple[str, str]  # (priority, tie)
RULES: tuple[Rule, ...] = (
    ("alap", "pairing"),
    ("mobility", "pairing"),
    ("alap", "input"),
    ("mobility", "fifo"),
    ("successors", "dfs"),
    ("asap", "pairing"),
)
MOST_SHARPENED = 500  # tasks; sharpened bounds cost up to their cube
MOST_TERMS = 600_000  # of a time-indexed model that is worth its memory
FIRST_SHARE, SHARE, LAST_SHARE = 0.2, 0.6, 0.9  # of the time left: for intervals, a try tick by tick, the last try
STRATEGIES = 4  # workers on the time-indexed model, also on fewer cores: they search differently, and one is quick
FIRST_SECONDS = 0.7  # for intervals at first, for each tick of the gap; what they prove, they mostly prove by then


@dataclass(frozen=True)
class Optimum:
    """The best schedule found, its length, the best bound, and what brought them about. Times in ticks."""

    starts: Sequence[int]
    length: int
    bound: int
    method: str  # what found the schedule
    proof: str  # what gave the bound
    stopped_by: str = ""  # time or interrupt, when a gap was left

    @property
    def is_proved(self) -> bool:
        """Whether no schedule is shorter."""
        return self.length == self.bound


def lower_bound(graph: TaskGraph) -> tuple[int, str]:
    """The largest of the bounds that cost nothing, and its name."""
    before, after = heads(graph), tails(graph)
    return max(
        (critical_path(graph), "critical path"), (energy(graph, before, after), "energy"), key=lambda one: one[0]
    )


def length_of(graph: TaskGraph, starts: Sequence[int]) -> int:
    """When the last result is out."""
    deliveries = graph.deliveries or [0] * len(graph)
    return max((sum(parts) for parts in zip(starts, graph.durations, deliveries, strict=True)), default=0)


def shortest(graph: TaskGraph, limits: Limits) -> Optimum:
    """The shortest schedule that `limits` allow. CP-SAT is loaded only when bounds and list schedules disagree."""
    begin = monotonic()
    bound, proof = lower_bound(graph)
    best = Optimum((), sum(graph.durations) + critical_path(graph) + 1, bound, "", proof)
    best = _better(graph, best, _listed(graph))
    if not best.is_proved:
        best = _better(graph, best, _back_and_forth(graph))
    if best.is_proved:
        return best
    before, after = heads(graph), tails(graph)
    if len(graph) <= MOST_SHARPENED:
        before, after = sharpened(graph)
        bound = max(energy(graph, before, after), *map(sum, zip(before, graph.durations, after, strict=True)))
        best = replace(best, bound=bound, proof="sharpened energy") if bound > best.bound else best
        best = best if best.is_proved else _better(graph, best, _listed_by_tails(graph, after))
    return best if best.is_proved else _solved(_Windows(graph, before, after), best, limits, begin)


def _better(graph: TaskGraph, best: Optimum, found: Iterable[tuple[Sequence[int], str]]) -> Optimum:
    """`best` or the best of `found`, looked at until one meets the bound."""
    for starts, method in found:
        length = length_of(graph, starts)
        if length < best.length:
            best = replace(best, starts=starts, length=length, method=method)
        if best.is_proved:
            break
    return best


def _listed(graph: TaskGraph) -> Iterator[tuple[Sequence[int], str]]:
    for priority, tie in RULES:
        yield list_schedule(graph, priority=priority, tie=tie).starts, f"list ({priority}, {tie})"


def _listed_by_tails(graph: TaskGraph, after: Sequence[int]) -> Iterator[tuple[Sequence[int], str]]:
    """By tails that know of the resources."""
    late = [-tail - duration for tail, duration in zip(after, graph.durations, strict=True)]
    for tie in ("pairing", "input", "most-descendants"):
        yield list_schedule(graph, priority=late, tie=tie).starts, f"list (sharpened tails, {tie})"


def _back_and_forth(graph: TaskGraph) -> Iterator[tuple[Sequence[int], str]]:
    """The list schedules' own orders as priorities, backwards and forwards in turn (Li and Willis 1992)."""
    mirrored = mirror(graph)
    for (priority, tie), (listed, _) in zip(RULES, _listed(graph), strict=True):
        starts: Sequence[int] = listed
        length = length_of(graph, starts) + 1
        while length_of(graph, starts) < length:
            length = length_of(graph, starts)
            for side in (mirrored, graph):
                late = [-start - time for start, time in zip(starts, graph.durations, strict=True)]
                starts = list_schedule(side, priority=late, tie="pairing").starts
            yield starts, f"list ({priority}, {tie}), improved back and forth"


def mirror(graph: TaskGraph) -> TaskGraph:
    """The graph with time running backwards (deliveries left out)."""
    edges = [Edge(edge.after, edge.before, edge.lag) for edge in graph.edges]
    return TaskGraph(graph.durations, graph.resources, graph.capacities, edges)


class _Windows(NamedTuple):
    """A graph with a head and a tail for each task, in ticks: when it may run within a horizon."""

    graph: TaskGraph
    before: Sequence[int]
    after: Sequence[int]

    def terms_within(self, horizon: int) -> int:
        """How large the time-indexed model is, about."""
        needs = zip(self.before, self.graph.durations, self.after, strict=True)
        return sum(terms(horizon - sum(need) + 1, need[1]) for need in needs)


def _solved(windows: _Windows, best: Optimum, limits: Limits, begin: float) -> Optimum:
    """CP-SAT in turns, until the gap is closed or the time is over."""

    def allowed(share: float, most: float = limits.seconds) -> Limits:
        return limits._replace(seconds=max(min((limits.seconds - monotonic() + begin) * share, most), 0.01))

    try:
        best = _by_intervals(windows, best, allowed(FIRST_SHARE, FIRST_SECONDS * (best.length - best.bound)))
        for attempt in (_at_the_bound, _one_tick_less):
            last = None
            while best.stopped_by == "time" and last != (best.bound, best.length):
                last = (best.bound, best.length)
                best = attempt(windows, best, allowed(LAST_SHARE if best.bound + 1 == best.length else SHARE))
        if best.stopped_by == "time":
            best = _by_intervals(windows, best, allowed(1))
    except KeyboardInterrupt:
        best = replace(best, stopped_by="interrupt")
    return best


def _by_intervals(windows: _Windows, best: Optimum, limits: Limits) -> Optimum:
    """Look for a shorter schedule, from the best one, and for a higher bound."""
    model = Model()
    state(model, *windows, best.length)
    model.shortest(windows.after, best.bound, best.length)
    model.hint(best.starts)
    answer = model.solve(limits)
    found = answer.starts and length_of(windows.graph, answer.starts) < best.length
    if found:
        best = replace(best, starts=answer.starts, length=length_of(windows.graph, answer.starts), method="CP-SAT")
    if answer.bound > best.bound:
        best = replace(best, bound=min(answer.bound, best.length), proof="CP-SAT")
    return replace(best, stopped_by="" if best.is_proved else _reason(answer, limits))


def _at_the_bound(windows: _Windows, best: Optimum, limits: Limits) -> Optimum:
    """Refute the horizon of the bound, which then is one tick too low, or find a schedule that meets it."""
    return _by_ticks(windows, best, best.bound, limits)


def _one_tick_less(windows: _Windows, best: Optimum, limits: Limits) -> Optimum:
    """Find a schedule one tick shorter, or prove that there is none."""
    return _by_ticks(windows, best, best.length - 1, limits)


def _by_ticks(windows: _Windows, best: Optimum, horizon: int, limits: Limits) -> Optimum:
    """Ask the time-indexed model for a schedule within `horizon`, if it is of a sane size."""
    if windows.terms_within(horizon) > MOST_TERMS:
        return best
    model = TimeIndexed()
    state(model, *windows, horizon)
    answer = model.solve(limits._replace(linearization=2, workers=limits.workers or max(STRATEGIES, cpu_count() or 1)))
    if answer.status == "infeasible":
        best = replace(best, bound=horizon + 1, proof=f"no schedule of {horizon} (time-indexed CP-SAT)")
    elif answer.starts:
        length = length_of(windows.graph, answer.starts)
        best = replace(best, starts=answer.starts, length=length, method="time-indexed CP-SAT")
    elif _reason(answer, limits) == "interrupt":
        raise KeyboardInterrupt
    return replace(best, stopped_by="" if best.is_proved else "time")


def _reason(answer: Answer, limits: Limits) -> str:
    """Why CP-SAT stopped with a gap: out of time, or asked to by the user (it catches Ctrl-C itself)."""
    return "time" if answer.seconds > 0.9 * limits.seconds - 0.05 else "interrupt"


def state(model: Model, graph: TaskGraph, before: Sequence[int], after: Sequence[int], horizon: int) -> None:
    """Say `graph` to a model: each task in its window within `horizon`, its precedences, the units of its resource."""
    for head, duration, tail in zip(before, graph.durations, after, strict=True):
        model.task(duration, head, horizon - tail - duration)
    for edge in graph.arrows():
        model.after(*edge)
    for resource, capacity in enumerate(graph.capacities):
        users = [task for task, home in enumerate(graph.resources) if home == resource and graph.durations[task]]
        if capacity == 1:
            model.one_at_a_time(users)
        elif len(users) > capacity:
            model.at_most(capacity, users, [1] * len(users))
