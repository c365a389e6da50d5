"""Operations: their letters, their text, and the numbers that a plan gives them.

The letters are PyTorch's: F forward, B full backward, I backward for the input, W backward for the weights (B is I then
W fused). Ours are R, which runs a forward again before its backward, and the transfers O (an activation goes to host
memory) and L (it comes back). `2F0` is the forward of microbatch 0 on stage 2, `(0F3;3B1)OVERLAP_F_B` a pair that
starts and ends together.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pipesched.errors import ConfigError

SLOT_KINDS = "FBIWR"  # what devices run
TRANSFER_KINDS = "OL"  # what lanes move
KINDS = SLOT_KINDS + TRANSFER_KINDS
_OP = re.compile(r"(0|[1-9][0-9]{0,8})([A-Z])(0|[1-9][0-9]{0,8})", re.ASCII)
_PAIR = re.compile(r"\(([^;()]+);([^;()]+)\)OVERLAP_F_B", re.ASCII)


class Op(NamedTuple):
    """One operation of one microbatch on one stage."""

    stage: int
    kind: str
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"


class Pair(NamedTuple):
    """A forward and a full backward that run together on one device."""

    forward: Op
    backward: Op

    def __str__(self) -> str:
        return f"({self.forward};{self.backward})OVERLAP_F_B"


Slot = Op | Pair


def parse_op(text: str) -> Op:
    """The operation that `text` names, for instance `2F0`. Raises ConfigError."""
    match = _OP.fullmatch(text)
    if not match or match[2] not in KINDS:
        raise ConfigError(f"{text!r} is no operation; one looks like 2F0: stage, one of {' '.join(KINDS)}, microbatch")
    return Op(int(match[1]), match[2], int(match[3]))


def parse_slot(text: str) -> Slot:
    """The operation or pair that `text` names. Raises ConfigError."""
    match = _PAIR.fullmatch(text)
    if not match:
        return _of_kind(parse_op(text), SLOT_KINDS, "a device runs")
    pair = Pair(parse_op(match[1]), parse_op(match[2]))
    if pair.forward.kind != "F" or pair.backward.kind != "B":
        raise ConfigError(f"{text!r}: a pair holds a forward F, then a full backward B")
    return pair


def parse_transfer(text: str) -> Op:
    """The transfer that `text` names, for instance `2O0`. Raises ConfigError."""
    return _of_kind(parse_op(text), TRANSFER_KINDS, "a lane moves")


def _of_kind(op: Op, kinds: str, what: str) -> Op:
    if op.kind not in kinds:
        raise ConfigError(f"{op} does not belong here: {what} {', '.join(kinds)}")
    return op


class OpIndex(NamedTuple):
    """Numbers for the operations of a plan: kind by kind, stage by stage, microbatch by microbatch.

    `kinds` holds the letters that the plan may use, for instance "FB", "FIW" or, with recompute, "FBR". A plan with
    half a million operations is then lists of integers, and the operations of one stage and kind are a range.
    """

    kinds: str
    stages: int
    microbatches: int

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return len(self.kinds) * self.stages * self.microbatches

    def row(self, kind: str, stage: int) -> range:
        """The numbers of one kind on one stage, by microbatch."""
        first = (self.kinds.index(kind) * self.stages + stage) * self.microbatches
        return range(first, first + self.microbatches)

    def rows(self, kind: str) -> list[range]:
        """`row` for every stage."""
        return [self.row(kind, stage) for stage in range(self.stages)]

    def number(self, op: Op) -> int:
        """The number of `op`."""
        return self.row(op.kind, op.stage)[op.microbatch]

    def op(self, number: int) -> Op:
        """The operation of a number."""
        row, microbatch = divmod(number, self.microbatches)
        kind, stage = divmod(row, self.stages)
        return Op(stage, self.kinds[kind], microbatch)
