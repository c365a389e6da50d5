"""The CP-SAT model of a cut: which of the possible chunks to take."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, lcm
from typing import Any, NamedTuple

from pipesched.core.clock import Clock
from pipesched.core.integers import ceil_div
from pipesched.core.loading import load
from pipesched.estimation.cutting.costs import Amount, Costs, Ends, Judgement

MOST_CHOICES = 60_000  # chunks in a model; a larger one has no answer within seconds
WIDEST = 2**60  # of a sum of bytes, in fractions of a byte


class Choice(NamedTuple):
    """A chunk that may be: its number, and its items."""

    stage: int
    begin: int
    end: int


def least_total(costs: Costs) -> int:
    """Return the least work of all chunks together that a cut into so many chunks can have."""
    best = {0: 0}
    for stage in range(costs.stages):
        last = costs.items - costs.stages + stage + 1
        ends = range(stage + 1, last + 1) if stage < costs.stages - 1 else range(costs.items, costs.items + 1)
        best = {
            end: min(total + costs.at(begin, end).work for begin, total in best.items() if begin < end) for end in ends
        }
    return best[costs.items]


def possible_chunks(costs: Costs, known: Judgement, place: int) -> list[Choice] | None:
    """Return all chunks of cuts no worse than a known one up to number `place` of its judgement; None if too many."""
    single = min(costs.at(item, item + 1).work for item in range(costs.items))
    spare, found = costs.items - costs.stages, list[Choice]()
    for stage, device in enumerate(costs.question.devices):
        others = single * (len(costs.question.stages_on[device]) - 1)
        most = known.device - others if place else costs.at(0, costs.items).work
        for begin in range(stage, stage + spare + 1) if stage else (0,):
            for end in range(begin + 1, stage + 2 + spare):
                if costs.at(begin, end).work > most or _least_excess(costs, Choice(stage, begin, end)) > known.excess:
                    break
                if stage < costs.stages - 1 or end == costs.items:
                    found.append(Choice(stage, begin, end))
            if len(found) > MOST_CHOICES:
                return None
    return found


def _least_excess(costs: Costs, choice: Choice) -> Amount:
    """Return by how many bytes a device is above its capacity with one chunk alone."""
    question = costs.question
    device = question.devices[choice.stage]
    capacity, place = question.capacity[device], question.stages_on[device].index(choice.stage)
    if capacity is None:
        return 0
    count = max(vector[place] for vector in question.held[device])
    chunk = costs.at(choice.begin, choice.end)
    return chunk.static + count * chunk.activation - capacity


class Model:
    """The choices and the rules. Number `place` of the judgement is minimized, those before it are kept."""

    def __init__(self, costs: Costs, ends: Ends, choices: list[Choice], place: int) -> None:
        self.costs, self.ends, self.place = costs, ends, place
        self.known = costs.judge(ends)
        self.cp = load("sat.python.cp_model")
        self.model = self.cp.CpModel()
        self.taken = {choice: self.model.new_bool_var("") for choice in choices}
        self.scale, self.is_exact = self._scale()
        self.goals = self._goals()
        self._connect()
        for device in range(len(costs.question.capacity)):
            self._work(device)
            self._memory(device)
        self.model.minimize(self.goals[place])

    def solve(self, clock: Clock) -> tuple[Ends, bool]:
        """Return the best cut found while there is time, and whether it is proved to be the best."""
        solver = self.cp.CpSolver()
        solver.parameters.max_time_in_seconds = clock.left
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        status = solver.solve(self.model)
        if status not in {self.cp.OPTIMAL, self.cp.FEASIBLE}:
            return self.ends, False
        ends = sorted(choice.end for choice, variable in self.taken.items() if solver.boolean_value(variable))
        return tuple(ends), self.is_exact and status == self.cp.OPTIMAL

    def _goals(self) -> list[Any]:
        """Return variables of the three numbers of a judgement: bytes, work of a device, work of a chunk."""
        whole = self.costs.at(0, self.costs.items).work * self.costs.stages
        least = ceil_div(least_total(self.costs), len(self.costs.question.capacity))
        most = [self.known.device if self.place else whole, self.known.chunk if self.place == 2 else whole]
        return [
            self.model.new_int_var(0, int(self.known.excess * self.scale), "excess"),
            self.model.new_int_var(min(least, most[0]), most[0], "device"),
            self.model.new_int_var(0, most[1], "chunk"),
        ]

    def _connect(self) -> None:
        """Let each chunk be one of the choices, and begin where the one before it ends."""
        leaving, arriving = dict[tuple[int, int], list[Any]](), dict[tuple[int, int], list[Any]]()
        chunks: list[list[Any]] = [[] for _ in range(self.costs.stages)]
        known = {*map(Choice, range(self.costs.stages), (0, *self.ends), self.ends)}
        for choice, variable in self.taken.items():
            leaving.setdefault((choice.stage, choice.begin), []).append(variable)
            arriving.setdefault((choice.stage + 1, choice.end), []).append(variable)
            chunks[choice.stage].append(variable)
            self.model.add_hint(variable, choice in known)
        for variables in chunks:
            self.model.add_exactly_one(variables)
        for node in sorted({*leaving, *arriving} - {(0, 0), (self.costs.stages, self.costs.items)}):
            self.model.add(sum(leaving.get(node, [])) == sum(arriving.get(node, [])))

    def _work(self, device: int) -> None:
        """Keep the work of a device and of its chunks within the goals."""
        total = []
        for stage in self.costs.question.stages_on[device]:
            of_stage = [(choice, variable) for choice, variable in self.taken.items() if choice.stage == stage]
            work = sum(self.costs.at(choice.begin, choice.end).work * variable for choice, variable in of_stage)
            self.model.add(work <= self.goals[2])
            total.append(work)
        self.model.add(sum(total) <= self.goals[1])

    def _memory(self, device: int) -> None:
        """Keep the bytes of a device within its capacity and the goal."""
        question = self.costs.question
        capacity, stages = question.capacity[device], question.stages_on[device]
        if capacity is None:
            return
        for vector in question.held[device]:
            held = dict(zip(stages, vector, strict=True))
            total = []
            for choice, variable in self.taken.items():
                if choice.stage in held:
                    chunk = self.costs.at(choice.begin, choice.end)
                    amount = chunk.static + held[choice.stage] * chunk.activation
                    total.append(ceil(amount * self.scale) * variable)
            self.model.add(sum(total) <= int(capacity * self.scale) + self.goals[0])

    def _scale(self) -> tuple[int, bool]:
        """Return by what bytes are multiplied to be integers, and whether they then are: they must not get too long."""
        question = self.costs.question
        if not question.is_limited:
            return 1, True
        chunks = [self.costs.at(choice.begin, choice.end) for choice in self.taken]
        amounts: list[Amount] = [capacity for capacity in question.capacity if capacity is not None]
        for chunk in chunks:
            amounts += [chunk.static, chunk.activation]
        scale = lcm(*{Fraction(amount).denominator for amount in amounts})
        count = max(number for vectors in question.held for vector in vectors for number in vector)
        return (scale, True) if scale * sum(amounts) * max(count, 1) < WIDEST else (1, scale == 1)
