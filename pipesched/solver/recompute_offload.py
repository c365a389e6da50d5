"""Variants whose activations all stay (`PlainVariant`), or may be recomputed or offloaded, and plans that do so.

`RecomputeOffloadVariant.ruled_candidates` is where one begins: each order (`_bases`) goes through `with_savings`.
Orders come from the families and from list scheduling under looser limits, because offload and recompute suit orders
that hold more activations than the budget allows. With one stage a device they come also from 1F1B with other warm-ups
(`_further_ahead`): early devices that run far ahead can recompute during the cool-down.

`with_savings` puts recompute and offload into a plan where memory is missing; its order stays. A `_MemorySimulation` of
each device keeps what is needed soonest and evicts what is needed last (Belady's rule). What was evicted is recomputed
right before its backward, or offloaded at once and loaded back just in time. `MIXED` offloads by PipeOffload's rule,
when the transfer takes no longer than the work beside it: it must be over before its memory is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, product, takewhile
from typing import NamedTuple

from pipesched.checks import shown
from pipesched.core.arrays import np
from pipesched.core.cpsat import TaskModel
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import UNTIMED
from pipesched.errors import Deadlock
from pipesched.pipeline.bounds.bounds import Bound
from pipesched.pipeline.bounds.memory import capacity_edges, forward_headrooms, least_capacity, order_edges
from pipesched.pipeline.plan.lowering import MemoryEvent, lower, memory_waits, plan_of_times
from pipesched.pipeline.plan.plan import LanePair, Plan
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.kinds import COMPUTATION_LETTERS, GRADIENT_LETTERS, KEEP_ONLY, KINDS, MemorySavings
from pipesched.pipeline.problem.ops import Op, OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.plan_of import one_forward_one_backward, split_one_forward_one_backward
from pipesched.solver import portfolio
from pipesched.solver.bounds import plain_bounds, recompute_offload_bounds
from pipesched.solver.model import full_model, recompute_offload_model, sorted_rows
from pipesched.solver.neighbourhood import improve
from pipesched.solver.variant import Candidate, Improvement, Variant

RECOMPUTE, OFFLOAD, MIXED = "recompute", "offload", "offload or recompute"
BRINGS_BACK = {"R": "R", "O": "L"}  # by what was done with an activation
Activation = tuple[int, int]  # stage, microbatch


@dataclass(frozen=True, eq=False)
class PlainVariant(Variant):
    """A variant whose activations are all kept.

    Its microbatches are alike, so each row of equal operations runs them in order, and from the budget follow further
    precedences.
    """

    keeps_activations = True
    named_candidates = portfolio.named_candidates
    fed_candidates = portfolio.fed_candidates
    ruled_candidates = portfolio.ruled_candidates
    quick_named_candidates = portfolio.quick_named_candidates
    bounds = plain_bounds

    @cached_property
    def ordered(self) -> TaskGraph:
        """The rules, microbatches in order, and the precedences that follow from the budget."""
        extra = [*order_edges(self.problem, self.index), *capacity_edges(self.problem, self.index)]
        return self.graph.changed(edges=[self.graph.edges, *extra])

    @property
    def improvements(self) -> Sequence[Improvement]:
        return (
            Improvement("justification", self.policy.variants.justification_part, portfolio.justify),
            Improvement("improvement", self.policy.variants.neighbourhoods_part, improve),
        )

    def adopted(self, schedule: Schedule) -> Schedule | None:
        if not set(schedule.plan.index.letters) <= set(COMPUTATION_LETTERS):
            return None
        plan = portfolio.refined(schedule.plan, self.index)
        return None if plan is None else schedule_plan(self.problem, plan)

    def model(self, least: int, most: int) -> TaskModel:
        return full_model(self, least, most)

    def replay(self, starts: Sequence[int]) -> Schedule:
        """Return the schedule of an order; microbatches are renamed so that each row runs them in order."""
        times = sorted_rows(self, starts)
        order = np.lexsort(np.array([self.rank, times + self.graph.duration, times]))
        return schedule_plan(self.problem, Plan(self.index, self.graph.by_resource(order.tolist())))

    def hint(self, schedule: Schedule) -> list[int]:
        return sorted_rows(self, schedule.start_ticks)

    def most_sought(self, value: int, bound: int, *, is_own: bool) -> int:
        return value if is_own else value - self.quantum


@dataclass(frozen=True, eq=False)
class RecomputeOffloadVariant(Variant):
    """A variant whose activations may be recomputed or offloaded, as `allowed` says.

    `index` and `graph` are those of the plain operations, F to W, which have the same numbers in `full`.
    """

    allowed: MemorySavings = KEEP_ONLY

    @cached_property
    def full(self) -> OpIndex:
        """All operations that may run."""
        return self.index.with_letters(self.allowed.letters)

    @property
    def most_operations(self) -> int:
        return self.full.size

    @property
    def ordered(self) -> TaskGraph:
        """The rules alone: microbatches are not alike, so that no order of them, and none by the budget, is known."""
        return self.graph

    @cached_property
    def quantum(self) -> int:
        """The greatest common divisor of all times, in ticks."""
        return lower(self.problem, self.full).quantum

    def bounds(self) -> Iterator[Bound]:
        return recompute_offload_bounds(self, self.full.letters)

    def named_candidates(self) -> Iterator[Candidate]:
        return map(self._of_variant, portfolio.named_candidates(self))

    def fed_candidates(self) -> Iterator[Candidate]:
        return map(self._of_variant, portfolio.fed_candidates(self))

    def ruled_candidates(self) -> Iterator[Candidate]:
        allowed, tries = self.allowed, dict[_WarmUps, int]()
        yield from _further_ahead(self, allowed, tries)
        for base in (*sorted(_bases(self), key=lambda base: self.value(base.schedule)), one_by_one(self)):
            yield from with_rules(self, base, allowed)
        count = self.index.microbatches  # then the best with another warm-up of a device, device by device
        warm_ups = range(count, 0, -max(count // 16, 1))
        for device, warm_up in product(range(self.problem.devices if tries else 0), warm_ups):
            counts, rule = min(tries, key=tries.__getitem__)
            changed = (*counts[:device], warm_up, *counts[device + 1 :])
            yield from _try(self, allowed, _WarmUps(changed, rule), tries)
        yield from map(self._of_variant, portfolio.ruled_candidates(self))

    def quick_ruled_candidates(self) -> Iterator[Candidate]:
        limits = enumerate(self.problem.capacity_grains)
        keeps = all(most is None or least_capacity(self.problem, device) <= most for device, most in limits)
        saved = chain(_further_ahead(self, self.allowed, {}), with_rules(self, one_by_one(self), self.allowed))
        return map(self._of_variant, islice(portfolio.ruled_candidates(self) if keeps else saved, 1))

    def quick_named_candidates(self) -> Iterator[Candidate]:
        for base in portfolio.quick_named_candidates(self):
            yield self._of_variant(base)
            yield from with_rules(self, base, self.allowed)

    def model(self, least: int, most: int) -> TaskModel:
        return recompute_offload_model(self, self.full, least, most)

    def hint(self, schedule: Schedule) -> list[int]:
        return self._sorted_rows(schedule.start_ticks)

    def most_sought(self, value: int, bound: int, *, is_own: bool) -> int:
        return value if is_own and value > 1.1 * bound else value - self.quantum

    def replay(self, starts: Sequence[int]) -> Schedule:
        """Return the schedule of the order that `starts` (ticks; UNTIMED: does not run) has on each device."""
        times = self._sorted_rows(starts)
        plan = plan_of_times(self.problem, self.full, times)
        schedule = schedule_plan(self.problem, plan)
        if schedule.fits:
            return schedule
        durations = lower(self.problem, self.full).durations  # as found: at one instant a plan orders no empty ones
        ends = [start if start == UNTIMED else start + time for start, time in zip(times, durations, strict=True)]
        return Schedule(self.problem, plan, times, ends)

    def _sorted_rows(self, starts: Sequence[int]) -> list[int]:
        """Return `starts`, UNTIMED for what does not run, with alike microbatches numbered as in the model.

        One takes along all that it does, also what it recomputes, so that nothing but names changes.
        """
        times = [*(max(start, UNTIMED) for start in starts), *([UNTIMED] * (self.full.size - len(starts)))]
        row, order = self.full.row(self.full.gradient, 0), [*range(self.full.microbatches)]
        for group in self.alike:
            for place, microbatch in zip(group, sorted(group, key=lambda m: times[row[m]]), strict=True):
                order[place] = microbatch
        return self.full.spread(lambda kind, stage: [times[self.full.row(kind, stage)[m]] for m in order])

    def adopted(self, schedule: Schedule) -> Schedule | None:
        if schedule.plan.index.stages == self.problem.stages:
            return self._taken_over(schedule)
        if schedule.plan.index.saves_memory:
            return None
        plan = portfolio.refined(schedule.plan, self.index)
        return None if plan is None else self._taken_over(schedule_plan(self.problem, plan))

    def _of_variant(self, candidate: Candidate) -> Candidate:
        """Return a candidate as one of this variant; as it is, if it is over budget or cannot be taken over."""
        adopted = self._taken_over(candidate.schedule) if candidate.schedule.fits else None
        return candidate if adopted is None else candidate._replace(schedule=adopted)

    def _taken_over(self, schedule: Schedule) -> Schedule | None:
        """Return a schedule of the same problem as one of this variant; None when it runs what is not allowed here."""
        index, starts = schedule.plan.index, [UNTIMED] * self.full.size
        for number in chain(*schedule.plan.machines):
            op = index.op(number)
            if op.kind not in self.full.letters:
                return None
            starts[self.full.number(op)] = schedule.start_ticks[number]
        return None if schedule.plan.pairs else self.replay(starts)


def _bases(variant: Variant) -> Iterator[Candidate]:
    """Yield orders of `variant` to save memory in, whether they fit or not."""
    yield from (candidate for candidate in portfolio.family_candidates(variant) if not candidate.schedule.plan.pairs)
    rooms = forward_headrooms(variant.problem, variant.index)
    for name, rule in portfolio.RULES.items():
        keys = rule(variant)
        for factor in variant.policy.portfolio.looser:
            own = variant.problem.capacity_grains
            limits = [None if most is None or factor is None else int(factor * most) for most in own]
            pools = portfolio.Pools("", variant.graph, limits, rooms)
            yield from portfolio.listed(variant, f"list ({name})", pools, keys)


class _WarmUps(NamedTuple):
    """The number of forwards of each device before its first backward, and the rule that saves memory then."""

    counts: tuple[int, ...]
    rule: RecomputeOffloadRule

    def __str__(self) -> str:
        usual = self.counts == tuple(range(len(self.counts), 0, -1))
        return "1f1b" if usual else f"1f1b, warm-ups {shown(self.counts)}"


def _further_ahead(variant: Variant, allowed: MemorySavings, tries: dict[_WarmUps, int]) -> Iterator[Candidate]:
    """Yield, with one stage a device, 1F1B, then orders whose first devices run ahead: half of them, then others."""
    devices, count = variant.problem.devices, variant.index.microbatches
    if variant.problem.settled_placement.ways != [tuple(range(devices))]:
        return
    for ahead in sorted(range(devices + 1), key=lambda ahead: ahead and abs(ahead - devices / 2) + 1):
        warm_ups = tuple(count if device < ahead else devices - device for device in range(devices))
        for rule in recompute_offload_rules(allowed):
            yield from _try(variant, allowed, _WarmUps(warm_ups, rule), tries)


def _try(
    variant: Variant, allowed: MemorySavings, warm_ups: _WarmUps, tries: dict[_WarmUps, int]
) -> Iterator[Candidate]:
    """Yield the candidate of these warm-ups, if it fits, and note its value in `tries`."""
    index, orders = variant.index, []
    for device, count in enumerate(warm_ups.counts):
        forwards, gradients, last = (index.row(kind, device) for kind in ("F", index.gradient, index.last))
        if gradients == last:
            orders.append(one_forward_one_backward(forwards, gradients, count - 1))
        else:
            orders.append(split_one_forward_one_backward(forwards, gradients, last, count - 1, 0))
    try:
        base = Candidate(str(warm_ups), schedule_plan(variant.problem, Plan(index, orders)))
    except Deadlock:
        return
    for candidate in _saved_by(variant, base, allowed, warm_ups.rule):
        tries[warm_ups] = variant.value(candidate.schedule)
        yield candidate


def one_by_one(variant: Variant) -> Candidate:
    """Return the order of one microbatch after another: if any order fits, this does once its memory is saved."""
    index, order = variant.index, list[int]()
    backwards = dict.fromkeys((index.gradient, index.last))
    for microbatch in range(index.microbatches):
        order += (index.row("F", stage)[microbatch] for stage in range(index.stages))
        order += (index.row(kind, stage)[microbatch] for stage in range(index.stages)[::-1] for kind in backwards)
    orders = variant.graph.by_resource(order)
    return Candidate("one microbatch at a time", schedule_plan(variant.problem, Plan(index, orders)))


def with_rules(variant: Variant, base: Candidate, allowed: MemorySavings) -> Iterator[Candidate]:
    """Yield the schedules of `base` with its memory saved by each rule, as far as they fit."""
    if not base.schedule.plan.pairs:
        for rule in recompute_offload_rules(allowed):
            yield from _saved_by(variant, base, allowed, rule)


def _saved_by(
    variant: Variant, base: Candidate, allowed: MemorySavings, rule: RecomputeOffloadRule
) -> Iterator[Candidate]:
    """Yield the schedule of `base` with its memory saved by that rule, if it fits."""
    try:
        plan = with_savings(base.schedule, allowed, rule)
        schedule = None if plan is None else schedule_plan(variant.problem, plan)
    except Deadlock:  # operations of no length
        return
    if schedule is not None and schedule.fits:
        yield Candidate(f"{base.source} with {rule}", schedule)


class RecomputeOffloadRule(NamedTuple):
    """How memory is saved: by which action, for `every` activation or those that do not fit; `spare` stay free."""

    action: str
    spare: int = 0
    every: bool = False

    def __str__(self) -> str:
        spare = f", {self.spare} spare" if self.spare else ""
        return f"{'full ' if self.every else ''}{self.action}{spare}"


def recompute_offload_rules(allowed: MemorySavings) -> Iterator[RecomputeOffloadRule]:
    """Yield every rule whose actions are allowed, the more promising first."""
    if allowed.offload:
        yield from (RecomputeOffloadRule(OFFLOAD, spare) for spare in (1, 0, 2))
    if allowed.offload and allowed.recompute:
        yield from (RecomputeOffloadRule(MIXED, spare) for spare in (1, 0, 2))
    if allowed.recompute:
        yield RecomputeOffloadRule(RECOMPUTE)
        yield RecomputeOffloadRule(RECOMPUTE, every=True)


def with_savings(base: Schedule, allowed: MemorySavings, rule: RecomputeOffloadRule) -> Plan | None:
    """Return the plan of `base`, which has no pairs, with memory saved by `rule`; None if it still does not fit."""
    problem, plan = base.problem, base.plan
    index = plan.index.with_letters(allowed.letters)
    every = (_MemorySimulation(base, device, index, rule) for device in range(problem.devices))
    devices = [*takewhile(lambda memory: memory.choose() and memory.run(), every)]
    if len(devices) < problem.devices:
        return None
    moves = [memory.moves.values() for memory in devices if allowed.offload]
    return replace(
        plan,
        index=index,
        orders=[memory.order for memory in devices],
        lanes=[LanePair(*([number for _, number in sorted(row)] for row in rows)) for rows in moves],
        waits=[wait for memory in devices for wait in memory_waits(memory.changes)],
    )


def _sizes(problem: Problem, column: str | None) -> Callable[[Activation], int]:
    """Return what an activation has of a column of Kind.takes or Kind.gives, in grains."""
    sizes = problem.model.column(column)
    return lambda own: int(sizes[own])


class _MemorySimulation:
    """The memory of one device: `choose` says what is evicted, `run` makes the order and the changes of memory."""

    def __init__(self, base: Schedule, device: int, index: OpIndex, rule: RecomputeOffloadRule) -> None:
        self.base, self.device, self.index, self.rule = base, device, index, rule
        problem, capacity = base.problem, base.problem.capacity_grains[device]
        # Grains of an activation that an operation takes as it starts, and gives back as it ends, by its letter.
        self.takes = {letter: _sizes(problem, kind.takes) for letter, kind in KINDS.items()}
        self.gives = {letter: _sizes(problem, kind.gives) for letter, kind in KINDS.items()}
        ops = map(base.plan.index.op, base.plan.orders[device])
        self.slots = [(op.kind, (op.stage, op.microbatch)) for op in ops]
        enough = sum(self.takes["F"](own) + self.takes["I"](own) for _, own in self.slots)
        self.capacity = enough if capacity is None else capacity
        self.forward = {own: position for position, (kind, own) in enumerate(self.slots) if kind == "F"}
        self.backward = {own: position for position, (kind, own) in enumerate(self.slots) if kind in GRADIENT_LETTERS}
        self.actions: dict[Activation, str] = {}  # what is done with those not kept: "R" (recompute) or "O" (offload)
        self.levels: list[int] = []  # during each slot, if offloads take no time and loads come as late as possible
        self.lane_free = 0  # when the last offload so far is over
        self.level, self.pending = 0, list[Activation]()  # offloads that nothing had to wait for so far, in order
        self.order, self.changes = list[int](), list[MemoryEvent]()
        # Transfers, with the times at which the base schedule would start them.
        self.moves: dict[str, list[tuple[int, int]]] = {"O": [], "L": []}

    def choose(self) -> bool:
        """Choose activations to evict until all that is held at any slot fits; return whether that is possible."""
        held, level = set[Activation](), 0
        spare = self.rule.spare * max((self.takes["F"](own) for _, own in self.slots), default=0)
        for position, (kind, own) in enumerate(self.slots):
            need = self.takes[kind](own) + (self._evicted(own) if kind in GRADIENT_LETTERS else 0)
            while held - {own} and (level + need > self.capacity - spare):
                evicted = max(held - {own}, key=lambda activation: self.backward[activation])
                held.remove(evicted)
                level -= self._evict(evicted, position)
            level += need
            if level > self.capacity:
                return False
            self.levels.append(level)
            if kind != "F":
                held.discard(own)
                level -= self.gives[kind](own)
            elif self.rule.every:
                level -= self._evict(own, position + 1)
            else:
                held.add(own)
        return True

    def _evict(self, activation: Activation, position: int) -> int:
        """Choose the action for an activation whose memory a slot needs; return what it frees, since its forward."""
        problem, first = self.base.problem, self.forward[activation]
        self.actions[activation] = "R"
        if self.rule.action != RECOMPUTE and problem.costs.offload is not None:
            begins = max(self.lane_free, self.base.slot_end_ticks[self.device][first])
            over = begins + int(problem.model.ticks["offload"][activation])
            if self.rule.action == OFFLOAD or over <= self._time(position):
                self.actions[activation], self.lane_free = "O", over
        freed = self._evicted(activation)
        for between in range(first + 1, position):
            self.levels[between] -= freed
        return freed

    def _number(self, kind: str, activation: Activation) -> int:
        return self.index.number(Op(activation[0], kind, activation[1]))

    def _time(self, position: int) -> int:
        """Return when the slot at `position` starts in the base schedule."""
        return self.base.slot_start_ticks[self.device][position]

    def _evicted(self, activation: Activation) -> int:
        """Return what is away of an activation between its forward and its backward, in grains."""
        action = self.actions.get(activation)
        return 0 if action is None else self.takes[BRINGS_BACK[action]](activation)

    def run(self) -> bool:
        """Make the order with its recomputes, the transfers, and all changes of memory; return whether all fits."""
        loads = self._loads()
        for position, (kind, own) in enumerate(self.slots):
            loaded = loads.get(position, [])
            kinds = "R" * (kind in GRADIENT_LETTERS and self.actions.get(own) == "R") + kind
            takers = [one for one in kinds if one in "FR" or self.takes[one](own)]
            for taker, activation in [*(("L", one) for one in loaded), *((one, own) for one in takers)]:
                if not self._take(taker, activation):
                    return False
            self.moves["L"] += [(self._time(position), self._number("L", one)) for one in loaded]
            self.order += [self._number(one, own) for one in kinds]
            number, given = self._number(kind, own), self.gives[kind](own)  # back, at the end of the slot
            if kind == "F" and self.actions.get(own) == "R":
                given = self._evicted(own)
            elif kind == "F" and own in self.actions:
                self.pending.append(own)
                self.moves["O"].append((self.base.end_ticks[number], self._number("O", own)))
            if given:
                self.level -= given
                self.changes.append(MemoryEvent(number, True, False))
        return True

    def _take(self, kind: str, activation: Activation) -> bool:
        """Take memory, after as many offloads as that needs; return whether there is enough."""
        if kind == "L" and activation in self.pending:
            self._end_offloads(self.pending.index(activation) + 1)
        size = self.takes[kind](activation)
        while self.pending and self.level + size > self.capacity:
            self._end_offloads(1)
        self.level += size
        self.changes.append(MemoryEvent(self._number(kind, activation), False, KINDS[kind].is_transfer))
        return self.level <= self.capacity

    def _end_offloads(self, count: int) -> None:
        for activation in self.pending[:count]:
            self.level -= self.gives["O"](activation)
            self.changes.append(MemoryEvent(self._number("O", activation), True, True))
        del self.pending[:count]

    def _loads(self) -> dict[int, list[Activation]]:
        """Return the loads that start before each slot: the last from which they are in time, or later for memory."""
        free = [self.capacity - level for level in self.levels]
        ends, loads = self.base.slot_end_ticks[self.device], dict[int, list[Activation]]()
        problem, latest, begins = self.base.problem, max(self.base.last_end_ticks), dict[Activation, int]()
        offloaded = (one for one, action in self.actions.items() if action == "O")
        for activation in sorted(offloaded, key=self.backward.__getitem__, reverse=True):
            latest = min(latest, self._time(self.backward[activation])) - int(problem.model.ticks["reload"][activation])
            begins[activation] = latest  # for its backward and for the loads after it
        earliest = 0
        for activation, begin in reversed(begins.items()):
            needed, size = self.backward[activation], self.takes["L"](activation)
            position = needed
            while position > earliest and ends[position - 1] > begin:
                position -= 1
            tight = [number for number in range(position, needed) if free[number] < size]
            earliest = position = tight[-1] + 1 if tight else position
            for number in range(position, needed):
                free[number] -= size
            loads.setdefault(position, []).append(activation)
        return loads
