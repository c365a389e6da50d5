"""The changes of a solve's problem and settings that advice tries, each a function; what takes least time first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import ceil
from typing import Any, NamedTuple

from pipesched.errors import PipeschedError
from pipesched.pipeline.costs import PER_STAGE, Costs, Entry
from pipesched.pipeline.feeding import differs
from pipesched.pipeline.kinds import Allowed
from pipesched.pipeline.layers import OPTIONAL, LayerCosts, Layers
from pipesched.pipeline.placement import PLACEMENTS, Placement, named_placement
from pipesched.pipeline.problem import Problem, letters_of
from pipesched.pipeline.quantities import Exact, canonical, rounded, to_fraction
from pipesched.pipeline.recut import balanced_for, can_be_cut, cut_again, fuse, open_cut, recut
from pipesched.pipeline.savable import require_offload, require_recompute
from pipesched.pipeline.step import SideItem
from pipesched.pipeline.units import FORWARD_ONLY, SHARED
from pipesched.solver.advice.arguments import as_typed, changed_arguments
from pipesched.solver.policy import AdvicePolicy
from pipesched.solver.request import SolveRequest

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
