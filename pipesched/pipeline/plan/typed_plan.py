"""Plans from the texts of operations, device by device, as people type them: `plan`, which `pipesched.plan` is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from pipesched.checks import shown
from pipesched.errors import ConfigError, InvalidSchedule, blame
from pipesched.pipeline.plan.message_programs import given_programs
from pipesched.pipeline.plan.plan import Plan, plan_from_slots, require_each_once, settled
from pipesched.pipeline.problem.kinds import KINDS, STEP_KINDS, STEP_SLOTS, Scope
from pipesched.pipeline.problem.ops import (
    Op,
    Pair,
    Slot,
    parse_message,
    parse_network,
    parse_op,
    parse_slot,
    parse_transfer,
)
from pipesched.pipeline.problem.problem import Problem, require_problem
from pipesched.pipeline.problem.quantities import first_entries, is_several, length_text

Texts = str | Sequence[str | Op | Pair]  # a list of operations, or one text with blanks between them


def plan(
    problem: Problem,
    orders: Sequence[Texts],
    *,
    transfers: Sequence[Texts] = (),
    waits: Sequence[tuple[str, str]] = (),
    network: Sequence[Sequence[tuple[str, str | None]]] | None = None,
    messages: Sequence[Sequence[tuple[str, str | None]]] | None = None,
    name: str = "",
) -> Plan:
    """Return the plan that runs these operations.

    >>> from pipesched import make_problem, plan
    >>> problem = make_problem(devices=2, microbatches=2)
    >>> plan(problem, ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"])
    Plan(2 devices, 8 operations of F/B)

    Args:
        problem: What is planned. Its placement may be left open: `schedule_plan` then reads it off the plan.
        orders: For each device what it runs, in order: texts such as "2F0" or "(0F3;3B1)OVERLAP_F_B", as a list or as
            one text with blanks or commas between them.
        transfers: For each device its offloads and loads in order, such as "2O0" and "2L0". Where two devices share
            their lanes, the transfers of both take turns by their earliest starts: those that they would have if no
            transfer had to wait for one of the other device.
        waits: Pairs of texts (later, earlier): the first operation waits for the end of the second.
        network: Of a problem with a step, for each device the program of its network lane: pairs such as ("2UNSHARD0",
            None) or ("2REDUCE_GRAD", "2B7"), an operation and the slot behind whose end it is issued, of a pair its
            forward. Default: by the rule of the families, like optimizers and side work where no order names any.
        messages: Of a problem whose messages queue, for each device what it sends and receives, in order: pairs such as
            ("0SEND_F0", "0F0") or ("0RECV_B0", None), one end of a message and the slot behind which it is issued.
            Default: in the order that the problem names.
        name: What documents, figures and tables call its schedule; default: "plan".

    Raises:
        ConfigError: For what is no operation, is out of range, stands twice, or is for another number of devices.
        InvalidSchedule: For a program with an operation that stands twice, or behind what is no slot of its device.
    """
    require_problem(problem)
    rows = _rows(orders, problem, "orders", parse_slot)
    moves = _moves(transfers, problem)
    if not is_several(waits):
        raise ConfigError(f"must list pairs of operations (later, earlier), not {shown(waits)}", "waits")
    pairs = [(_wait(pair, 1), _wait(pair, 0)) for pair in waits]  # (before, after)
    programs = _programs(network, problem, "network", parse_network)
    ends = _programs(messages, problem, "messages", parse_message)
    if ends and problem.messages is None:
        raise ConfigError("have no effect, since the problem's messages are free", "messages")
    _require_programs(programs, rows)
    sizes: dict[str, Any] = {"slices": problem.slices.count, "network": programs, "sides": len(problem.side)}
    try:
        given = plan_from_slots(rows, problem.stages, problem.microbatches, moves, pairs, **sizes)
    except ConfigError as error:
        raise error.about("orders") from None
    given = replace(given, name=name)
    return given_programs(settled(problem, given), given, ends) if ends else given


def _moves(transfers: Any, problem: Problem) -> list[list[Op]]:
    if isinstance(transfers, (list, tuple)) and not transfers:
        return []
    rows = _rows(transfers, problem, "transfers", parse_transfer)
    moves = [[op for op in row if isinstance(op, Op)] for row in rows]
    try:
        require_each_once(chain(*moves), problem.stages, problem.microbatches, problem.slices.count)
    except ConfigError as error:
        raise error.about("transfers") from None
    return moves


def _rows(texts: Any, problem: Problem, key: str, parse: Any) -> list[list[Slot]]:
    if not is_several(texts):
        raise ConfigError(f"must list the operations of each device, not {shown(texts)}", key)
    rows: list[Any] = first_entries(texts, problem.devices)
    if len(rows) != problem.devices:
        listed = length_text(texts, rows, problem.devices)
        raise ConfigError(f"must list {problem.devices} devices, one list each; this has {listed}", key)
    most = len(KINDS) * problem.stages * problem.microbatches * problem.slices.count  # operations of all kinds
    most += len(STEP_SLOTS) * max(problem.stages, len(problem.side) * problem.microbatches) * problem.has_step
    found = list[list[Slot]]()
    for device, row in enumerate(rows):
        if not isinstance(row, str) and not is_several(row):
            raise ConfigError(f"must be a list of operations, not {shown(row)}", key, entry=device)
        entries = row.replace(",", " ").split() if isinstance(row, str) else first_entries(row, most)
        if not isinstance(row, str) and len(entries) > most:
            raise ConfigError(f"lists more operations than there are ({most:,})", key, entry=device)
        found.append([_slot(entry, key, device, parse) for entry in entries])
    return found


def _programs(given: Any, problem: Problem, key: str, parse: Callable[[str], Op]) -> list[list[tuple[Op, Op | None]]]:
    if given is None:
        return []
    rows = first_entries(given, problem.devices) if is_several(given) else []
    if len(rows) != problem.devices or not all(map(is_several, rows)):
        raise ConfigError(f"must list the programs of {problem.devices} devices, not {shown(given)}", key)
    found: list[list[tuple[Op, Op | None]]] = [[] for _ in rows]
    for device, entry in ((device, entry) for device, row in enumerate(rows) for entry in row):
        if not isinstance(entry, (list, tuple)) or len(entry) != 2:
            what = "holds pairs of an operation and the slot behind which it is issued (or None)"
            raise ConfigError(f"{what}, not {shown(entry)}", key, entry=device)
        slot = None if entry[1] is None else _slot(entry[1], key, device, parse_slot)
        op = parse(str(_slot(entry[0], key, device, parse)))
        found[device].append((op, slot.forward if isinstance(slot, Pair) else slot))
    return found


def _require_programs(programs: Sequence[Sequence[tuple[Op, Op | None]]], rows: Sequence[Sequence[Slot]]) -> None:
    """Raise InvalidSchedule for programs with an operation twice, or one behind what is no slot of its device."""
    seen: dict[Op, int] = {}
    turns = Counter((op.stage, op.kind) for op, _ in chain(*programs))
    for device, program in enumerate(programs):
        slots = {slot.forward if isinstance(slot, Pair) else slot for slot in rows[device]}
        for op, after in program:
            if op in seen:
                where = f"device {device}" if seen[op] == device else f"devices {seen[op]} and {device}"
                raise InvalidSchedule(f"{op} stands twice on the network lane{'s' * (seen[op] != device)} of {where}")
            where = f"on the network lane of device {device}"
            if STEP_KINDS[op.kind].scope is Scope.TURN and op.microbatch >= turns[op.stage, op.kind]:
                what = f"is no turn of stage {op.stage}: it has {turns[op.stage, op.kind]}, numbered from 0"
                raise InvalidSchedule(f"{op} {where} {what}")
            if after is not None and after not in slots:
                raise InvalidSchedule(f"{op} {where} stands after {after}, which is no slot of device {device}")
            seen[op] = device


def _slot(entry: Any, key: str, device: int, parse: Any) -> Slot:
    if not isinstance(entry, (str, Op, Pair)):
        raise ConfigError(f"{shown(entry)} is no operation; one looks like 2F0", key, entry=device)
    with blame(key, device):
        slot: Slot = parse(str(entry))
    return slot


def _wait(pair: Any, end: int) -> Op:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[end], (str, Op)):
        raise ConfigError(f"holds pairs of operations (later, earlier), not {shown(pair)}", "waits")
    with blame("waits"):
        return parse_op(str(pair[end]))
