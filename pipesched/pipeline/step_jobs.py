"""The work of a step beside its passes, as jobs with heads and tails: of devices, of network lanes, of any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipesched.core.bounds import Job
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step_ends import gathers, reduces, side_times, step_ends, tied_stages, updates
from pipesched.pipeline.units import FORWARD_ONLY


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

    def __init__(self, problem: Problem, passes: Sequence[StagePasses]) -> None:
        self.problem, self.passes, self.ends = problem, passes, step_ends(problem)
        self.slots: list[list[Job]] = [[] for _ in range(problem.devices)]
        self.lanes: list[list[Job]] = [[] for _ in range(problem.devices)]
        self.shared: list[SharedWork] = []
        if problem.has_step:
            self._gathers()
            self._reductions()
            self._optimizers()
            self._side()

    def _gathers(self) -> None:
        """Let all passes of a stage follow its gather."""
        for stage, device in enumerate(self._there if gathers(self.problem) else ()):
            one = self.passes[stage]
            tail = max(one.work + one.tail, one.after_first)
            self.lanes[device].append(Job(0, self.problem.step_ticks.gather[stage], tail))

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
            if item.backward is not None and self.problem.mode != FORWARD_ONLY:
                jobs.append(Job(one.gradient + lag, sum(side_times(self.problem, number, "backward")), 0))
            if len(item.devices) == 1:
                self.slots[item.devices[0]] += jobs
            else:
                self.shared.append(SharedWork(tuple(sorted(item.devices)), jobs))

    @property
    def _there(self) -> tuple[int, ...]:
        return self.problem.settled_placement.devices

    def _done(self, stage: int) -> int:
        """Return when all passes of a stage can have ended."""
        return self.passes[stage].head + self.passes[stage].work

    def _reduced(self, stage: int) -> int:
        """Return when the gradients of a stage can be there, reduced."""
        reduce = self.problem.step_ticks.reduce[stage] if reduces(self.problem) else 0
        return self._done(stage) + reduce

    def groups(self) -> list[SharedWork]:
        """Return for each set of devices that share side work all of it that none beside them may do."""
        sets = {one.devices for one in self.shared}
        sets |= {tuple(sorted({*one, *other})) for one in sets for other in sets}
        return [
            SharedWork(devices, [job for one in self.shared if {*one.devices} <= {*devices} for job in one.jobs])
            for devices in sorted(sets)
        ]
