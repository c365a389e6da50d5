"""Plans from the texts of operations, device by device, as people type them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.arguments import is_several
from pipesched.pipeline.ops import Op, Pair, Slot, parse_op, parse_slot, parse_transfer
from pipesched.pipeline.plan import Plan, plan_from_slots
from pipesched.pipeline.problem import Problem, require_problem

Texts = str | Sequence[str | Op | Pair]  # a list of operations, or one text with blanks between them


def plan(
    problem: Problem,
    orders: Sequence[Texts],
    *,
    transfers: Sequence[Texts] = (),
    waits: Sequence[tuple[str, str]] = (),
) -> Plan:
    """Return the plan that runs these operations.

    >>> from pipesched import make_problem, plan
    >>> problem = make_problem(devices=2, microbatches=2)
    >>> plan(problem, ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"])
    Plan(2 devices, 8 operations of F/B)

    Args:
        problem: What is planned. Its placement may be left open: `schedule_plan` then reads it off the plan.
        orders: For each device what it runs, in order: texts such as "2F0" or "(0F3;3B1)OVERLAP_F_B", as a list or as
            one text with blanks between them.
        transfers: For each device its offloads and loads in order, such as "2O0" and "2L0".
        waits: Pairs of texts (later, earlier): the first operation waits for the end of the second.

    Raises:
        ConfigError: For what is no operation, is out of range, stands twice, or is for another number of devices.
    """
    require_problem(problem)
    rows = _rows(orders, problem, "orders", parse_slot)
    moves = _rows(transfers, problem, "transfers", parse_transfer) if transfers else []
    pairs = [(_wait(pair, 1), _wait(pair, 0)) for pair in waits]
    try:
        return plan_from_slots(rows, problem.stages, problem.microbatches, _in_lanes(problem, moves), pairs)
    except ConfigError as error:
        raise error.about("orders") from None


def _in_lanes(problem: Problem, moves: Sequence[Sequence[Slot]]) -> list[list[Op]]:
    """Return the transfers of devices as those of pairs of lanes."""
    lanes: list[list[Op]] = [[] for _ in range(problem.lane_pairs if moves else 0)]
    for device, ops in enumerate(moves):
        lanes[problem.lane_pair(device)] += [op for op in ops if isinstance(op, Op)]
    return lanes


def _rows(texts: Any, problem: Problem, key: str, parse: Any) -> list[list[Slot]]:
    if isinstance(texts, str) or not is_several(texts):
        raise ConfigError(f"must list the operations of each device, not {shown(texts)}", key)
    rows = list(texts)
    if len(rows) != problem.devices:
        raise ConfigError(f"must list {problem.devices} devices, one list each; this has {len(rows)}", key)
    return [[_slot(entry, key, device, parse) for entry in _split(row, key, device)] for device, row in enumerate(rows)]


def _split(row: Any, key: str, device: int) -> list[Any]:
    if isinstance(row, str):
        return row.split()
    if not is_several(row):
        raise ConfigError(f"must be a list of operations, not {shown(row)}", key, entry=device)
    return list(row)


def _slot(entry: Any, key: str, device: int, parse: Any) -> Slot:
    if not isinstance(entry, (str, Op, Pair)):
        raise ConfigError(f"{shown(entry)} is no operation; one looks like 2F0", key, entry=device)
    try:
        slot: Slot = parse(str(entry))
    except ConfigError as error:
        raise ConfigError(error.message, key, entry=device) from None
    return slot


def _wait(pair: Any, end: int) -> Op:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise ConfigError(f"holds pairs of operations (later, earlier), not {shown(pair)}", "waits")
    try:
        return parse_op(str(pair[end]))
    except ConfigError as error:
        raise ConfigError(error.message, "waits") from None
