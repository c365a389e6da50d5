"""Operations from their texts: of slots, of lanes to host memory, and of network lanes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.kinds import LETTERS, NETWORK_KINDS, SLOT_LETTERS, STEP_KINDS, STEP_SLOTS, TRANSFER_LETTERS
from pipesched.pipeline.ops import Op, Pair, SlicedOp, Slot, step_op

_NUMBER = "(0|[1-9][0-9]{0,8})"
_OP = re.compile(rf"{_NUMBER}([A-Z_]+)(?:{_NUMBER}(?:\.{_NUMBER})?)?", re.ASCII)
_PAIR = re.compile(r"\(([^;()]+);([^;()]+)\)OVERLAP_F_B", re.ASCII)


def parse_op(text: str) -> Op:
    """Return the operation that `text` names, for instance `2F0`. Raises ConfigError."""
    match = _OP.fullmatch(text)
    if match and match[2] in STEP_KINDS and match[4] is None:
        return step_op(int(match[1]), match[2], None if match[3] is None else int(match[3]))
    if not match or match[2] not in LETTERS or len(match[2]) > 1 or match[3] is None:
        raise ConfigError(
            f"{shown(text)} is no operation; one looks like 2F0: stage, one of {' '.join(LETTERS)}, microbatch"
        )
    of = SlicedOp if match[4] else Op
    return of._make((int(match[1]), match[2], int(match[3]), int(match[4] or 0)))


def parse_slot(text: str) -> Slot:
    """Return the operation or pair that `text` names. Raises ConfigError."""
    match = _PAIR.fullmatch(text)
    if not match:
        return _of_kind(parse_op(text), (*SLOT_LETTERS, *STEP_SLOTS), "a device runs")
    pair = Pair._make((parse_op(match[1]), parse_op(match[2])))
    if pair.forward.kind != "F" or pair.backward.kind != "B":
        raise ConfigError(f"{shown(text)}: a pair holds a forward F, then a full backward B")
    return pair


def parse_transfer(text: str) -> Op:
    """Return the transfer that `text` names, for instance `2O0`. Raises ConfigError."""
    return _of_kind(parse_op(text), TRANSFER_LETTERS, "a lane moves")


def parse_network(text: str) -> Op:
    """Return the operation of a network lane that `text` names, for instance `2UNSHARD0`. Raises ConfigError."""
    return _of_kind(parse_op(text), NETWORK_KINDS, "a network lane moves")


def _of_kind(op: Op, kinds: Sequence[str], what: str) -> Op:
    if op.kind not in kinds:
        raise ConfigError(f"{op} does not belong here: {what} {', '.join(kinds)}")
    return op
