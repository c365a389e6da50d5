"""The dataflow graph: operations, and which needs the result of which, of the same iteration or an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pipesched.errors import ConfigError

SHOWN = 100  # letters of a program's line in a message


class Operation(NamedTuple):
    """One operation: its name, its type (`mul`, `add`, ...), and if a program gives it no name, its text there."""

    name: str
    type: str
    text: str = ""


class Dependence(NamedTuple):
    """`after` needs the result of `before`, `distance` iterations of the loop earlier (0: of the same iteration)."""

    before: int
    after: int
    distance: int = 0


class Mark(NamedTuple):
    """A position in a program: its name, the line (from 1) and the column (from 0), and the text of the line."""

    program: str
    line: int
    column: int
    text: str

    def error(self, what: str) -> ConfigError:
        """Return an error with `what`, the line (of a long one, the part around the column), and a caret under it."""
        first = max(self.column - SHOWN // 2, 0) if len(self.text) > SHOWN else 0
        shown = "".join(letter if letter.isprintable() else " " for letter in self.text[first : first + SHOWN])
        caret = " " * (self.column - first) + "^"
        return ConfigError(f"{self.program}:{self.line}:{self.column + 1}: {what}\n  {shown}\n  {caret}")


@dataclass(frozen=True)
class DataflowGraph:
    """Operations and their dependences, each once. A dependence of distance 0 belongs to no cycle (ConfigError)."""

    operations: tuple[Operation, ...]
    dependences: tuple[Dependence, ...] = ()
    name: str = ""
    marks: tuple[Mark, ...] = ()  # where a program has each operation

    def __post_init__(self) -> None:
        if not self.operations:
            raise ConfigError(f"{self.name or 'the graph'} has no operation to schedule")
        cycle = _cycle([[edge.before for edge in self.inputs(task) if not edge.distance] for task in range(len(self))])
        if cycle:
            chain = " -> ".join(self.operations[task].name for task in cycle)
            raise ConfigError(
                f"{self.name or 'the graph'}: the operations {chain} wait for each other in a cycle;"
                " a loop needs a dependence of distance 1 or more on it: [from, to, 1]"
            )

    def __len__(self) -> int:
        return len(self.operations)

    def inputs(self, task: int) -> Sequence[Dependence]:
        """Return the dependences that lead to an operation."""
        return self._inputs[task]

    def uses(self, task: int) -> Sequence[Dependence]:
        """Return the dependences that leave an operation."""
        return self._uses[task]

    @cached_property
    def _inputs(self) -> list[list[Dependence]]:
        table: list[list[Dependence]] = [[] for _ in self.operations]
        for edge in self.dependences:
            table[edge.after].append(edge)
        return table

    @cached_property
    def _uses(self) -> list[list[Dependence]]:
        table: list[list[Dependence]] = [[] for _ in self.operations]
        for edge in self.dependences:
            table[edge.before].append(edge)
        return table

    @property
    def is_loop(self) -> bool:
        """Whether something needs a result of an earlier iteration."""
        return any(edge.distance for edge in self.dependences)

    def wrong(self, task: int, what: str) -> ConfigError:
        """Return the error that says what is wrong with an operation, and shows its position in a program."""
        if self.marks:
            return self.marks[task].error(what)
        return ConfigError(f"{self.name or 'graph'}: operation {self.operations[task].name!r}: {what}")


def _cycle(before: Sequence[Sequence[int]]) -> list[int]:
    """Return tasks that wait for each other in a cycle, the first of them again at the end; empty without a cycle."""
    waiting = [len(tasks) for tasks in before]
    after: list[list[int]] = [[] for _ in before]
    for task, tasks in enumerate(before):
        for earlier in tasks:
            after[earlier].append(task)
    done = [task for task, count in enumerate(waiting) if not count]
    for task in done:  # grows while it is walked
        for later in after[task]:
            waiting[later] -= 1
            if not waiting[later]:
                done.append(later)
    stuck = next((task for task, count in enumerate(waiting) if count), None)
    path: list[int] = []
    while stuck is not None and stuck not in path:
        path.append(stuck)
        stuck = next(earlier for earlier in before[stuck] if waiting[earlier])
    return [] if stuck is None else [stuck, *reversed(path[path.index(stuck) :])]
