"""The dataflow graph: operations, and which needs the result of which, of the same iteration or an earlier one.

A program becomes a `DataflowGraph` (`parse_program`): an expression, or assignments line by line. Python's parser
reads it; nothing is run. Every operator is an operation; a name that nothing assigns is an input. Equal subexpressions
stay apart. As the body of a loop, `x@k` is the value that x has at the end of the iteration k earlier. A name that is
read before its assignment is its `x@1`. So copies such as `x2 = x1` above `x1 = x` are a line of delays.

To Python `@` is an operator of the rank of `*`, so that `c*x@1` would be `(c*x)@1`. So `x@1` becomes `x_1`, of as many
letters, before the parser sees it, and its position says what it stands for: `x_1` elsewhere is a name of its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from keyword import iskeyword
from typing import NamedTuple, NoReturn

from pipesched.checks import require_flag, require_sequence, require_text, require_whole, shown
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
    sorter, stuck = TopologicalSorter(dict(enumerate(before))), {*range(len(before))}
    with suppress(CycleError):
        sorter.prepare()
        return []
    while ready := sorter.get_ready():
        sorter.done(*ready)
        stuck.difference_update(ready)
    task, path = min(stuck), list[int]()
    while task not in path:
        path.append(task)
        task = next(earlier for earlier in before[task] if earlier in stuck)
    return [task, *reversed(path[path.index(task) :])]


TYPES: dict[type[ast.AST], tuple[str, str]] = {  # operator -> (type of the operation, its sign)
    ast.Add: ("add", "+"), ast.Sub: ("sub", "-"), ast.Mult: ("mul", "*"), ast.Div: ("div", "/"),
    ast.FloorDiv: ("div", "//"), ast.LShift: ("lsl", "<<"), ast.RShift: ("asr", ">>"),
    ast.BitAnd: ("and", "&"), ast.BitOr: ("or", "|"), ast.BitXor: ("xor", "^"),
    ast.USub: ("neg", "-"), ast.Invert: ("not", "~"),
    ast.Lt: ("les", "<"), ast.LtE: ("leq", "<="), ast.Gt: ("gre", ">"), ast.GtE: ("geq", ">="),
    ast.Eq: ("equ", "=="), ast.NotEq: ("neq", "!="),
}  # fmt: skip
SPOKEN: dict[type[ast.AST], str] = {
    ast.Pow: "`**`", ast.Mod: "`%`", ast.BoolOp: "`and`, `or`", ast.Not: "`not`", ast.IfExp: "a condition",
    ast.Call: "a call", ast.Attribute: "an attribute", ast.Subscript: "a subscript",
    ast.NamedExpr: "an assignment inside an expression",
}  # fmt: skip
KNOWN = " ".join(dict.fromkeys(sign for _, sign in TYPES.values()))
MOST_ITERATIONS = 1_000  # that a value may be old
EARLIER = re.compile(r"(?<![\w.])([^\W\d]\w*)([ \t]*@[ \t]*([0-9]{1,9}))(?![\w.])")
Position = tuple[int, int]  # the line (from 1) and the column in bytes (from 0), as nodes of Python's parser have them
WrittenDelay = tuple[int, int]  # what stands behind a name: how many iterations back it is, in so many letters


class Operand(NamedTuple):
    """What a name stands for, `distance` iterations ago: the result `of` an operation, or an input of the program.

    In a loop it is also what an assigned name has at the end of the body (`is_fed`).
    """

    of: int | str
    distance: int = 0
    is_fed: bool = False


def parse_program(text: str, name: str = "expression", *, loop: bool = False) -> DataflowGraph:
    """Return the dataflow graph of a program; `name` stands in messages.

    As the body of a `loop`, the program may read a name before its assignment, and values of earlier iterations: `x@2`.
    Raises ConfigError; for a mistake in the program with the line, the column and a caret under it.
    """
    require_text(text, "text")
    require_text(name, "name")
    require_flag(loop, "loop")
    reader = _ProgramReader(text, name, loop)
    for statement in reader.statements():
        reader.run(statement)
    return reader.graph()


class _ProgramReader:
    """A program while it is read: the operations so far, and the value of each name."""

    def __init__(self, text: str, name: str, loop: bool) -> None:
        self.name, self.loop = name, loop
        self.lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")  # as Python's parser counts them
        self.earlier: dict[Position, WrittenDelay] = {}
        self.values: dict[str, Operand | None] = {}  # None: a constant
        self.assigned: dict[str, ast.Name] = {}  # the first assignment of each name
        self.operations: list[Operation] = []
        self.operands: list[list[Operand | None]] = []
        self.marks: list[SourcePosition] = []
        self.names: set[str] = set()

    def statements(self) -> list[ast.stmt]:
        """Parse the program, and note every name that it assigns."""
        text, self.earlier = rewrite(self.lines)
        try:
            body = ast.parse(text, self.name).body
        except SyntaxError as error:
            line, column = error.lineno or 1, max((error.offset or 1) - 1, 0)
            text = self.lines[line - 1] if line <= len(self.lines) else ""
            raise SourcePosition(self.name, line, min(column, len(text)), text).error(error.msg, "text") from None
        except (ValueError, RecursionError, MemoryError):  # a NUL byte, or thousands of parentheses
            raise GraphError(f"{self.name}: cannot be parsed: binary, or nested too deeply", "text") from None
        for statement in body:
            for target in _targets(statement):
                if isinstance(target, ast.Name):
                    self.assigned.setdefault(target.id, target)
        return body

    def run(self, statement: ast.stmt) -> None:
        """Read an assignment `x = ...` or `x += ...`, or an expression by itself."""
        targets = _targets(statement)
        for target in targets:
            if not isinstance(target, ast.Name) or (target.lineno, target.col_offset) in self.earlier:
                self._refuse(target, "only a name can be assigned")
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        if isinstance(statement, ast.Assign | ast.Expr):
            value = self._evaluate(statement.value, names)
        elif isinstance(statement, ast.AugAssign):
            left = ast.copy_location(ast.Name(names[0], ast.Load()), statement.target)
            whole = ast.BinOp(left, statement.op, statement.value)
            value = self._evaluate(ast.copy_location(whole, statement), names)
        else:
            self._refuse(statement, "a program is assignments, one a line: x = a + b")
        self.values.update(dict.fromkeys(names, value))

    def _evaluate(self, root: ast.expr, names: list[str]) -> Operand | None:
        """Return the value of an expression; add its operations innermost first, the outermost under one of `names`."""
        left, nodes = [root], list[ast.expr]()
        while left:  # without recursion, for sums of thousands of terms
            nodes.append(left.pop())
            left += _parts(nodes[-1])[1]
        values: dict[ast.expr, Operand | None] = {}
        for node in reversed(nodes):
            if isinstance(node, ast.Name):
                values[node] = self._read(node)
            elif isinstance(node, ast.Constant):
                if isinstance(node.value, bool) or not isinstance(node.value, int | float):
                    self._refuse(node, "only numbers and names can be operands")
                values[node] = None
            elif isinstance(node, ast.UnaryOp) and isinstance(
                node.op, ast.UAdd | ast.USub if isinstance(node.operand, ast.Constant) else ast.UAdd
            ):  # a sign that is no operation: a plus, or the minus of a number
                values[node] = values[node.operand]
            else:
                values[node] = self._operation(node, values, names if node is root else [])
        return values[root]

    def _read(self, node: ast.Name) -> Operand | None:
        """Return the value of a name: as assigned before, of an earlier iteration, or that of an input."""
        distance, letters = self.earlier.get((node.lineno, node.col_offset), (0, 0))
        if letters:
            name = node.id[:-letters]
            text = f"{name}@{distance}"
            if not 1 <= distance <= MOST_ITERATIONS:
                nearest = f"{name}@{min(max(distance, 1), MOST_ITERATIONS)}"
                limits = f"1 to {MOST_ITERATIONS:,} iterations"
                self._refuse(node, f"{text!r} must be a value of {limits} earlier; the nearest is {nearest!r}")
            if not self.loop:
                self._refuse(node, f"{text!r}, a value of an earlier iteration, needs a loop (`pipeline`)")
            return Operand(name, distance, name in self.assigned)
        if node.id in self.values:
            return self.values[node.id]
        if node.id not in self.assigned:
            return Operand(node.id)
        if not self.loop:
            line = self.assigned[node.id].lineno
            hint = "in a loop body, `pipeline`, that is its value of the previous iteration"
            self._refuse(node, f"{node.id!r} is used before its assignment on line {line} ({hint})")
        return Operand(node.id, 1, is_fed=True)

    def _operation(self, node: ast.expr, values: dict[ast.expr, Operand | None], names: list[str]) -> Operand:
        """Add the operation of an expression, by a name of `names` that is free, and return its value."""
        operator, operands = _parts(node)
        if len(operands) > 2:
            self._refuse(operands[2], "a comparison has two sides; write two of them")
        column = None  # of the operator, where it stands between two operands on one line
        if len(operands) == 2 and operands[0].end_lineno == operands[1].lineno:
            end = operands[0].end_col_offset or 0
            blank = self.lines[operands[1].lineno - 1].encode()[end : operands[1].col_offset]
            column = end + len(blank) - len(blank.lstrip(b" )\t"))
        if isinstance(operator, ast.MatMult):
            what = f"`@` takes a name and a number of iterations, 1 to {MOST_ITERATIONS:,}: x@1"
            self._refuse(node, what, column)
        if type(operator) not in TYPES:
            what = SPOKEN.get(type(operator), type(operator).__name__.lower())
            self._refuse(node, f"{what} is no arithmetic of the hardware; known are names, numbers and {KNOWN}", column)
        kind, sign = TYPES[type(operator)]
        number = len(self.operations)
        own = next((name for name in names if name not in self.names), None)
        self.names.update([own] if own else [])
        self.operations.append(Operation(own or f"{sign}{number + 1}", kind, "" if own else self._source(node)))
        self.operands.append([values[operand] for operand in operands])
        self.marks.append(self._mark(node, column))
        return Operand(number)

    def _source(self, node: ast.expr) -> str:
        """Return the text of an expression, on one line without comments."""
        lines = [line.encode() for line in self.lines[node.lineno - 1 : node.end_lineno]]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return " ".join(" ".join(line.decode().partition("#")[0] for line in lines).split())

    def _mark(self, node: ast.expr | ast.stmt, column: int | None = None) -> SourcePosition:
        text = self.lines[node.lineno - 1]
        before = text.encode()[: node.col_offset if column is None else column]
        return SourcePosition(self.name, node.lineno, len(before.decode(errors="ignore")), text)

    def _refuse(self, node: ast.expr | ast.stmt, what: str, column: int | None = None) -> NoReturn:
        raise self._mark(node, column).error(what, "text")

    def graph(self) -> DataflowGraph:
        dependences: dict[Dependence, None] = {}  # in order, each once
        delays: dict[Delay, None] = {}
        for task, operands in enumerate(self.operands):
            for value in map(self._settled, operands):
                if value is None:
                    continue
                if value.distance > MOST_ITERATIONS:
                    what = f"reaches back {value.distance:,} iterations through copies; {MOST_ITERATIONS:,} is the most"
                    raise self.marks[task].error(what, "text")
                if isinstance(value.of, int):
                    dependences[Dependence(value.of, task, value.distance)] = None
                elif value.distance:
                    delays[Delay(value.of, task, value.distance)] = None
        if not self.operations:
            raise GraphError(f"{self.name} has no operation to schedule", "text")
        return DataflowGraph(tuple(self.operations), tuple(dependences), self.name, tuple(self.marks), tuple(delays))

    def _settled(self, value: Operand | None) -> Operand | None:
        """Return the operation or the input behind a value; follow what is fed back through copies: `x1 = x`."""
        distance, seen = 0, set()
        while value is not None and value.is_fed:
            if value.of in seen:
                return None  # copies in a cycle: neither an operation nor an input ever makes it
            seen.add(value.of)
            distance += value.distance
            value = self.values[str(value.of)]
        return value and value._replace(distance=value.distance + distance)


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AugAssign) else []


def _parts(node: ast.expr) -> tuple[ast.AST, list[ast.expr]]:
    """Return the operator of an expression and its operands; itself where it is no operation."""
    if isinstance(node, ast.BinOp):
        return node.op, [node.left, node.right]
    if isinstance(node, ast.Compare):
        return node.ops[0], [node.left, *node.comparators]
    return (node.op, [node.operand]) if isinstance(node, ast.UnaryOp) else (node, [])


def rewrite(lines: list[str]) -> tuple[str, dict[Position, WrittenDelay]]:
    """Return the text of a program for Python's parser, and where in it a name is that of an earlier iteration."""
    found: dict[Position, WrittenDelay] = {}
    rewritten = []
    for number, line in enumerate(lines, 1):
        parts, done = [], 0
        for match in EARLIER.finditer(line):
            name, suffix, digits = match.groups()
            if iskeyword(name):
                continue
            found[number, len(line[: match.start()].encode())] = int(digits), len(suffix)
            parts += [line[done : match.end(1)], "_" * (len(suffix) - len(digits)), digits]
            done = match.end()
        rewritten.append("".join([*parts, line[done:]]))
    return "\n".join(rewritten), found
