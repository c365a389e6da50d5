"""The work of a step beside its passes, as jobs with heads and tails: of devices, of network lanes, of any device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipesched.core.bounds import Job
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step import GRADIENTS, WEIGHTS
from pipesched.pipeline.units import FORWARD_ONLY


class StepEnds(NamedTuple):
    """Ticks by stage: before its first F, behind each of its B or W, and behind each of its input gradients.

    `reduced` is what follows the reduction of a stage at least, `updated` what follows that of all its gradients, tied
    ones included.
    """

    released: Sequence[int]
    behind_last: Sequence[int]
    behind_gradient: Sequence[int]
    reduced: Sequence[int] = ()
    updated: Sequence[int] = ()


def gathers(problem: Problem) -> bool:
    """Return whether the weights of stages are gathered."""
    return problem.costs.gather is not None or problem.sharding.divides(WEIGHTS)


def reduces(problem: Problem) -> bool:
    """Return whether the gradients of stages are reduced."""
    is_asked = problem.costs.reduce is not None or problem.sharding.divides(GRADIENTS)
    return is_asked and problem.mode != FORWARD_ONLY


def updates(problem: Problem) -> bool:
    """Return whether stages have optimizers."""
    return problem.costs.optimizer is not None


def tied_stages(problem: Problem) -> tuple[int, ...]:
    """Return the first and the last stage where they reduce tied gradients between two devices."""
    there = problem.settled_placement.devices
    return (0, problem.stages - 1) if problem.costs.tied is not None and there[0] != there[-1] else ()


def step_ends(problem: Problem) -> StepEnds:
    """Return what the step of a problem adds; nothing, where it has none.

    Before the first F of a stage all stages of its device up to it are gathered, one after another, and side work into
    it has run. Behind the last B or W come its reduction, that of tied gradients, and optimizers: its own or, where
    gradients are clipped by their norm, those of any device.
    """
    count = problem.stages
    if not problem.has_step:
        return StepEnds(*[(0,) * count] * 3)
    ticks, ends, there = problem.step_ticks, tied_stages(problem), problem.settled_placement.devices
    own = ticks.optimizer
    updated = [max(own[one] for one in ends) if stage in ends else own[stage] for stage in range(count)]
    if problem.clip:
        by_device = [sum(own[stage] for stage in range(count) if there[stage] == device) for device in {*there}]
        updated = [max(by_device)] * count
    reduced = [after + (ticks.tied if stage in ends else 0) for stage, after in enumerate(updated)]
    behind = [time + after for time, after in zip(ticks.reduce, reduced, strict=True)]
    released, gradients, gathered = [0] * count, [0] * count, dict.fromkeys(there, 0)
    for stage, device in enumerate(there):
        gathered[device] += ticks.gather[stage]
        released[stage] = gathered[device]
    for number, item in enumerate(problem.side):
        before, after = (least_side(problem, number, key) for key in ("forward", "backward"))
        released[item.into] = max(released[item.into], before)
        if item.backward is not None:
            gradients[item.into] = max(gradients[item.into], after)
    return StepEnds(released, behind, gradients, reduced, updated)


def least_side(problem: Problem, number: int, key: str) -> int:
    """Return the least that side work of any microbatch takes before (or behind) the pass of its stage, in ticks."""
    item, ticks = problem.side[number], problem.step_ticks
    home = problem.settled_placement.devices[item.into]
    return min(
        ticks.side_lasts(key, number, microbatch, device) + (ticks.side_p2p[number] if device != home else 0)
        for device in item.devices
        for microbatch in distinct_microbatches(problem, number, key)
    )


def distinct_microbatches(problem: Problem, number: int, key: str) -> range:
    """Return microbatches among which are all times of an item's "forward" or "backward"."""
    times = getattr(problem.side[number], key)
    return range(problem.microbatches if times is not None and len(times) > 1 else 1)


def side_times(problem: Problem, number: int, key: str) -> Iterator[int]:
    """Yield for each microbatch the least that an item's "forward" or "backward" lasts on any of its devices."""
    devices, lasts = problem.side[number].devices, problem.step_ticks.side_lasts
    each = distinct_microbatches(problem, number, key)
    every = [min(lasts(key, number, microbatch, device) for device in devices) for microbatch in each]
    yield from every * (problem.microbatches // len(every))


def step_times(problem: Problem) -> Iterator[int]:
    """Yield all durations and latencies of a step that occur, in ticks."""
    ticks = problem.step_ticks
    yield from (*ticks.gather, *ticks.reduce, *ticks.optimizer, ticks.tied, *ticks.side_p2p)
    for number, item in enumerate(problem.side):
        for key in ("forward", "backward"):
            for microbatch in distinct_microbatches(problem, number, key):
                yield from (ticks.side_lasts(key, number, microbatch, device) for device in item.devices)


class StagePasses(NamedTuple):
    """What bounds know of the passes of a stage, in ticks: when the first may start, and what they take together.

    `first_end` is the least end of its B or W (of forwards alone its F), `tail` what follows the last one at least,
    `after_first` what follows the start of some F, `gradient` the least end of an input gradient, `before_use` what
    follows the start of any F.
    """

    head: int
    work: int
    first_end: int
    tail: int
    after_first: int
    gradient: int
    before_use: int


class SharedWork(NamedTuple):
    """Side work that any of several devices may do."""

    devices: tuple[int, ...]
    jobs: list[Job]


class StepJobs:
    """The jobs of a step, by what is known of the passes of its stages."""

    def __init__(self, problem: Problem, passes: Sequence[StagePasses], *, paired: bool) -> None:
        self.problem, self.passes, self.ends = problem, passes, step_ends(problem)
        self._there = problem.settled_placement.devices
        self.slots: list[list[Job]] = [[] for _ in range(problem.devices)]
        self.lanes: list[list[Job]] = [[] for _ in range(problem.devices)]
        self.shared: list[SharedWork] = []
        if problem.has_step:
            self._gathers(paired=paired)
            self._reductions()
            self._optimizers()
            self._side()

    def _gathers(self, *, paired: bool) -> None:
        """Let all passes of a stage follow its gather, or all but the first F those for which it is gathered again.

        These come between two slots of its device, which does nothing meanwhile. Each F frees its stage, but for one in
        a pair with a backward of the same stage; the first is in none. Behind the last F of a step comes its backward.
        """
        problem = self.problem
        units = 1 if paired else problem.microbatches * problem.slices.count - (problem.mode == FORWARD_ONLY)
        for stage, device in enumerate(self._there if gathers(problem) else ()):
            one = self.passes[stage]
            tail = max(one.work + one.tail, one.after_first)
            self.lanes[device].append(Job(0, problem.step_ticks.gather[stage], tail))
            if problem.sharding.gathers_each and units:
                again = Job(one.head, units * problem.step_ticks.gather[stage], one.tail)
                self.lanes[device].append(again)
                self.slots[device].append(again)

    def _reductions(self) -> None:
        """Let reductions follow all passes of their stage, or those of their microbatch; tied ones all others."""
        problem, ticks = self.problem, self.problem.step_ticks
        each = problem.sharding.reduces_each
        for stage, device in enumerate(self._there if reduces(problem) else ()):
            head = self.passes[stage].first_end if each else self._done(stage)
            work = ticks.reduce[stage] * (problem.microbatches if each else 1)
            self.lanes[device].append(Job(head, work, self.ends.reduced[stage]))
        ends = tied_stages(problem)
        for stage in ends:
            head = max(map(self._reduced, ends))
            self.lanes[self._there[stage]].append(Job(head, ticks.tied, max(self.ends.updated[one] for one in ends)))

    def _optimizers(self) -> None:
        """Let optimizers follow the gradients of their stage, of tied stages both, or where they are clipped all."""
        problem, ends = self.problem, tied_stages(self.problem)
        done = [*map(self._reduced, range(problem.stages))]
        if ends:
            done[0] = done[-1] = max(done[0], done[-1]) + problem.step_ticks.tied
        for stage, device in enumerate(self._there if updates(problem) else ()):
            head = max(done) if problem.clip else done[stage]
            self.slots[device].append(Job(head, problem.step_ticks.optimizer[stage], 0))

    def _side(self) -> None:
        """Count side work of a single device there; all other is shared."""
        for number, item in enumerate(self.problem.side):
            one, home = self.passes[item.into], self._there[item.into]
            lag = 0 if home in item.devices else self.problem.step_ticks.side_p2p[number]
            jobs = [Job(0, sum(side_times(self.problem, number, "forward")), lag + one.before_use)]
            if item.backward is not None:
                jobs.append(Job(one.gradient + lag, sum(side_times(self.problem, number, "backward")), 0))
            if len(item.devices) == 1:
                self.slots[item.devices[0]] += jobs
            else:
                self.shared.append(SharedWork(tuple(sorted(item.devices)), jobs))

    def _done(self, stage: int) -> int:
        """Return when all passes of a stage can have ended."""
        return self.passes[stage].head + self.passes[stage].work

    def _reduced(self, stage: int) -> int:
        """Return when the gradients of a stage can be there, reduced."""
        return self._done(stage) + self.problem.step_ticks.reduce[stage]

    def groups(self) -> list[SharedWork]:
        """Return for each set of devices that share side work all of it that none beside them may do."""
        sets = {one.devices for one in self.shared}
        sets |= {tuple(sorted({*one, *other})) for one in sets for other in sets}
        return [
            SharedWork(devices, [job for one in self.shared if {*one.devices} <= {*devices} for job in one.jobs])
            for devices in sorted(sets)
        ]
