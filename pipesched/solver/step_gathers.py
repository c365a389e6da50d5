"""The gathers of a device at level weights in the exact model, for any order of its slots.

Before each pass the next `ahead` distinct stages are whole. Seen from a pass backwards: its stage is gathered for it if
at least `ahead` other stages of the device had a pass since its own last one. Of these, ordered by their last passes
before it, the youngest first, the one in place `ahead` says when: the gather is issued behind its last pass, and behind
slots without weights that stand between that and the next pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, permutations
from typing import Any, NamedTuple

from pipesched.core.clock import look
from pipesched.solver.step_tasks import StepTaskModel


class Last(NamedTuple):
    """Which task of a group is the last one before another task: a literal of each, and one that there is none."""

    tasks: dict[int, Any]
    none: Any


class RuledGathers:
    """The gathers of a device whose stages are not all whole at once.

    `whole_from` has of each pass the time from which the weights that it needs are held: the start of its gather, or
    the end of the pass of its stage before it. `intervals` are those of gathers behind the first of a stage.
    """

    def __init__(self, owner: StepTaskModel, device: int, ahead: int) -> None:
        self.owner, self.model, self.device = owner, owner.model, device
        index = owner.index
        self.rows = {
            stage: [*chain.from_iterable(index.row(kind, stage) for kind in index.letters)]
            for stage in owner.problem.settled_placement.stages_on(device)
        }
        self.is_alone = ahead == 1  # one stage is whole at a time
        self.ahead: Any = ahead or self.model.new_int_var(1, len(self.rows), "")
        self.orders: dict[tuple[int, int], Any] = {}
        self.whole_from: dict[int, Any] = {}
        self.intervals: list[Any] = []
        self.ends: dict[int, Any] = {}  # of the gather for each pass, if it has one
        self.at_once: dict[int, Any] = {}  # of each pass whether its gather begins when it is issued, at the latest
        self.needed: dict[int, tuple[Any, Any]] = {}  # of each pass: that a gather is due, and that it is the first
        self.reductions = [*self._reductions()]
        passes = [*chain.from_iterable(self.rows.values())]
        self.extras = [(task, self._last(task, passes)) for task in owner.step.on_machine(device)]
        for stage, row in self.rows.items():
            for task in row:
                self._gather(stage, task)
        slots = [*passes, *(task for task, _ in self.extras)]
        for a, b, c in combinations([task for task in slots if not owner.durations[task]], 3):
            circle = self._before(a, b), self._before(b, c), self._before(c, a)  # times cannot order what lasts nothing
            self.model.add_bool_or(circle)
            self.model.add_bool_or(~one for one in circle)

    def _reductions(self) -> Iterator[tuple[int, int]]:
        """Yield the reductions of the device, each behind the last backward that it needs, where that is known."""
        owner, each = self.owner, self.owner.problem.sharding.reduces_each
        if owner.index.slices == 1 and (each or owner.rules.is_sorted):
            for stage in self.rows:
                row = owner.index.row(owner.index.last, stage) if owner.index.gradients else ()
                yield from zip(row if each else row[-1:], owner.step.reductions.get(stage, ()), strict=False)

    def _before(self, one: int, other: int) -> Any:
        """Return the literal that a task of the device comes before another one; where both run, times follow."""
        if (one, other) not in self.orders:
            look()
            owner = self.owner
            if owner.rules.reaches(one, other) or owner.rules.reaches(other, one):
                holds = self.model.new_constant(owner.rules.reaches(one, other))
            else:
                holds = self.model.new_bool_var("")
                there = [owner.presences[task] for task in (one, other) if task in owner.presences]
                self.model.add(owner.end(one) <= owner.starts[other]).only_enforce_if(holds, *there)
                self.model.add(owner.end(other) <= owner.starts[one]).only_enforce_if(~holds, *there)
            self.orders[one, other], self.orders[other, one] = holds, ~holds
        return self.orders[one, other]

    def _last(self, task: int, group: Sequence[int]) -> Last:
        """Return which task of a group is the last one before a task."""
        reaches, model = self.owner.rules.reaches, self.model
        others = [one for one in group if one != task and not reaches(task, one)]
        sure = [one for one in others if reaches(one, task)]
        able = [one for one in others if not any(reaches(one, other) for other in sure)]
        found = Last({one: model.new_bool_var("") for one in able}, model.new_constant(0))
        if not sure:
            found = found._replace(none=model.new_bool_var(""))
            for one in others:
                model.add_implication(found.none, ~self._before(one, task))
        model.add_exactly_one(*found.tasks.values(), found.none)
        for one, holds in found.tasks.items():
            model.add_implication(holds, self._before(one, task))
            for other in others:
                if other != one and not reaches(other, one):
                    model.add_bool_or(~holds, self._before(other, one), ~self._before(other, task))
        return found

    def _gather(self, stage: int, task: int) -> None:
        """Have the weights of a stage there for a pass: gathered once before all, for this pass, or kept."""
        owner, model = self.owner, self.model
        last = {other: self._last(task, row) for other, row in self.rows.items()}
        younger = self._younger(last)
        others = [other for other in self.rows if other != stage]
        is_due, is_own = model.new_bool_var(""), model.new_bool_var("")
        for other in others:
            model.add_implication(last[other].none, ~younger[other, stage])
        since = sum(younger[other, stage] for other in others)
        model.add(since >= self.ahead).only_enforce_if(is_due)
        model.add(since <= self.ahead - 1).only_enforce_if(~is_due)
        begin = self.whole_from[task] = model.new_int_var(0, owner.horizon, "")
        first, lasts = last[stage].none, owner.durations[owner.step.gathers[stage]]
        self.ends[task], self.needed[task] = begin + lasts, (is_due, first)
        at_once = self.at_once[task] = model.new_bool_var("")
        model.add(begin == 0).only_enforce_if(at_once, first, ~is_due)
        model.add(begin == owner.starts[owner.step.gathers[stage]]).only_enforce_if(first)
        model.add_bool_and(is_due, ~first).only_enforce_if(is_own)
        model.add_bool_or(~is_due, first, is_own)
        self.intervals.append(model.new_optional_fixed_size_interval_var(begin, lasts, is_own, ""))
        model.add(begin + lasts <= owner.starts[task]).only_enforce_if(is_own)
        for before, holds in last[stage].tasks.items():
            model.add(begin == owner.end(before)).only_enforce_if(holds, ~is_due)
        issuers = {other: model.new_bool_var("") for other in others}
        model.add_exactly_one(*issuers.values(), ~is_due)
        for other, holds in issuers.items():
            nearer = sum(younger[third, other] for third in others if third != other)
            model.add(nearer == self.ahead - 1).only_enforce_if(holds)
            model.add_implication(holds, ~last[other].none)
            for before, is_last in last[other].tasks.items():
                self._issue((begin, begin + lasts), before, [holds, is_last])
                model.add(begin == owner.end(before)).only_enforce_if(at_once, holds, is_last)
        if self.is_alone:  # said once more, and pair by pair it prunes
            for one in chain.from_iterable(self.rows[other] for other in others):
                model.add(owner.starts[task] >= owner.end(one) + lasts).only_enforce_if(self._before(one, task))
        for extra, passes in self.extras:
            there = [owner.presences[extra]] if extra in owner.presences else []
            model.add(begin >= owner.end(extra)).only_enforce_if(first, ~is_due, passes.none, *there)
        for _, reduction in self.reductions:
            model.add(begin + lasts <= owner.starts[reduction]).only_enforce_if(first, ~is_due)
        tied = owner.step.tied
        if tied is not None and tied in owner.step.on_machine(owner.problem.devices + self.device):
            model.add(begin + lasts <= owner.starts[tied]).only_enforce_if(is_own)

    def _younger(self, last: dict[int, Last]) -> dict[tuple[int, int], Any]:
        """Return for two stages the literal that the last pass of the first comes behind that of the second."""
        found: dict[tuple[int, int], Any] = {}
        for one, other in permutations(last, 2):
            if (other, one) in found:
                found[one, other] = ~found[other, one]
                continue
            holds = found[one, other] = self.model.new_bool_var("")
            self.model.add_bool_or(holds, last[one].none, ~last[other].none)
            self.model.add_bool_or(~holds, last[other].none, ~last[one].none)
            for before, is_last in last[one].tasks.items():
                for earlier, is_other in last[other].tasks.items():
                    order = self._before(earlier, before)
                    for younger, is_so in ((holds, ~order), (~holds, order)):
                        self.model.add_bool_or(younger, is_so, ~is_last, ~is_other)
        return found

    def _issue(self, gather: tuple[Any, Any], before: int, holds: list[Any]) -> None:
        """Where all of `holds`, issue a gather behind a pass: reductions issued by then come first, others later."""
        owner, model = self.owner, self.model
        model.add(gather[0] >= owner.end(before)).only_enforce_if(*holds)
        for extra, passes in self.extras:
            if before in passes.tasks:
                there = [owner.presences[extra]] if extra in owner.presences else []
                model.add(gather[0] >= owner.end(extra)).only_enforce_if(*holds, passes.tasks[before], *there)
        for backward, reduction in self.reductions:
            is_earlier = [] if backward == before else [self._before(backward, before)]
            model.add(owner.end(reduction) <= gather[0]).only_enforce_if(*holds, *is_earlier)
            if is_earlier:
                model.add(gather[1] <= owner.starts[reduction]).only_enforce_if(*holds, ~is_earlier[0])

    def start_promptly(self, lane: Sequence[Any]) -> None:
        """Let each gather begin when it is issued, or at the end of something on the lane: in `lane`, or a gather."""
        ends = [*lane, *(self.owner.end(extra) for extra, _ in self.extras)]
        for task, begin in self.whole_from.items():
            others = [end for other, end in self.ends.items() if other != task]
            causes = [self.at_once[task], *self.owner.is_one_of(begin, [*ends, *others])]
            for holds in self.needed[task]:
                self.model.add_bool_or(causes).only_enforce_if(holds)


Gathers = Mapping[int, RuledGathers]  # by device


def start_promptly(owner: StepTaskModel, ruled: Gathers, machines: Sequence[Sequence[int]]) -> None:
    """Let each operation of a model start as early as possible; `machines` are the tasks of devices, then of lanes."""
    others = {owner.step.gathers[stage] for gathers in ruled.values() for stage in gathers.rows}
    for task, start in enumerate(owner.starts):
        if task in others:
            continue  # below, as those of passes
        waits = owner.rules.graph.predecessors[task]
        causes = [0, *(owner.end(before) + lag // owner.quantum for before, lag in waits)]
        causes += (gathers.ends[task] for gathers in ruled.values() if task in gathers.ends)
        causes += (*_ends_on_machines(owner, ruled, task, machines), *_ends_of_side(owner, task))
        there = [owner.presences[task]] if task in owner.presences else []
        owner.model.add_bool_or(owner.is_one_of(start, causes)).only_enforce_if(*there)
    for device, gathers in ruled.items():
        lane = [owner.end(task) for task in machines[len(machines) // 2 + device]]
        gathers.start_promptly(lane)


def _ends_on_machines(
    owner: StepTaskModel, ruled: Gathers, task: int, machines: Sequence[Sequence[int]]
) -> Iterator[Any]:
    """Yield the ends of what shares a machine with a task, and for a gather of side work before all passes."""
    devices = len(machines) // 2
    for machine, tasks in enumerate(machines):
        if task not in tasks:
            continue
        yield from (owner.end(other) for other in tasks if other != task)
        if machine >= devices:
            if task in owner.step.gathers.values():
                yield from (owner.end(other) for other in owner.step.on_machine(machine - devices))
            if machine - devices in ruled:
                yield from ruled[machine - devices].ends.values()


def _ends_of_side(owner: StepTaskModel, task: int) -> Iterator[Any]:
    """Yield when side work is there for a pass, and for the backward of side work its input."""
    for side in owner.step.side:
        for device, forward in side.forwards.items():
            lag = owner.step.lag(side.item, device) // owner.quantum
            if task == owner.step.used_by(side):
                yield owner.end(forward) + lag
            if task == side.backwards.get(device):
                yield from (owner.end(one) + lag for one in owner.step.gradients_for(side))
