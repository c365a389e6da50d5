"""What a document lists for each device: slots, transfers and network operations, with their times in ticks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from pipesched.checks import shown
from pipesched.core.timing import UNTIMED
from pipesched.documents.json_text import get
from pipesched.documents.problem import exact_time
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.pipeline.message_programs import given_programs
from pipesched.pipeline.ops import Op, Pair, Slot, parse_message, parse_network, parse_slot
from pipesched.pipeline.plan import NOTHING_BEFORE, Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule


class WrittenSlot(NamedTuple):
    """A slot, a transfer or a network operation, with its times and that of its message in ticks.

    `turn` orders transfers of equal times; `after` is the slot behind which a network operation is issued.
    """

    slot: Slot
    start: int
    end: int
    turn: int
    arrived: int = UNTIMED
    after: Slot | None = None


def written_entries(problem: Problem, content: Any, key: str, read: Callable[[str], Slot]) -> list[list[WrittenSlot]]:
    """Return what a key of the document lists for each device. Raises ConfigError."""
    devices = get(content, key, list)
    if len(devices) != problem.devices:
        raise ConfigError(f"{key!r} lists {len(devices)} devices; the problem has {problem.devices}")
    if not all(isinstance(slots, list) for slots in devices):
        raise ConfigError(f"{key!r} must hold a list of slots for each device")
    return [[_entry(problem, slot, read) for slot in row] for row in devices]


def _entry(problem: Problem, content: Any, read: Callable[[str], Slot]) -> WrittenSlot:
    slot = read(get(content, "op", str))
    start, end = _ticks(content, "start", problem), _ticks(content, "end", problem)
    arrived = _ticks(content, "arrived", problem) if "arrived" in content else UNTIMED
    turn = content.get("turn", 0)
    if not isinstance(turn, int) or isinstance(turn, bool):
        raise ConfigError(f"{content.get('op')}: 'turn' must be a whole number, not {shown(turn)}")
    after = content.get("after")
    if after is not None and not isinstance(after, str):
        raise ConfigError(f"{content.get('op')}: 'after' must be the text of a slot, or null, not {shown(after)}")
    return WrittenSlot(slot, start, end, turn, arrived, None if after is None else parse_slot(after))


def _ticks(content: Mapping[str, Any], key: str, problem: Problem) -> int:
    """Return the tick that a time was written for: the nearest one, if it is written that way."""
    value, scale = content.get(key), problem.ticks.per_unit
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise ConfigError(f"{content.get('op')}: {key!r} must be a number, not {shown(value)}")
    exactly = exact_time(value)  # checks the range
    ticks = round((exactly if isinstance(value, int) else Fraction(float(value))) * scale)
    if ticks < 0 or in_units(ticks, scale) != (value if isinstance(value, int) else float(value)):
        raise ConfigError(f"{content.get('op')}: {key} {shown(value)} is no sum of the problem's costs")
    return ticks


NETWORK, QUEUE = "network", "queue"


def read_issued(problem: Problem, content: dict[str, Any], key: str) -> list[list[WrittenSlot]]:
    """Return what a document says of each network lane, or of the messages of each device; nothing without a step.

    So where messages are free. Raises ConfigError, also for what the problem has not.
    """
    if problem.has_step if key == NETWORK else problem.messages is not None:
        return written_entries(problem, content, key, parse_network if key == NETWORK else parse_message)
    if key in content:
        step = "with a step: costs of gather or reduce, shard, side, .."
        raise ConfigError(f"{key!r} is for a problem {step if key == NETWORK else 'whose `messages` queue'}")
    return []


def network_document(schedule: Schedule) -> list[list[dict[str, Any]]]:
    """Return what each network lane moves, in the order of its program; `after` is the text of a slot, or null."""
    return [
        [
            {"op": str(op), "start": start, "end": end, "after": None if after is None else str(after)}
            for op, start, end, after in program
        ]
        for program in schedule.network
    ]


def queue_document(schedule: Schedule) -> list[list[dict[str, Any]]]:
    """Return the ends of messages of each device in its order; `after` is the text of a slot, or null."""
    plan, scale = schedule.plan, schedule.problem.ticks.per_unit
    starts, ends = schedule.start_ticks, schedule.end_ticks
    names: dict[int, str | None] = {NOTHING_BEFORE: None}
    rows = []
    for program in plan.messages:
        row = []
        for number, sends, after, _ in zip(*(values.tolist() for values in program), strict=True):
            if after not in names:
                names[after] = str(plan.slot(after))
            times = {"start": in_units(starts[number], scale), "end": in_units(ends[number], scale)}
            row.append({"op": str(plan.index.end(number, sends)), **times, "after": names[after]})
        rows.append(row)
    return rows


def with_queue(problem: Problem, plan: Plan, rows: Sequence[Sequence[WrittenSlot]]) -> Plan:
    """Return a plan with the messages that a document says.

    Raises InvalidSchedule for one that is none of the plan, and for one whose ends have two times.
    """
    if problem.messages is None:
        return plan
    times: dict[int, tuple[WrittenSlot, int]] = {}
    made = given_programs(problem, plan, programs_of(rows))
    for device, row in enumerate(rows):
        for entry in row:
            assert isinstance(entry.slot, Op)
            other, there = times.setdefault(made.index.number(entry.slot), (entry, device))
            if (other.start, other.end) != (entry.start, entry.end):
                ends = f"{other.slot} on device {there} and {entry.slot} on device {device}"
                raise InvalidSchedule(f"{ends} are one message, but have two times")
    return made


def programs_of(network: Sequence[Sequence[WrittenSlot]]) -> list[list[tuple[Op, Op | None]]]:
    """Return the operations of each lane, each with the slot behind which it is issued, of a pair its forward."""
    return [
        [
            (entry.slot, entry.after.forward if isinstance(entry.after, Pair) else entry.after)
            for entry in row
            if isinstance(entry.slot, Op)
        ]
        for row in network
    ]
