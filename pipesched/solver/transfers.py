"""The exact model with offload and recompute: each activation is kept, offloaded or recomputed.

Microbatches are no longer alike once they are treated differently, so only one row of operations has them in order,
and gives them their numbers: the last one, the backwards of stage 0. (Three devices, four microbatches, f=1, B=2,
budget 2, offload 3: 20 this way, 21 with every row in order. Numbers by the first row are as sound, but proofs take up
to 30 times as long.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from math import gcd
from typing import Any, NamedTuple

from pipesched.core.cpsat import Limits, Model
from pipesched.core.paths import heads, tails
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import UNTIMED
from pipesched.pipeline.floor import KEEP, Relief
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.schedule import Schedule, assemble, schedule_plan
from pipesched.pipeline.waits import plan_of_times
from pipesched.solver.case import Case


@dataclass(frozen=True, eq=False)
class SavingCase(Case):
    """A case whose activations may be relieved. `index` and `graph` are those of the plain operations, F to W, which
    have the same numbers in `full`."""

    relief: Relief = KEEP

    @cached_property
    def full(self) -> OpIndex:
        """All operations that may run."""
        saving = "R" * self.relief.recompute + "OL" * self.relief.offload
        return self.index._replace(kinds=self.index.kinds + saving)

    @cached_property
    def ordered(self) -> TaskGraph:
        """The rules alone: neither the order of microbatches nor the budget says more here."""
        return self.graph

    @cached_property
    def quantum(self) -> int:
        """The greatest common divisor of all times."""
        full = lower(self.problem, self.full)
        return gcd(*full.durations, *(edge.lag for edge in full.edges)) or 1

    def replay(self, starts: Sequence[int]) -> Schedule:
        """The schedule of the order that `starts` (ticks; UNTIMED for what does not run) has, with its own times."""
        times = self.sorted_rows(starts)
        plan = plan_of_times(self.problem, self.full, times)
        schedule = schedule_plan(self.problem, plan)
        return schedule if schedule.fits else self._as_found(plan, times)

    def _as_found(self, plan: Plan, starts: Sequence[int]) -> Schedule:
        """The times as they are: several operations of no length at one instant have no order that a plan can say."""
        durations = lower(self.problem, self.full).durations
        ends = [start if start == UNTIMED else start + time for start, time in zip(starts, durations, strict=True)]
        return assemble(self.problem, plan, starts, ends)

    def sorted_rows(self, starts: Sequence[int]) -> list[int]:
        """`starts` with the microbatches numbered as in the model, and UNTIMED for what does not run."""
        times = [*(max(start, UNTIMED) for start in starts), *([UNTIMED] * (self.full.size - len(starts)))]
        order = [m for half in self.halves for m in sorted(half, key=lambda m: times[self.last[m]])]
        rows = range(0, self.full.size, self.full.microbatches)
        return [times[row + microbatch] for row in rows for microbatch in order]

    @property
    def last(self) -> range:
        """The operations that give the microbatches their numbers: the backwards of stage 0."""
        return self.index.row(self.index.kinds[1], 0)

    @property
    def halves(self) -> tuple[range, range]:
        """The microbatches that are alike: each half where the placement is mirrored, else all."""
        count = self.index.microbatches
        half = count // 2 if self.problem.home().mirrored else 0
        return range(half), range(half, count)

    def adopted(self, schedule: Schedule) -> Schedule | None:
        """A schedule of the same problem as one of this case; None when it runs what this case does not allow."""
        index, starts = schedule.plan.index, [UNTIMED] * self.full.size
        for number in chain(*schedule.plan.machines):
            op = index.op(number)
            if op.kind not in self.full.kinds:
                return None
            starts[self.full.number(op)] = schedule.starts[number]
        return None if schedule.plan.pairs else self.replay(starts)


class Treatment(NamedTuple):
    """What may happen to one activation: its operations, and the literal of each way (None: not allowed)."""

    stage: int
    device: int
    forward: int
    backward: int  # B or I
    weight: int  # W, or B again
    keep: Any
    recompute: Any
    again: int  # R
    offload: Any
    out: int  # O
    back: int  # L


class SavingModel(Model):
    """A case whose objective lies in [least, most] ticks. Task numbers are the numbers of `case.full`."""

    def __init__(self, case: SavingCase, least: int, most: int) -> None:
        super().__init__()
        self.case, self.quantum = case, case.quantum
        self.least, self.most = -(-least // self.quantum), most // self.quantum
        devices = case.problem.devices
        wait = 0 if case.objective == "makespan" else most * (devices - 1) + sum(case.problem.costs.p2p)
        self.horizon = (most + wait) // self.quantum
        self.presences: dict[int, Any] = {}
        for duration, head, tail in zip(case.graph.durations, heads(case.graph), tails(case.graph), strict=True):
            self.task(duration // self.quantum, head // self.quantum, (most + wait - tail - duration) // self.quantum)
        durations = lower(case.problem, case.full).durations
        for duration in durations[len(self.starts) :]:
            self.optional(duration // self.quantum)
        self.treatments = list(self._treatments())

    def tune(self, parameters: Any, limits: Limits) -> None:
        """An activation's stays exclude each other under a tight budget; this makes a proof five times as fast."""
        parameters.use_hard_precedences_in_cumulative = True
        parameters.exploit_all_precedences = True

    def optional(self, duration: int) -> int:
        """A new task that may be left out: then it starts at UNTIMED. Returns its number."""
        window = self.cp.Domain.from_intervals([[UNTIMED, UNTIMED], [0, self.horizon - duration]])
        start, present = self.model.new_int_var_from_domain(window, ""), self.model.new_bool_var("")
        self.model.add(start >= 0).only_enforce_if(present)
        self.model.add(start == UNTIMED).only_enforce_if(~present)
        self.presences[len(self.starts)] = present
        self.starts.append(start)
        self.durations.append(duration)
        self.intervals.append(self.model.new_optional_fixed_size_interval_var(start, duration, present, ""))
        return len(self.starts) - 1

    def _treatments(self) -> Iterator[Treatment]:
        index, pools = self.case.full, self.case.graph.pools
        first_backward, last_backward = self.case.index.kinds[1], self.case.index.kinds[-1]
        for stage in range(index.stages):
            rows = {kind: index.row(kind, stage) for kind in index.kinds}
            for microbatch, forward in enumerate(rows["F"]):
                number = {kind: row[microbatch] for kind, row in rows.items()}
                again, out, back = (number.get(kind, UNTIMED) for kind in "ROL")
                yield Treatment(
                    stage,
                    pools[forward],
                    forward,
                    number[first_backward],
                    number[last_backward],
                    self.model.new_bool_var(""),
                    self.presences.get(again),
                    again,
                    self.presences.get(out),
                    out,
                    back,
                )

    def dependencies(self) -> None:
        """F, B, I and W after what they wait for, with the latency between devices."""
        for before, after, lag in self.case.graph.arrows():
            self.after(before, after, lag // self.quantum)

    def numbering(self) -> None:
        """Microbatches leave in the order of their numbers."""
        last = self.case.last
        for half in self.case.halves:
            for before, after in pairwise(half):
                self.after(last[before], last[after])

    def choices(self) -> None:
        """Exactly one of keep, recompute and offload; and what each needs in what order."""
        for one in self.treatments:
            self.model.add_exactly_one(way for way in (one.keep, one.recompute, one.offload) if way is not None)
            if one.recompute is not None:
                self._chain(one.recompute, one.forward, one.again, one.backward)
            if one.offload is not None:
                self.model.add_implication(one.offload, self.presences[one.back])
                self.model.add_implication(self.presences[one.back], one.offload)
                self._chain(one.offload, one.forward, one.out, one.back, one.backward)

    def _chain(self, present: Any, *tasks: int) -> None:
        """Each of `tasks` after the one before it, if `present`."""
        for before, after in pairwise(tasks):
            self.model.add(self.starts[after] >= self.end(before)).only_enforce_if(present)

    def devices(self) -> None:
        """A device runs one operation at a time, recomputes among them; and so does a lane."""
        graph = lower(self.case.problem, self.case.full)
        rows: list[list[int]] = [[] for _ in graph.capacities]
        for task, resource in enumerate(graph.resources):
            rows[resource].append(task)
        for row in rows:
            self.one_at_a_time(row)

    def memory(self) -> None:
        """The activations that a device holds at any time fit its room."""
        for device, room in enumerate(self.case.problem.room()):
            if room is None:
                continue
            stays = [stay for one in self.treatments if one.device == device for stay in self._stays(one) if stay[1]]
            unit = gcd(*(size for _, size in stays)) or 1
            self.model.add_cumulative(
                [interval for interval, _ in stays], [size // unit for _, size in stays], room // unit
            )

    def _stays(self, one: Treatment) -> Iterator[tuple[Any, int]]:
        """The intervals in which an activation, or a part of it, is on its device, with their sizes in grains."""
        memory = self.case.problem.memory
        size, kept, held = (sizes[one.stage] for sizes in (memory.activation, memory.checkpointed, memory.retained))
        ran, needed = self.end(one.forward), self.starts[one.backward]
        yield self.intervals[one.forward], size
        if held == size:
            yield self._stay(needed, self.end(one.weight), None), size
        else:
            yield self.intervals[one.backward], size
            yield self._stay(self.end(one.backward), self.end(one.weight), None), held
        if one.offload is not None:
            yield self._stay(ran, self.end(one.out), one.offload), size
            yield self._stay(self.starts[one.back], needed, one.offload), size
        if one.recompute is not None:
            yield self._stay(ran, needed, None if one.offload is None else ~one.offload), kept
            yield self._stay(self.starts[one.again], needed, one.recompute), size - kept
            yield self._stay(ran, needed, one.keep), size - kept
        else:
            yield self._stay(ran, needed, one.keep), size

    def _stay(self, start: Any, end: Any, present: Any) -> Any:
        length = self.model.new_int_var(0, self.horizon, "")
        if present is None:
            return self.model.new_interval_var(start, length, end, "")
        return self.model.new_optional_interval_var(start, length, end, present, "")

    def objective(self) -> None:
        """Minimize the makespan, or the span: the largest, over devices, of last end less first start."""
        goal = self.model.new_int_var(self.least, self.most, self.case.objective)
        first: list[Any] = [0] * self.case.problem.devices
        if self.case.objective == "span":
            first = [self.model.new_int_var(0, self.horizon, "") for _ in first]
            for one in self.treatments:
                self.model.add(first[one.device] <= self.starts[one.forward])
        for one in self.treatments:
            self.model.add(self.end(one.weight) - first[one.device] <= goal)
        self.model.minimize(goal)

    def hint(self, starts: Sequence[int]) -> None:
        """A schedule to begin from, and what it does to each activation."""
        super().hint(starts)
        for task, present in self.presences.items():
            self.model.add_hint(present, starts[task] != UNTIMED)


def saving_model(case: SavingCase, least: int, most: int) -> SavingModel:
    """Every rule of a case with offload or recompute."""
    model = SavingModel(case, least, most)
    model.dependencies()
    model.numbering()
    model.choices()
    model.devices()
    model.memory()
    model.objective()
    return model
