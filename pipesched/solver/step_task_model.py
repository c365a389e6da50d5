"""The tasks of the exact model of a case with a step, before any rule."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from pipesched.core.clock import look
from pipesched.core.integers import ceil_div
from pipesched.solver.case import Case
from pipesched.solver.model import TunedModel
from pipesched.solver.step_rules import StepRules


class StepTaskModel(TunedModel):
    """The tasks of a case with a step whose makespan lies in [least, most] ticks."""

    def __init__(self, case: Case, rules: StepRules, least: int, most: int) -> None:
        super().__init__(case)
        self.rules, self.step, self.quantum = rules, rules.step, case.quantum
        self.problem, self.index = case.problem, case.index
        self.least, self.horizon = ceil_div(least, self.quantum), most // self.quantum
        optional = {*chain.from_iterable((*one.forwards.values(), *one.backwards.values()) for one in self.step.side)}
        columns = rules.graph.durations, rules.heads, rules.tails
        for number, (ticks, head, tail) in enumerate(zip(*columns, strict=True)):
            lasts, last = ticks // self.quantum, (most - tail - ticks) // self.quantum
            if number in optional:
                self.optional(lasts, last)
            else:
                self.task(lasts, head // self.quantum, last)

    def is_one_of(self, start: Any, causes: Sequence[Any]) -> list[Any]:
        """Return a literal of each time that a start is this one."""
        found = []
        for cause in causes:
            look()
            found.append(self.model.new_bool_var(""))
            self.model.add(start == cause).only_enforce_if(found[-1])
        return found
