"""Advice after a solve: each change is tried with heuristics alone; those that help are listed.

A solve with a change tries all schedules that are tried here, and improves on them, so it does no worse if its time is
enough for them. What is tried here comes first there; the rest of the portfolio is tried only where a solve has time
for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from math import ceil, inf
from typing import Any, NamedTuple

from pipesched.core.clock import Clock, TimeIsUp, under
from pipesched.errors import PipeschedError
from pipesched.pipeline.costs import PER_STAGE, STEP_TIMES, Costs, Entry
from pipesched.pipeline.feeding import differs
from pipesched.pipeline.kinds import Allowed
from pipesched.pipeline.layers import GIVEN, OPTIONAL, SHARES, SIZES, Amount, LayerCosts, Layers
from pipesched.pipeline.memory import KEPT
from pipesched.pipeline.placement import PLACEMENTS, Placement, named_placement, placement_name
from pipesched.pipeline.problem import Problem, letters_of
from pipesched.pipeline.quantities import Exact, canonical, in_units, plain, rounded, to_fraction
from pipesched.pipeline.recut import balanced_for, can_be_cut, cut_again, fuse, open_cut, recut
from pipesched.pipeline.residences import require_offload, require_recompute
from pipesched.pipeline.step import SideItem
from pipesched.pipeline.step_arguments import item_values
from pipesched.pipeline.units import FORWARD_ONLY, SHARED
from pipesched.results.outcome import Advice, Outcome, SolveReport
from pipesched.results.status import Status, StoppedBy
from pipesched.solver.case import Candidate
from pipesched.solver.feasible import cases_of
from pipesched.solver.policy import AdvicePolicy
from pipesched.solver.request import SolveRequest
from pipesched.solver.search import Search, quick_rounds

HALVES = ("backward_input", "backward_weight")
MEMORY = ("activation", "retain", "checkpoint", "static", *KEPT, "budget")
DEFAULTS = {
    "p2p": 0,
    "retain": 1,
    "checkpoint": 0,
    "static": 0,
    **dict.fromkeys(KEPT, 0),
}  # of what may be a list, one a stage


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
    own = [key for key in SHARES if layers is None or getattr(layers.layer, key) is None]
    yield from ((key, _one_or_list(getattr(problem.memory, key))) for key in own)
    yield from _arguments_of_stages(problem) if problem.layers is None else _arguments_of_layers(problem)


def _arguments_of_stages(problem: Problem) -> Iterator[tuple[str, Any]]:
    costs, memory = problem.costs, problem.memory
    halves = HALVES if costs.split else ("backward",)
    for key in ("forward", *halves, "recompute", "overlap", "offload", "reload", *STEP_TIMES):
        yield key, _one_or_list(getattr(costs, key) or ())
    yield from ((key, _one_or_list(getattr(memory, key))) for key in SIZES)


def _arguments_of_layers(problem: Problem) -> Iterator[tuple[str, Any]]:
    layers, split = problem.layers, problem.costs.split
    assert layers is not None
    yield from ((key, _part(getattr(layers, key), split=split)) for key in ("layer", "first", "last"))
    if layers.rule == GIVEN:
        yield "layout", [*layers.layout]


def _part(part: LayerCosts, *, split: bool) -> dict[str, Any]:
    """Return what a layer costs, by the keys of make_problem's parameter."""
    given = {field.name: getattr(part, field.name) for field in fields(part)}
    if not split:
        del given["backward_input"], given["backward_weight"]
        given["backward"] = part.backward
    numbers = {key: value for key, value in given.items() if value is not None and (value or key not in KEPT)}
    return {key: typed(value) for key, value in numbers.items()}


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
    costs = {
        key: column for key in (*PER_STAGE, "p2p", *STEP_TIMES) if (column := _typed(before.costs, after.costs, key))
    }
    memory = {key: column for key in MEMORY if (column := _typed(before.memory, after.memory, key))}
    return replace(after, costs=replace(after.costs, **costs), memory=replace(after.memory, **memory))


def _typed(before: object, after: object, key: str) -> Any:
    """Return the typed numbers of a column that changed, None for one that did not."""
    old, new = getattr(before, key), getattr(after, key)
    return None if new is None or new == old else tuple(map(typed, new))


KEEPS_ALL = ("improve", "periodic")  # methods that recompute and offload do not go with


class AdvisedChange(NamedTuple):
    """A change: its name, the problem and what is allowed then, and which arguments of `solve` and `make_problem`
    make it.

    `tightens` says that it only takes something away, which is of no use where the answer is proved.
    """

    name: str
    problem: Problem
    split: bool
    allowed: Allowed
    solve: Mapping[str, Any] = {}
    arguments: Mapping[str, Any] = {}
    tightens: bool = False

    @property
    def operations(self) -> int:
        """The operations of a step, as many as are computed."""
        return count_operations(self.problem, split=self.split)


def changes(request: SolveRequest) -> Iterator[AdvisedChange]:
    """Yield the changes that make sense for a request."""
    for make in CHANGES:
        try:
            change = make(request)
        except PipeschedError:  # too large, no such cut, or no cost of an offload
            continue
        if change is not None:
            yield change


def count_operations(problem: Problem, *, split: bool) -> int:
    """Return the number of operations of a plain step, whose backward runs as I and W if `split`."""
    return len(letters_of(problem.mode, split=split)) * problem.stages * problem.microbatches * problem.slices.count


def _split_backward(request: SolveRequest) -> AdvisedChange | None:
    if request.splits_backward or request.problem.mode == FORWARD_ONLY:
        return None
    return AdvisedChange("split backward", request.problem, True, request.allowed, {"split_backward": True})


def _whole_backward(request: SolveRequest) -> AdvisedChange | None:
    """Return whole backwards in place of halves, where each of these has the overhead of a slice."""
    if not request.splits_backward or not request.problem.slices.overhead:
        return None
    return AdvisedChange("whole backward", request.problem, False, request.allowed, {"split_backward": False})


def _saving(name: str, require: Callable[[Problem], None], request: SolveRequest) -> AdvisedChange | None:
    """Return the change that allows to save memory by `name`, where that may help, and goes with the method."""
    if getattr(request.allowed, name) or request.problem.memory.budget is None or request.method in KEEPS_ALL:
        return None
    require(request.problem)
    allowed = request.allowed._replace(**{name: True})
    return AdvisedChange(name, request.problem, request.splits_backward, allowed, {name: True})


def _budget(name: str, sign: int, request: SolveRequest) -> AdvisedChange | None:
    memory, grains = request.problem.memory, request.problem.grains
    one = sign * Fraction(max(grains.activation), grains.per_unit)  # of the largest microbatch
    if memory.budget is None or not one:
        return None
    budget = tuple(_short(to_fraction(limit) + one, request.policy.advice) for limit in memory.budget)
    changed = cut_again(replace(request.problem, memory=replace(memory, budget=budget)))
    return _of_problem(name, request, changed)._replace(tightens=sign < 0)


def _short(amount: Fraction, policy: AdvicePolicy) -> Exact:
    """Return an amount of memory as it is, or where it has many digits the next one of a few: a budget is typed."""
    if rounded(amount) == amount:
        return canonical(amount)
    scale = 10 ** max(policy.digits - len(str(int(amount))), 0)
    return canonical(Fraction(ceil(amount * scale), scale))


def _chunks(word: str, count: int, request: SolveRequest) -> AdvisedChange | None:
    problem, stages = request.problem, count * request.problem.devices
    if stages == problem.stages or count in (request.chunks or ()) or request.start is not None:
        return None
    if any(len(getattr(problem.slices, key)) > 1 for key in SHARED):  # parts of the work are given by stage
        return None
    changed = _with_stages(problem, stages)
    return None if changed is None else _of_problem(f"{word} chunks a device", request, changed)


def _with_stages(problem: Problem, stages: int) -> Problem | None:
    """Return `problem` with its model as so many stages: cut anew, or fused; None where neither is possible.

    A placement that is settled stays the one of its name, unless it has one stage a device: that is all of them.
    """
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
    layers = None if problem.layers is None else _scaled_layers(problem.layers, factor)
    costs = _scaled_costs(problem.costs, factor)
    changed = replace(
        problem,
        microbatches=count,
        costs=costs if layers is None else replace(costs, resolution=layers.resolution),
        memory=replace(problem.memory, activation=_scaled_entries(problem.memory.activation, factor)),
        layers=layers,
        side=tuple(_scaled_item(item, factor) for item in problem.side),
    )
    return balanced_for(changed)


def _scaled_item(item: SideItem, factor: Fraction) -> SideItem:
    amounts: dict[str, Any] = {key: _scaled([getattr(item, key)], factor)[0] for key in ("activation", "output")}
    return replace(
        item,
        forward=_scaled(item.forward, factor),
        backward=item.backward and _scaled(item.backward, factor),
        p2p=_scaled([item.p2p], max(factor, Fraction(1)))[0],
        **amounts,
    )


def _scaled(values: Sequence[Exact], factor: Fraction) -> tuple[Exact, ...]:
    return tuple(canonical(to_fraction(value) * factor) for value in values)


def _scaled_entries(entries: Sequence[Entry], factor: Fraction) -> tuple[Entry, ...]:
    return tuple(
        _scaled(entry, factor) if isinstance(entry, tuple) else canonical(to_fraction(entry) * factor)
        for entry in entries
    )


def _scaled_costs(costs: Costs, factor: Fraction) -> Costs:
    given = {key: times for key in PER_STAGE if (times := getattr(costs, key)) is not None}
    scaled: dict[str, Any] = {key: _scaled_entries(times, factor) for key, times in given.items()}
    return replace(costs, **scaled, p2p=_scaled_entries(costs.p2p, max(factor, Fraction(1))))


def _scaled_layers(layers: Layers, factor: Fraction) -> Layers:
    parts: dict[str, Any] = {key: _scaled_part(getattr(layers, key), factor) for key in ("layer", "first", "last")}
    return replace(layers, **parts, p2p=layers.p2p and _scaled_entries(layers.p2p, max(factor, Fraction(1))))


def _scaled_part(part: LayerCosts, factor: Fraction) -> LayerCosts:
    keys = [key for key in (*PER_STAGE, "activation") if key not in OPTIONAL or getattr(part, key) is not None]
    amounts = {key: getattr(part, key) for key in keys}
    return replace(
        part,
        **{
            key: _scaled_entries(amount, factor) if isinstance(amount, tuple) else _scaled([amount], factor)[0]
            for key, amount in amounts.items()
        },
    )


def _of_problem(name: str, request: SolveRequest, problem: Problem) -> AdvisedChange:
    problem = as_typed(request.problem, problem)
    arguments = changed_arguments(request.problem, problem)
    for saving, unused in (("recompute", ("recompute", "checkpoint")), ("offload", ("offload", "reload"))):
        if not getattr(request.allowed, saving):
            arguments = {key: value for key, value in arguments.items() if key not in unused}
    return AdvisedChange(name, problem, request.splits_backward, request.allowed, {}, arguments)


CHANGES: tuple[Callable[[SolveRequest], AdvisedChange | None], ...] = (
    _split_backward,
    _whole_backward,
    partial(_budget, "one activation more", 1),
    partial(_chunks, "two", 2),
    partial(_chunks, "four", 4),
    partial(_microbatches, Fraction(1, 2)),
    partial(_microbatches, Fraction(2)),
    partial(_saving, "recompute", require_recompute),
    partial(_saving, "offload", require_offload),
    partial(_budget, "one activation less", -1),
)


Tell = Callable[[str], None]


def advised(outcome: Outcome, request: SolveRequest, tell: Tell) -> Outcome:
    """Return the outcome of a solve with advice in its report, where there is any. `tell` is told of each step."""
    report = outcome.report
    allowed = None if report is None else _allowance(request, report)
    if report is None or allowed is None:
        return outcome
    clock, effort = Clock(allowed[0], request.stop), _Effort(allowed[1])
    makespan = Fraction(report.value_ticks, report.bound.per_unit)
    trials: list[_Trial] = []
    with suppress(KeyboardInterrupt):  # what is known by then counts
        for change in changes(request):
            if change.operations > min(effort.left, _schedulable(request, clock.left)):
                break
            if not (change.tightens and report.status == Status.OPTIMAL):
                tell(f"advice, {change.name}")
                trials += _quick_trial(change, request, clock, effort, makespan)
        if effort.left == inf:
            _try_whole(trials, request, clock, tell)
    found = [advice for trial in trials if (advice := trial.advice(makespan)) is not None]
    found.sort(key=lambda advice: advice.makespan_at_most)
    made = tuple(found) if trials else None
    return replace(outcome, report=replace(report, advice=made, seconds=report.seconds + clock.seconds))


def _quick_trial(
    change: AdvisedChange, request: SolveRequest, clock: Clock, effort: _Effort, makespan: Fraction
) -> Iterator[_Trial]:
    """Yield the trial of a change, with what is made quickly; none where no microbatch fits, or no placement suits."""
    with suppress(PipeschedError):
        trial = _Trial(change, request, clock)
        if change.operations <= request.policy.advice.bounded or effort.left == inf:
            trial.raise_bounds(effort)
        if Fraction(trial.search.bound.ticks, trial.search.per_unit) < makespan:
            trial.try_quickly(effort)
        yield trial


def _try_whole(trials: list[_Trial], request: SolveRequest, clock: Clock, tell: Tell) -> None:
    """Try the whole portfolio for every change for which a solve has time for it."""
    policy = request.policy.advice
    for trial in trials:
        sizes = (len(case.graph) / policy.whole for case in trial.search.cases)
        seconds = sum(policy.whole_seconds * size**2 for size in sizes)  # that it takes, at most
        if not clock.is_over and seconds <= policy.reached * request.limits.seconds:
            tell(f"advice, {trial.change.name}")
            trial.try_whole(clock.part(policy.share * clock.left))


class _Effort:
    """The operations that may still be scheduled, maybe infinitely many."""

    def __init__(self, most: float) -> None:
        self.left = most

    def spent_on(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Yield candidates until their operations are more than are left."""
        for candidate in candidates:
            yield candidate
            self.left -= candidate.schedule.plan.index.size
            if self.left <= 0:
                return


class _Trial:
    """A change under trial: a search of its own, which heuristics alone feed. Raises PipeschedError."""

    def __init__(self, change: AdvisedChange, request: SolveRequest, clock: Clock) -> None:
        self.change, self.request, self.clock = change, request, clock
        costs = replace(change.problem.costs, split=change.split)
        problem = replace(change.problem, costs=costs)
        cases = cases_of(problem, request.placement, "makespan", change.allowed, request.policy)
        self.search = Search(cases, request.limits, clock)

    def raise_bounds(self, effort: _Effort) -> None:
        """Bound every placement."""
        with suppress(TimeIsUp), under(self.clock):
            for number, case in enumerate(self.search.cases):
                self.search.raise_bound(number, case.bound())
                effort.left -= len(case.graph)

    def try_quickly(self, effort: _Effort) -> None:
        """Try what a solve tries first on every placement."""
        cases = self.search.cases
        for number, candidates in quick_rounds(cases, range(len(cases))):
            if self.clock.is_over or effort.left <= 0:
                return
            if self.search.best is None or number in self.search.open:
                self.search.try_all(number, effort.spent_on(candidates), self.clock, heuristic=True)

    def try_whole(self, clock: Clock) -> None:
        """Try all heuristics, on the placement with the best so far first."""
        for number in self.search.open:
            case = self.search.cases[number]
            self.search.try_all(number, case.named_candidates(), clock, heuristic=True)
            self.search.try_all(number, case.ruled_candidates(), clock, heuristic=True)

    def advice(self, makespan: Fraction) -> Advice | None:
        """Return what the change is worth, where it helps. A solve may stop at its gap above what was found."""
        if self.search.best is None:
            return None
        ticks = ceil(self.search.value * (1 + Fraction(self.request.limits.gap)))
        value = Fraction(ticks, self.search.per_unit)
        if value >= makespan:
            return None
        least, change = in_units(ticks, self.search.per_unit), self.change
        return Advice(change.name, least, plain(value - makespan), change.solve, change.arguments)


def kept_seconds(request: SolveRequest) -> float:
    """Return the seconds that are kept for advice: 0 where there is none, and where they are too few for one schedule.

    It compares makespans. Where a command has kept some of its limit for itself, that limit says whether it is short.
    """
    policy, whole = request.policy.advice, request.whole_limit
    is_short = (request.time_limit if whole is None else whole) < policy.shortest
    if request.advice is False or request.objective != "makespan" or is_short:
        return 0.0
    problem, seconds = request.split_problem, min(policy.part * request.limits.seconds, policy.most)
    operations = count_operations(problem, split=problem.costs.split)
    return 0.0 if operations > _schedulable(request, seconds) and not request.advice else seconds


def _schedulable(request: SolveRequest, seconds: float) -> float:
    """Return how many operations one schedule may have, of all that can be made in so many seconds."""
    return request.policy.advice.room * request.policy.advice.a_second * seconds


def _allowance(request: SolveRequest, report: SolveReport) -> tuple[float, float] | None:
    """Return the seconds that advice may take after a solve, and the operations of all its schedules, maybe any number.

    None where there is none.
    """
    policy, kept = request.policy.advice, kept_seconds(request)
    if not kept or report.stopped_by == StoppedBy.INTERRUPT:
        return None
    left = max(request.limits.seconds - report.seconds, 0.0)
    if report.seconds >= policy.long:
        most = kept if request.advice else policy.part * report.seconds
        return min(most, kept, left), inf
    operations = kept * policy.a_second
    is_brief = not request.advice and report.stopped_by != StoppedBy.TIME_LIMIT
    return left, min(operations, policy.brief) if is_brief else operations
