"""Operations: their text (`parse_op`), and the numbers that a plan gives them (`OpIndex`).

The letters of the kinds are PyTorch's: F forward, B full backward, I backward for the input, W backward for the weights
(B is I then W fused). Ours are R, which runs a forward again before its backward, and the transfers O (an activation
goes to host memory) and L (it comes back). `2F0` is the forward of microbatch 0 on stage 2, `(0F3;3B1)OVERLAP_F_B` a
pair that starts and ends together. Where microbatches are cut along their sequence, `2F0.1` is that of slice 1.
Of the step beside its passes, `2UNSHARD0` is the first gather of stage 2's weights, `2OPTIMIZER` its update, `0E3` the
forward of side item 0 for microbatch 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, TypeVar, cast

from pipesched.checks import require_whole, shown
from pipesched.core.clock import check_deadline
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.kinds import (
    COMPUTATION_LETTERS,
    GRADIENT_LETTERS,
    KINDS,
    LETTERS,
    MESSAGE_KINDS,
    NETWORK_KINDS,
    SLOT_LETTERS,
    STEP_KINDS,
    STEP_SLOTS,
    TRANSFER_LETTERS,
    Scope,
)

T = TypeVar("T")
NO_NUMBER = -1  # the microbatch of an operation of which a stage has one


class _OpFields(NamedTuple):
    stage: int
    kind: str
    microbatch: int
    slice: int = 0


class Op(_OpFields):
    """One operation of one microbatch on one stage, or of one slice of it; `str` gives its text, `2F0` or `2F0.1`.

    Of the step beside its passes the microbatch may be a turn, or None where the kind has none; E and G have a side
    item instead of the stage. Raises ConfigError for a negative number or an unknown kind.
    """

    __slots__ = ()
    is_sliced: ClassVar[bool] = False  # whether it is of one slice, which its text then names

    def __new__(cls, stage: int, kind: str, microbatch: int | None, slice: int = 0) -> Op:  # noqa: A002  as the field
        """Make an operation, after checks."""
        where, given = require_whole(stage, "stage"), cast("object", kind)
        known = given if isinstance(given, str) else ""
        if known in STEP_KINDS:
            return step_op(where, kind, None if microbatch is None else require_whole(microbatch, "microbatch"))
        of = require_whole(microbatch, "microbatch")
        if known not in KINDS:
            raise ConfigError(f"must be one of {' '.join(LETTERS)}, not {shown(kind)}", "kind")
        part = require_whole(slice, "slice")
        return tuple.__new__(SlicedOp if part else cls, (where, kind, of, part))

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"

    def __repr__(self) -> str:
        part = f", {self.slice}" if self.is_sliced else ""
        return f"Op({self.stage}, {self.kind!r}, {self.number}{part})"

    @property
    def number(self) -> int | None:
        """The microbatch or the turn; None where the kind has one operation a stage."""
        return self.microbatch if self.microbatch >= 0 else None


class SlicedOp(Op):
    """An operation of one slice of a microbatch, the first one too: it equals the Op of the same numbers."""

    __slots__ = ()
    is_sliced = True

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}.{self.slice}"


class StepOp(Op):
    """An operation of the step beside its passes: of a stage (`2OPTIMIZER`), its turn (`2UNSHARD0`), or side work."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}" + (f"{self.microbatch}" if self.microbatch >= 0 else "")


_MAY_BE_NUMBERED = {Scope.STAGE: (False,), Scope.REDUCTION: (False, True)}  # others always are


def step_op(stage: int, kind: str, number: int | None) -> StepOp:
    """Return an operation of the step. Raises ConfigError where its kind has a number and this has not, or so."""
    if (number is not None) not in _MAY_BE_NUMBERED.get(STEP_KINDS[kind].scope, (True,)):
        what = "no number behind its kind" if number is not None else "a number behind its kind"
        raise ConfigError(f"{stage}{kind}{'' if number is None else number} is no operation: {kind} has {what}")
    return StepOp._make((stage, kind, NO_NUMBER if number is None else number, 0))


class _PairFields(NamedTuple):
    forward: Op
    backward: Op


class Pair(_PairFields):
    """A forward and a full backward that run together on one device.

    Raises ConfigError for operations of other kinds, and for what is no Op.
    """

    __slots__ = ()

    def __new__(cls, forward: Op, backward: Op) -> Pair:
        """Make a pair, after checks."""
        parts: dict[str, tuple[object, str]] = {"forward": (forward, "F"), "backward": (backward, "B")}
        for key, (op, kind) in parts.items():
            if not isinstance(op, Op) or op.kind != kind:
                raise ConfigError(f"must be an Op of kind {kind}, not {shown(op)}", key)
        return tuple.__new__(cls, (forward, backward))

    def __str__(self) -> str:
        return f"({self.forward};{self.backward})OVERLAP_F_B"


Slot = Op | Pair


class ScopedRows(NamedTuple):
    """Operations of one kind whose `Scope` is not that of passes, of a stage and a microbatch."""

    kind: str
    counts: tuple[int, ...]  # how many each stage has, or each side item
    numbered: bool = True  # else a stage has one at most

    @property
    def size(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, repr=False)
class OpIndex:
    """Numbers for the operations of a plan: kind by kind, stage by stage, unit by unit.

    A unit is one slice of one microbatch: the slices of microbatch 0, then those of 1, ..; without slices it is a
    microbatch. `letters` holds the kinds that the plan may use, forwards first, for instance "FB", "FIW" or, with
    recompute, "FBR". Of "FB" with 2 stages and 3 microbatches 0F0 is 0, 1F0 is 3, 0B0 is 6 and 1B2 is 11: a row,
    the operations of one stage and kind, is a range. Behind these passes come the operations of the step that are
    `scoped` otherwise, kind by kind, and behind them the messages that are `sent` in queues, each numbered by its
    SEND. Nothing outside this class depends on the layout of the numbers.

    Where every backward is split, or none, `gradient` is the kind that gives the input gradient, and frees what only it
    needs: I, or B. `last` is the one that ends the residence of an activation: W, or B.
    """

    letters: str
    stages: int
    microbatches: int
    slices: int = 1
    scoped: tuple[ScopedRows, ...] = ()
    sent: tuple[ScopedRows, ...] = ()

    units: int = field(init=False, compare=False)  # slices of microbatches
    passes: int = field(init=False, compare=False)  # operations that stages have of units, before those of the step
    first_message: int = field(init=False, compare=False)  # how many operations devices and their other lanes have
    size: int = field(init=False, compare=False)
    gradient: str = field(init=False, compare=False)
    last: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        units = self.microbatches * self.slices
        passes = len(self.letters) * self.stages * units
        first = passes + sum(rows.size for rows in self.scoped)
        size = first + sum(rows.size for rows in self.sent)
        gradient, last = ("I" if "I" in self.letters else "B"), ("W" if "W" in self.letters else "B")
        vars(self).update(units=units, passes=passes, first_message=first, size=size, gradient=gradient, last=last)

    @property
    def kinds(self) -> list[str]:
        """All kinds: those of passes, and those of the step."""
        return [*self.letters, *(rows.kind for rows in self.scoped)]

    def row(self, kind: str, stage: int) -> range:
        """Return the numbers of one kind on one stage, by unit (of the step: by turn, or by microbatch of an item)."""
        if (self.scoped or self.sent) and kind not in self.letters:
            first = self.passes
            for rows in (*self.scoped, *self.sent):
                if rows.kind == kind:
                    first += sum(rows.counts[:stage])
                    return range(first, first + rows.counts[stage])
                first += rows.size
            return range(0)
        first = (self.letters.index(kind) * self.stages + stage) * self.units
        return range(first, first + self.units)

    def _scoped(self, number: int) -> tuple[ScopedRows, int, int]:
        """Return the rows of an operation of the step, its stage or item, and which of its operations it is."""
        offset = number - self.passes
        for rows in (*self.scoped, *self.sent):
            if offset >= rows.size:
                offset -= rows.size
                continue
            for place, count in enumerate(rows.counts):
                if offset < count:
                    return rows, place, offset
                offset -= count
        raise IndexError(number)

    def rows(self, kind: str) -> list[range]:
        """Return `row` for every stage or side item; none where there is no such kind."""
        others = (len(rows.counts) for rows in (*self.scoped, *self.sent) if rows.kind == kind)
        return [self.row(kind, place) for place in range(self.stages if kind in self.letters else next(others, 0))]

    def of_kind(self, kind: str) -> range:
        """Return the numbers of one kind on all stages."""
        if kind not in self.letters:
            rows = self.rows(kind)
            return range(rows[0].start, rows[-1].stop) if rows else range(0)
        first = self.letters.index(kind) * self.stages * self.units
        return range(first, first + self.stages * self.units)

    def spread(self, row: Callable[[str, int], Iterable[T]]) -> list[T]:
        """Return a value for each operation: `row(kind, stage)` gives those of the units of a row."""
        values: list[T] = []
        for kind in self.letters:
            for stage in range(self.stages):
                check_deadline()
                values += row(kind, stage)
        return values

    def number(self, op: Op) -> int:
        if op.kind in STEP_KINDS:
            return self.row(op.kind, op.stage)[max(op.microbatch, 0)]
        if op.kind in RECEIVES:
            op = other_end(op)
            if op.stage < 0:
                raise IndexError(op)
        slices = 1 if op.kind in SIDE_MESSAGES else self.slices
        return self.row(op.kind, op.stage)[op.microbatch * slices + op.slice]

    def op(self, number: int) -> Op:
        """Return the operation of a number, of a message its SEND."""
        if number >= self.passes and (self.scoped or self.sent):
            rows, place, which = self._scoped(number)
            if rows.kind in MESSAGE_KINDS:
                slices = 1 if rows.kind in SIDE_MESSAGES else self.slices
                return (Op if slices == 1 else SlicedOp)._make((place, rows.kind, *divmod(which, slices)))
            return StepOp._make((place, rows.kind, which if rows.numbered else NO_NUMBER, 0))
        row, unit = divmod(number, self.units)
        kind, stage = divmod(row, self.stages)
        if self.slices == 1:
            return Op._make((stage, self.letters[kind], unit, 0))
        return SlicedOp._make((stage, self.letters[kind], *divmod(unit, self.slices)))

    def end(self, number: int, sends: int) -> Op:
        """Return an end of a message: its SEND, or its RECV."""
        return self.op(number) if sends else other_end(self.op(number))

    def counterpart(self, number: int, kind: str) -> int:
        """Return the operation of another kind on the same stage and of the same unit."""
        each = self.stages * self.units
        return self.letters.index(kind) * each + number % each

    def kind_of(self, number: int) -> str:
        if number >= self.passes and (self.scoped or self.sent):
            return self._scoped(number)[0].kind
        return self.letters[number // self.units // self.stages]

    def stage_of(self, number: int) -> int:
        """Return the stage of an operation, or the item of side work."""
        row = number // self.units
        if row >= len(self.letters) * self.stages and (self.scoped or self.sent):
            return self._scoped(number)[1]
        return row % self.stages

    def owner_of(self, number: int) -> int:
        """Return the unit of an operation, which owns an activation: its microbatch where there are no slices."""
        return number % self.units

    def row_of(self, number: int) -> int:
        """Return a number for the stage and kind of an operation, the same for all units."""
        return number // self.units

    def owners(self, batches: int) -> list[int]:
        """Return the microbatch of each operation, of so many in a round: precedences join only those of the same."""
        units = [microbatch % batches for microbatch in range(self.microbatches) for _ in range(self.slices)]
        return units * (len(self.letters) * self.stages)

    @property
    def gradients(self) -> list[str]:
        """All kinds of the plan that give an input gradient."""
        return [kind for kind in GRADIENT_LETTERS if kind in self.letters]

    @property
    def saves_memory(self) -> bool:
        """Whether activations may be recomputed or offloaded."""
        return any(letter not in COMPUTATION_LETTERS for letter in self.letters)

    def in_units(self, microbatches: range) -> slice:
        """Return which part of a row is of these microbatches."""
        return slice(microbatches.start * self.slices, microbatches.stop * self.slices)

    def with_letters(self, letters: str) -> OpIndex:
        """Return the index with these kinds at the end: numbers that exist keep their meaning."""
        return replace(self, letters=self.letters + letters)


RECEIVES = tuple(kind for kind in MESSAGE_KINDS if kind.startswith("RECV"))
SIDE_MESSAGES = tuple(f"{end}_{what}" for end in ("SEND", "RECV") for what in "EG")  # of items, in whole microbatches


def other_end(op: Op) -> Op:
    """Return the RECV of a SEND, or the SEND of a RECV: that of the next stage, or of the same side item."""
    end, what = op.kind.split("_")
    step = {"F": 1, "B": -1}.get(what, 0)
    if end == "SEND":
        return op._replace(kind=f"RECV_{what}", stage=op.stage + step)
    return op._replace(kind=f"SEND_{what}", stage=op.stage - step)


_NUMBER = "(0|[1-9][0-9]{0,8})"
_OP = re.compile(rf"{_NUMBER}([A-Z_]+)(?:{_NUMBER}(?:\.{_NUMBER})?)?", re.ASCII)
_PAIR = r"\(([^;()]+);([^;()]+)\)OVERLAP_F_B"


def parse_op(text: str) -> Op:
    """Return the operation that `text` names, for instance `2F0`. Raises ConfigError."""
    match = _OP.fullmatch(text)
    if match and match[2] in STEP_KINDS and match[4] is None:
        return step_op(int(match[1]), match[2], None if match[3] is None else int(match[3]))
    if not match or not ((match[2] in LETTERS and len(match[2]) == 1) or match[2] in MESSAGE_KINDS) or not match[3]:
        raise ConfigError(
            f"{shown(text)} is no operation; one looks like 2F0: stage, one of {' '.join(LETTERS)}, microbatch"
        )
    of = SlicedOp if match[4] else Op
    return of._make((int(match[1]), match[2], int(match[3]), int(match[4] or 0)))


def parse_slot(text: str) -> Slot:
    """Return the operation or pair that `text` names. Raises ConfigError."""
    match = re.fullmatch(_PAIR, text) if text.startswith("(") else None
    if not match:
        return _parse_single(text)
    pair = Pair._make((parse_op(match[1]), parse_op(match[2])))
    if pair.forward.kind != "F" or pair.backward.kind != "B":
        raise ConfigError(f"{shown(text)}: a pair holds a forward F, then a full backward B")
    return pair


def parser(kinds: Sequence[str], what: str) -> Callable[[str], Op]:
    """Return a function to the operation, of these kinds alone, that a text names. It raises ConfigError."""

    def parse(text: str) -> Op:
        op = parse_op(text)
        if op.kind not in kinds:
            raise ConfigError(f"{op} does not belong here: {what} {', '.join(kinds)}")
        return op

    return parse


_parse_single = parser((*SLOT_LETTERS, *STEP_SLOTS), "a device runs")
parse_transfer = parser(TRANSFER_LETTERS, "a lane moves")  # 2O0
parse_network = parser(NETWORK_KINDS, "a network lane moves")  # 2UNSHARD0
parse_message = parser(tuple(MESSAGE_KINDS), "a queue moves")  # 2SEND_F0
