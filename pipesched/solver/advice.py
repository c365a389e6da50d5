"""Advice after a solve: each change is tried with heuristics alone; those that help are listed.

`advised` is where one begins: `changes` of a request, each searched, those with a shorter makespan in the report.
A solve with a change tries all schedules that are tried here, and improves on them, so it does no worse if its time is
enough for them. What is tried here comes first there; the rest of the heuristics are tried only where a solve has time
for all of them. Each change is a function of the tuple CHANGES; last stands what a change is as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from itertools import chain
from math import ceil, inf
from typing import Any, NamedTuple, TypeVar

from pipesched.core.clock import Clock, TimeIsUp, deadline
from pipesched.errors import PipeschedError
from pipesched.pipeline.bounds.memory import require_offload, require_recompute
from pipesched.pipeline.layers.layers import GIVEN, PARTS, Amount, LayerCosts, Layers
from pipesched.pipeline.layers.recut import balanced_for, can_be_cut, cut_again, fuse, open_cut, recut
from pipesched.pipeline.plan.step import SideItem, item_values
from pipesched.pipeline.problem.costs import (
    AVERAGED,
    HALVES,
    PER_STAGE,
    SIZES,
    STATIC_PARTS,
    STEP_TIMES,
    TRANSFER_TIMES,
    Costs,
    Entry,
    Memory,
)
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.pipeline.problem.placement import PLACEMENTS, Placement, named_placement, placement_name
from pipesched.pipeline.problem.problem import Problem, differs, letters_of
from pipesched.pipeline.problem.quantities import Exact, canonical, in_units, plain, rounded, to_fraction
from pipesched.pipeline.problem.units import FORWARD_ONLY, SHARED
from pipesched.results.outcome import Advice, Outcome, SolveReport, Status, StoppedBy
from pipesched.solver.feasible import variants_of
from pipesched.solver.request import SolveRequest
from pipesched.solver.search import Search, quick_rounds
from pipesched.solver.variant import Candidate

Record = TypeVar("Record", Costs, Memory, Layers, LayerCosts, SideItem)
KEEPS_ALL = ("improve", "periodic")  # methods that recompute and offload do not go with


def advised(outcome: Outcome, request: SolveRequest, tell: Callable[[str], None]) -> Outcome:
    """Return the outcome of a solve with advice in its report, where there is any. `tell` is told of each step."""
    report = outcome.report
    allowed = None if report is None else _allowance(request, report)
    if report is None or allowed is None:
        return outcome
    clock, left = Clock(allowed[0], request.stop), allowed[1]
    makespan, found, is_tried = Fraction(report.value_ticks, report.bound.per_unit), list[Advice](), False
    with suppress(KeyboardInterrupt):  # what is known by then counts
        for change in changes(request):
            if change.operations > min(left, 0.5 * request.policy.advice.a_second * clock.left):  # one of all schedules
                break
            if change.tightens and report.status == Status.OPTIMAL:
                continue
            tell(f"advice, {change.name}")
            with suppress(PipeschedError):  # no microbatch fits, or no placement suits
                search, left = _searched(change, request, clock, left, makespan)
                is_tried = True
                ticks = ceil(search.value * (1 + Fraction(request.limits.gap)))  # at which a solve may stop
                value = Fraction(ticks, search.per_unit)
                if search.best is not None and value < makespan:
                    least, less = in_units(ticks, search.per_unit), plain(value - makespan)
                    found.append(Advice(change.name, least, less, change.solve, change.arguments))
    found.sort(key=lambda advice: advice.makespan_at_most)
    made = tuple(found) if is_tried else None
    return replace(outcome, report=replace(report, advice=made, seconds=report.seconds + clock.seconds))


def _searched(
    change: AdvisedChange, request: SolveRequest, clock: Clock, left: float, makespan: Fraction
) -> tuple[Search, float]:
    """Return what heuristics find after a change, and how many operations of `left` may be scheduled after that.

    What a solve tries first comes first, unless bounds say that none of it is below a makespan. Where the operations
    are not counted, and a solve has time for them, all heuristics follow. Raises PipeschedError.
    """
    problem = replace(change.problem, costs=replace(change.problem.costs, split=change.split))
    variants = variants_of(problem, request.placement, change.allowed, request.policy)
    search = Search(variants, request.limits, clock)
    if change.operations <= request.policy.portfolio.slow or left == inf:
        with suppress(TimeIsUp), deadline(clock):
            for number, variant in enumerate(variants):
                search.raise_bound(number, variant.bound())
                left -= len(variant.graph)
    if Fraction(search.bound.ticks, search.per_unit) >= makespan:
        return search, left

    def counted(candidates: Iterator[Candidate]) -> Iterator[Candidate]:
        nonlocal left
        for candidate in candidates:
            yield candidate
            left -= candidate.schedule.plan.index.size
            if left <= 0:
                return

    for number, candidates in quick_rounds(variants, range(len(variants))):
        if left > 0 and not clock.is_over and (search.best is None or number in search.open):
            search.try_all(number, counted(candidates), clock, heuristic=True)
    # all heuristics take at most 4 seconds for 200 operations, and grow with the square
    seconds, rest = sum(4.0 * (len(variant.graph) / 200) ** 2 for variant in variants), clock.part(0.25 * clock.left)
    for number in search.open if left == inf and seconds <= 0.25 * search.limits.seconds else ():  # the best's first
        one = variants[number]
        search.try_all(number, chain(one.named_candidates(), one.ruled_candidates()), rest)
    return search, left


def kept_seconds(request: SolveRequest) -> float:
    """Return the seconds that are kept for advice: 0 where there is none, and where they are too few for one schedule.

    It compares makespans. Where a command has kept some of its limit for itself, that limit says whether it is short.
    """
    whole = request.whole_limit
    is_short = (request.time_limit if whole is None else whole) < 1.0
    if request.advice is False or request.objective != "makespan" or is_short:
        return 0.0
    problem, seconds = request.split_problem, min(request.policy.advice.part * request.limits.seconds, 60.0)
    operations = len(problem.letters) * problem.stages * problem.microbatches * problem.slices.count
    return 0.0 if operations > 0.5 * request.policy.advice.a_second * seconds and not request.advice else seconds


def _allowance(request: SolveRequest, report: SolveReport) -> tuple[float, float] | None:
    """Return the seconds that advice may take, and the operations of all its schedules; None where there is none."""
    policy, kept = request.policy.advice, kept_seconds(request)
    if not kept or report.stopped_by == StoppedBy.INTERRUPT:
        return None
    left = max(request.limits.seconds - report.seconds, 0.0)
    if report.seconds >= 10.0:
        most = kept if request.advice else policy.part * report.seconds
        return min(most, kept, left), inf
    operations = kept * policy.a_second
    is_brief = not request.advice and report.stopped_by != StoppedBy.TIME_LIMIT
    return left, min(operations, policy.brief) if is_brief else operations


class AdvisedChange(NamedTuple):
    """A change: its name, and the problem and what is allowed then."""

    name: str
    problem: Problem
    split: bool
    allowed: MemorySavings
    solve: Mapping[str, Any] = {}  # arguments of `solve` that make the change
    arguments: Mapping[str, Any] = {}  # arguments of `make_problem` that make it
    tightens: bool = False  # it only takes something away, which is of no use where the answer is proved

    @property
    def operations(self) -> int:
        """The operations of a step, as many as are computed."""
        problem, letters = self.problem, letters_of(self.problem.mode, split=self.split)
        return len(letters) * problem.stages * problem.microbatches * problem.slices.count


def changes(request: SolveRequest) -> Iterator[AdvisedChange]:
    """Yield the changes that make sense for a request."""
    for make in CHANGES:
        try:
            change = make(request)
        except PipeschedError:  # too large, no such cut, or no cost of an offload
            continue
        if change is not None:
            yield change


def _other_backward(request: SolveRequest) -> AdvisedChange | None:
    """Return halves in place of whole backwards; or whole ones, where each half has the overhead of a slice."""
    problem, split = request.problem, not request.splits_backward
    if request.chooses or (problem.mode == FORWARD_ONLY if split else not problem.slices.overhead):
        return None
    name = "split backward" if split else "whole backward"
    return AdvisedChange(name, problem, split, request.allowed, {"split_backward": split})


def _saving(name: str, require: Callable[[Problem], None], request: SolveRequest) -> AdvisedChange | None:
    """Return the change that allows to save memory by `name`, where that may help, and goes with the method."""
    if getattr(request.allowed, name) or request.problem.memory.budget is None or request.method in KEEPS_ALL:
        return None
    require(request.problem)
    allowed = request.allowed._replace(**{name: True})
    return AdvisedChange(name, request.problem, request.splits_backward, allowed, {name: True})


def _budget(name: str, sign: int, request: SolveRequest) -> AdvisedChange | None:
    memory, grains = request.problem.memory, request.problem.grains
    one = sign * Fraction(max(grains.largest["activation"]), grains.per_unit)  # of the largest microbatch
    if memory.budget is None or not one:
        return None
    budget = list[Exact]()
    for limit in memory.budget:  # one of many digits is rounded up to a few, as it is typed
        amount = to_fraction(limit) + one
        scale = 10 ** max(6 - len(str(int(amount))), 0)
        budget.append(canonical(amount if rounded(amount) == amount else Fraction(ceil(amount * scale), scale)))
    changed = cut_again(replace(request.problem, memory=replace(memory, budget=tuple(budget))))
    return _of_problem(name, request, changed)._replace(tightens=sign < 0)


def _chunks(word: str, count: int, request: SolveRequest) -> AdvisedChange | None:
    problem, stages = request.problem, count * request.problem.devices
    if stages == problem.stages or count in (request.chunks or ()) or request.start is not None:
        return None
    if any(len(getattr(problem.slices, key)) > 1 for key in SHARED):  # parts of the work are given by stage
        return None
    changed = _with_stages(problem, stages)
    return None if changed is None else _of_problem(f"{word} chunks a device", request, changed)


def _with_stages(problem: Problem, stages: int) -> Problem | None:
    """Return `problem` with its model as so many stages: cut anew, or fused, on the placement of its name, or None."""
    free = replace(problem, placement=None)
    if problem.placement is None or problem.placement == Placement(tuple(range(problem.devices))):
        if can_be_cut(free):
            return open_cut(free, stages)
        return fuse(free, stages) if problem.stages % stages == 0 else None
    for name in PLACEMENTS:
        try:
            named = named_placement(name, problem.devices, problem.stages)
            target = named_placement(name, problem.devices, stages)
        except PipeschedError:
            continue
        if named == problem.placement:
            if can_be_cut(free):
                return recut(free, target)
            return replace(fuse(free, stages), placement=target) if problem.stages % stages == 0 else None
    return None


def _microbatches(factor: Fraction, request: SolveRequest) -> AdvisedChange | None:
    count = request.problem.microbatches * factor
    if count.denominator != 1 or request.start is not None or request.problem.cutter is not None:
        return None
    if differs(request.problem):  # they are given one by one
        return None
    changed = with_microbatches(request.problem, int(count))
    return _of_problem(f"{count} microbatch{'es' * (count != 1)}", request, changed)


def with_microbatches(problem: Problem, count: int) -> Problem:
    """Return `problem` with its global batch in `count` microbatches. Raises ConfigError where that is too large.

    A microbatch of half the size takes half the time and half the memory, which is exact where time is in proportion
    to size. The latency between devices is a part that depends on the size and a part that does not, in shares that
    are not known. So it is taken at its largest: as it is for smaller microbatches, in proportion for larger ones.
    Static memory and what the step costs beside its passes do not change; side work is scaled as passes are.
    """
    factor = Fraction(problem.microbatches, count)
    layers, costs = problem.layers, _scaled(problem.costs, factor, PER_STAGE)
    if layers is not None:
        parts = {key: _scaled(getattr(layers, key), factor, (*PER_STAGE, "activation")) for key in PARTS}
        layers = replace(_scaled(layers, factor, ()), **parts)
        costs = replace(costs, resolution=layers.resolution)
    side = tuple(_scaled(item, factor, ("forward", "backward", "activation", "output")) for item in problem.side)
    memory = _scaled(problem.memory, factor, ("activation",))
    return balanced_for(replace(problem, microbatches=count, costs=costs, memory=memory, layers=layers, side=side))


def _scaled(record: Record, factor: Fraction, keys: Sequence[str]) -> Record:
    """Return a record with what it has of these keys scaled, and its latency by no less than 1."""
    amounts = {key: _product(getattr(record, key), factor) for key in keys}
    if hasattr(record, "p2p"):
        amounts["p2p"] = _product(record.p2p, max(factor, Fraction(1)))
    return replace(record, **amounts)


def _product(amount: Any, factor: Fraction) -> Any:
    """Return an amount, or each of a tuple or of a tuple of tuples, by a factor; None where there is none."""
    if isinstance(amount, tuple):
        return tuple(_product(one, factor) for one in amount)
    return None if amount is None else canonical(to_fraction(amount) * factor)


def _of_problem(name: str, request: SolveRequest, problem: Problem) -> AdvisedChange:
    problem = as_typed(request.problem, problem)
    arguments = changed_arguments(request.problem, problem)
    for saving, unused in (("recompute", ("recompute", "checkpoint")), ("offload", ("offload", "reload"))):
        if not getattr(request.allowed, saving):
            arguments = {key: value for key, value in arguments.items() if key not in unused}
    return AdvisedChange(name, problem, request.splits_backward, request.allowed, {}, arguments)


CHANGES: tuple[Callable[[SolveRequest], AdvisedChange | None], ...] = (
    _other_backward,
    partial(_budget, "one activation more", 1),
    partial(_chunks, "two", 2),
    partial(_chunks, "four", 4),
    partial(_microbatches, Fraction(1, 2)),
    partial(_microbatches, Fraction(2)),
    partial(_saving, "recompute", require_recompute),
    partial(_saving, "offload", require_offload),
    partial(_budget, "one activation less", -1),
)

MEMORY = ("activation", "retain", "checkpoint", "static", *STATIC_PARTS, "budget")
DEFAULTS = {
    "p2p": 0,
    "retain": 1,
    "checkpoint": 0,
    "static": 0,
    **dict.fromkeys(STATIC_PARTS, 0),
}  # may be lists, one a stage


def changed_arguments(before: Problem, after: Problem) -> dict[str, Any]:
    """Return the parameters of make_problem that are others for `after`: one number where all stages have the same.

    Of another number of stages, all that may have been given as a list is among them, if it is no default. A problem
    that was derived from a model has `chunks` instead of `stages`.
    """
    old, new = dict(_arguments(before)), dict(_arguments(after))
    if before.stages != after.stages:
        old |= DEFAULTS
    return {key: value for key, value in new.items() if value is not None and value != old.get(key)}


def _arguments(problem: Problem) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of make_problem that a change may set, with their values in a problem."""
    yield "microbatches", problem.microbatches
    yield "budget", _one_or_list(problem.memory.budget or ())
    yield "side", [item_values(item, typed) for item in problem.side] or None
    if problem.cutter is not None:
        yield "chunks", problem.stages // problem.devices
        return
    yield "stages", problem.stages
    yield "placement", "auto" if problem.placement is None else placement_name(problem.placement, problem.devices)
    layers = problem.layers
    yield "p2p", _one_or_list(problem.costs.p2p if layers is None or layers.p2p is None else layers.p2p)
    own = [key for key in AVERAGED if layers is None or getattr(layers.layer, key) is None]
    yield from ((key, _one_or_list(getattr(problem.memory, key))) for key in own)
    costs, said = problem.costs, problem.costs.given_backward
    if layers is not None:
        yield from ((key, _part(getattr(layers, key), said)) for key in layers.parts_said)
        if layers.rule == GIVEN:
            yield "layout", layers.layout_said
        return
    for key in ("forward", *said, "recompute", "overlap", *TRANSFER_TIMES, *STEP_TIMES):
        yield key, _one_or_list(getattr(costs, key) or ())
    yield from ((key, _one_or_list(getattr(problem.memory, key))) for key in SIZES)


def _part(part: LayerCosts, said: Sequence[str]) -> dict[str, Any]:
    """Return what a layer costs, by the keys of make_problem's parameter; of the backward what is said."""
    others = (field.name for field in fields(part) if field.name not in (*HALVES, "whole"))
    given = {key: getattr(part, key) for key in (*others, *said)}
    return {
        key: typed(value) for key, value in given.items() if value is not None and (value or key not in STATIC_PARTS)
    }


def _one_or_list(values: Sequence[Entry]) -> Any:
    """Return one number where all are equal, None where there is none, else a list."""
    numbers = [*map(typed, values)]
    return None if not numbers else numbers[0] if all(number == numbers[0] for number in numbers) else numbers


def typed(value: Amount) -> Any:
    """Return a number, or each of a list or a table, as a config has it: a decimal of as many digits as count."""
    if isinstance(value, tuple):
        return [*map(typed, value)]
    return plain(canonical(rounded(to_fraction(value))))


def as_typed(before: Problem, after: Problem) -> Problem:
    """Return a changed problem with the numbers that are typed for it, where those of stages are others than before."""
    if after.layers is not None or after.cutter is not None:
        return after
    costs = _typed(before.costs, after.costs, (*PER_STAGE, "p2p", *STEP_TIMES))
    return replace(after, costs=costs, memory=_typed(before.memory, after.memory, MEMORY))


def _typed(before: Record, after: Record, keys: Iterable[str]) -> Record:
    """Return a record with the typed numbers of those of these columns that changed."""
    pairs = {key: (getattr(before, key), getattr(after, key)) for key in keys}
    changed: dict[str, Any] = {key: tuple(map(typed, new)) for key, (old, new) in pairs.items() if new and new != old}
    return replace(after, **changed)
