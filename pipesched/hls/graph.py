"""The dataflow graph: operations, and which needs the result of which, of the same iteration or an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pipesched.checks import require_sequence, require_text, require_whole, shown
from pipesched.errors import ConfigError

SHOWN = 100  # letters of a program's line in a message


class GraphError(ConfigError):
    """A bad program or graph. The text says itself where the mistake is, so it does not begin with the parameter."""

    def __str__(self) -> str:
        return super().__str__() if self.where else self.message


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


class Delay(NamedTuple):
    """`after` needs the value that an input of the program had `distance` iterations of the loop earlier.

    An input is there during its own iteration; from the start of the next one on a register holds it.
    """

    input: str
    after: int
    distance: int


class SourcePosition(NamedTuple):
    """A position in a program: its name, the line (from 1) and the column (from 0), and the text of the line."""

    program: str
    line: int
    column: int
    text: str

    def error(self, what: str, key: str | None = None) -> ConfigError:
        """Return an error about the parameter `key`.

        It says `what`, and shows the line (of a long one, the part around the column), and a caret under it.
        """
        first = max(self.column - SHOWN // 2, 0) if len(self.text) > SHOWN else 0
        text = "".join(letter if letter.isprintable() else " " for letter in self.text[first : first + SHOWN])
        caret = " " * (self.column - first) + "^"
        return GraphError(f"{self.program}:{self.line}:{self.column + 1}: {what}\n  {text}\n  {caret}", key)


@dataclass(frozen=True, repr=False)
class DataflowGraph:
    """Operations, their dependences, and what they need of inputs of earlier iterations, each once.

    Raises ConfigError, about the field at fault, for what is no operation or dependence, and for a dependence on an
    operation that is not there. So it does for a cycle of dependences of distance 0.
    """

    operations: tuple[Operation, ...]
    dependences: tuple[Dependence, ...] = ()
    name: str = ""
    marks: tuple[SourcePosition, ...] = ()  # where a program has each operation
    delays: tuple[Delay, ...] = ()  # of inputs

    def __post_init__(self) -> None:
        self._require_types()
        if not self.operations:
            raise GraphError(f"{self.name or 'the graph'} has no operation to schedule", "operations")
        cycle = _cycle([[edge.before for edge in self.inputs(task) if not edge.distance] for task in range(len(self))])
        if cycle:
            chain = " -> ".join(self.operations[task].name for task in cycle)
            raise GraphError(
                f"{self.name or 'the graph'}: the operations {chain} wait for each other in a cycle;"
                " a loop needs a dependence of distance 1 or more on it: [from, to, 1]",
                "dependences",
            )

    def _require_types(self) -> None:
        require_text(self.name, "name")
        kinds = {"operations": Operation, "dependences": Dependence, "marks": SourcePosition, "delays": Delay}
        for key, kind in kinds.items():
            object.__setattr__(self, key, tuple(require_sequence(getattr(self, key), key)))
            for entry, value in enumerate(getattr(self, key)):
                if not isinstance(value, kind):
                    raise ConfigError(f"must be {kind.__name__}s, not {shown(value)}", key, entry=entry)
        for entry, operation in enumerate(self.operations):
            if not all(isinstance(text, str) for text in operation):
                raise ConfigError(f"must hold texts, not {shown(operation)}", "operations", entry=entry)
        for entry, (before, after, distance) in enumerate(self.dependences):
            for task in (before, after):
                require_whole(task, "dependences", most=len(self.operations) - 1, entry=entry)
            require_whole(distance, "dependences", entry=entry)
        for entry, delay in enumerate(self.delays):
            require_text(delay.input, "delays")
            require_whole(delay.after, "delays", most=len(self.operations) - 1, entry=entry)
            require_whole(delay.distance, "delays", least=1, entry=entry)
        if len(self.marks) not in (0, len(self.operations)):
            raise ConfigError("must be one for each operation, or none", "marks")

    def __repr__(self) -> str:
        sizes = f"{len(self.operations)} operations, {len(self.dependences)} dependences"
        return f"DataflowGraph({shown(self.name, 40)}, {sizes})"

    def __len__(self) -> int:
        return len(self.operations)

    def inputs(self, task: int) -> Sequence[Dependence]:
        """Return the dependences that lead to an operation."""
        return self._edges[0][task]

    def uses(self, task: int) -> Sequence[Dependence]:
        """Return the dependences that leave an operation."""
        return self._edges[1][task]

    @cached_property
    def _edges(self) -> tuple[list[list[Dependence]], list[list[Dependence]]]:
        leading: list[list[Dependence]] = [[] for _ in self.operations]
        leaving: list[list[Dependence]] = [[] for _ in self.operations]
        for edge in self.dependences:
            leading[edge.after].append(edge)
            leaving[edge.before].append(edge)
        return leading, leaving

    @property
    def is_loop(self) -> bool:
        """Whether something needs a value of an earlier iteration."""
        return bool(self.delays) or any(edge.distance for edge in self.dependences)

    def wrong(self, task: int, what: str) -> ConfigError:
        """Return the error that says why no unit runs an operation, and shows its position in a program."""
        if self.marks:
            return self.marks[task].error(what, "units")
        return GraphError(f"{self.name or 'graph'}: operation {shown(self.operations[task].name)}: {what}", "units")


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
