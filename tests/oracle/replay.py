"""A second replay of plans whose microbatches differ: every slot as early as its needs allow, with fractions.

It reads a plan as texts of operations and keeps everything in dictionaries: slow, plain, and meant to be read beside
the rules in docs/explanation/semantics.md. Nothing of the package is imported.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.setup import ZERO, Setup, at_speed

Texts = Sequence[Sequence[str]]  # of each device, its slots in order


class Op(NamedTuple):
    """One operation: stage, kind (F, B, I, W, R, O or L), microbatch and slice."""

    stage: int
    kind: str
    microbatch: int
    slice: int = 0

    @property
    def unit(self) -> tuple[int, int]:
        """The microbatch and the slice."""
        return self.microbatch, self.slice


class Stuck(Exception):
    """The devices wait for each other; `at` holds the slot at which each of them waits."""

    def __init__(self, at: list[str]) -> None:
        super().__init__(f"stuck at {at}")
        self.at = at


class Replayed(NamedTuple):
    """The start and the end of each operation by its text, and the metrics of the schedule."""

    start: dict[str, Fraction]
    end: dict[str, Fraction]
    makespan: Fraction
    span: Fraction
    busy: list[Fraction]
    ideal: Fraction
    bubble: Fraction
    bubble_over_ideal: Fraction
    bubble_span: Fraction
    peak: list[Fraction]  # of activations and gradients of keys and values; static memory apart


class Move(NamedTuple):
    """A change of memory at the start or at the end of an operation."""

    op: Op
    at_end: bool
    change: Fraction


def replay(setup: Setup, plan: Texts, lanes: Texts = (), waits: Collection[tuple[str, str]] = ()) -> Replayed:
    """Run the slots of each device (and of each lane) in order, each as early as its needs allow. Raises Stuck.

    The second operation of each pair in `waits` starts at the end of its first at the earliest.
    """
    rows = [[parts(setup, slot) for slot in slots] for slots in plan]
    moved = [[parts(setup, slot) for slot in slots] for slots in lanes]
    require_whole(setup, [op for slots in rows for slot in slots for op in slot])
    home = {op: device for device, slots in enumerate(rows) for slot in slots for op in slot}
    assert all(device in setup.homes(op.stage) for op, device in home.items())
    home |= {op: home[op._replace(kind="F")] for slots in moved for slot in slots for op in slot}
    waited: dict[str, list[str]] = {}
    for one, other in waits:
        waited.setdefault(other, []).append(one)
    start, end = _times(setup, [*rows, *moved], home, waited)
    named = {op: name(setup, op) for op in home}

    since = [min((start[op] for slot in slots for op in slot), default=ZERO) for slots in rows]
    until = [max((end[op] for slot in slots for op in slot), default=ZERO) for slots in rows]
    busy = [sum((end[slot[0]] - start[slot[0]] for slot in slots), ZERO) for slots in rows]
    again = [sum((end[op] - start[op] for slot in slots for op in slot if op.kind == "R"), ZERO) for slots in rows]
    makespan, ideal = max(until) - min(since), max(whole - more for whole, more in zip(busy, again, strict=True))
    span = max(after - before for after, before in zip(until, since, strict=True))
    return Replayed(
        start={named[op]: time for op, time in start.items()}, end={named[op]: time for op, time in end.items()},
        makespan=makespan, span=span, busy=busy, ideal=ideal,
        bubble=_ratio(sum((makespan - time for time in busy), ZERO), setup.devices * makespan),
        bubble_over_ideal=_ratio(makespan - ideal, ideal), bubble_span=_ratio(span - ideal, span),
        peak=[_peak(setup, [op for op in home if home[op] == device], home, start, end)
              for device in range(setup.devices)],
    )  # fmt: skip


def parts(setup: Setup, slot: str) -> list[Op]:
    """The operations in the text of a slot: one, or the forward and the backward of a pair."""
    found = re.findall(r"(\d+)([FBIWROL])(\d+)(?:\.(\d+))?", slot)
    ops = [Op(int(stage), kind, int(mb), int(part or 0)) for stage, kind, mb, part in found]
    text = ";".join(name(setup, op) for op in ops)
    assert slot == (text if len(ops) == 1 else f"({text})OVERLAP_F_B"), slot
    return ops


def name(setup: Setup, op: Op) -> str:
    """The text of an operation: with its slice where microbatches are cut, and only there."""
    return f"{op.stage}{op.kind}{op.microbatch}" + (f".{op.slice}" if setup.slices > 1 else "")


def require_whole(setup: Setup, ops: Sequence[Op]) -> None:
    """Assert that a plan runs every unit on every stage once: F, and B or I and W unless it is forward only."""
    kinds: dict[tuple[int, int, int], list[str]] = {}
    for op in ops:
        kinds.setdefault((op.stage, *op.unit), []).append(op.kind)
    assert set(kinds) == {(stage, *unit) for stage in range(setup.stages) for unit in setup.units}
    allowed = [["F"]] if setup.forward_only else [["B", "F"], ["F", "I", "W"]]
    assert all(sorted(set(found) - {"R"}) in allowed and len(found) == len(set(found)) for found in kinds.values())


def needs(setup: Setup, op: Op, planned: Collection[Op]) -> Iterator[Op]:
    """What `op` waits for; of B and I the one that is planned, R and L only if they are planned."""
    stage, kind, mb, part = op

    def gradient(of_stage: int, of_slice: int) -> Op:
        whole = Op(of_stage, "B", mb, of_slice)
        return whole if whole in planned else whole._replace(kind="I")

    if kind == "F":
        if stage > 0:
            yield Op(stage - 1, "F", mb, part)
        if part > 0:
            yield Op(stage, "F", mb, part - 1)
    elif kind == "W":
        yield Op(stage, "I", mb, part)
    elif kind == "L":
        yield Op(stage, "O", mb, part)
    else:
        yield Op(stage, "F", mb, part)
    if kind in "BI":
        if stage < setup.stages - 1:
            yield gradient(stage + 1, part)
        if part < setup.slices - 1:
            yield gradient(stage, part + 1)
        yield from (saved for saved in (Op(stage, "R", mb), Op(stage, "L", mb)) if saved in planned)


def lag(setup: Setup, before: Op, op: Op, here: int, there: int) -> Fraction:
    """The latency between an operation on a device and one that needs it on another: on edges between stages alone."""
    if before.stage == op.stage:
        return ZERO
    return setup.latency((before.stage, op.stage), op.unit, here, there)


def slot_duration(setup: Setup, slot: Sequence[Op], device: int) -> Fraction:
    """How long a slot lasts on a device."""
    if len(slot) == 1:
        return setup.duration(slot[0].kind, slot[0].stage, slot[0].unit, device)
    forward, backward = slot
    assert (forward.kind, backward.kind) == ("F", "B")
    if setup.overlap is not None:
        return at_speed(setup.overlap[forward.stage], setup.speed[device])
    return slot_duration(setup, [forward], device) + slot_duration(setup, [backward], device)


def memory_moves(setup: Setup, op: Op, planned: Collection[Op]) -> Iterator[Move]:
    """What an operation takes at its start, and what it gives back at its end."""
    stage, kind, mb, _ = op
    held, retained = setup.held(stage, op.unit), setup.held(stage, op.unit, setup.retain[stage])
    dropped = held - setup.held(stage, op.unit, setup.checkpoint[stage])
    if kind in "FL":
        yield Move(op, False, held)
    if kind == "R":
        yield Move(op, False, dropped)
    if kind == "F" and Op(stage, "R", mb) in planned:
        yield Move(op, True, -dropped)
    if kind == "I":
        yield Move(op, False, max(retained - held, ZERO))
    if kind in "BIWO":
        gone = {"I": max(held - retained, ZERO), "W": retained}
        yield Move(op, True, -gone.get(kind, held))
    yield from _of_keys_and_values(setup, op)


def _of_keys_and_values(setup: Setup, op: Op) -> Iterator[Move]:
    """The keys and values that forward passes alone keep for later slices, or else the gradients for earlier ones."""
    is_last = op.slice == setup.slices - 1
    kept = [setup.held(op.stage, (op.microbatch, part), setup.kv) for part in range(setup.slices)]
    if op.kind == "F" and setup.forward_only:
        yield Move(op, True, kept[op.slice] - setup.held(op.stage, op.unit))
        if is_last:
            yield Move(op, True, -sum(kept, ZERO))
    if op.kind in "BI":
        yield Move(op, not is_last, sum(kept[:-1], ZERO) if is_last else -kept[op.slice])


def _times(
    setup: Setup, rows: Sequence[list[list[Op]]], home: dict[Op, int], waited: dict[str, list[str]]
) -> tuple[dict[Op, Fraction], dict[Op, Fraction]]:
    start: dict[Op, Fraction] = {}
    end: dict[Op, Fraction] = {}
    ends: dict[str, Fraction] = {}
    clock, at = [ZERO] * len(rows), [0] * len(rows)
    moved = True
    while moved:
        moved = False
        for row, slots in enumerate(rows):
            while at[row] < len(slots):
                slot = slots[at[row]]
                device = home[slot[0]]
                inputs = [(one, op) for op in slot for one in needs(setup, op, home)]
                named = [one for op in slot for one in waited.get(name(setup, op), ())]
                if any(one not in end for one, _ in inputs) or any(one not in ends for one in named):
                    break
                ready = [end[one] + lag(setup, one, op, home[one], device) for one, op in inputs]
                begin = max(clock[row], *ready, *(ends[one] for one in named), ZERO)
                clock[row] = begin + slot_duration(setup, slot, device)
                for op in slot:
                    start[op], end[op], ends[name(setup, op)] = begin, clock[row], clock[row]
                at[row] += 1
                moved = True
    if any(at[row] < len(slots) for row, slots in enumerate(rows)):
        raise Stuck([name(setup, slots[at[row]][0]) for row, slots in enumerate(rows) if at[row] < len(slots)])
    return start, end


def _peak(
    setup: Setup, ops: Sequence[Op], planned: Collection[Op], start: dict[Op, Fraction], end: dict[Op, Fraction]
) -> Fraction:
    """The largest level of a device: at one time what is given back counts before what is taken."""
    moves = (move for op in ops for move in memory_moves(setup, op, planned))
    events = [((end if move.at_end else start)[move.op], move.change) for move in moves]
    level = peak = ZERO
    for _, change in sorted(events):
        level += change
        peak = max(peak, level)
    return peak


def _ratio(part: Fraction, whole: Fraction) -> Fraction:
    return part / whole if whole else ZERO
