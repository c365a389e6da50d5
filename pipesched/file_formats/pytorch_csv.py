"""PyTorch's schedule CSV, written for `_PipelineScheduleRuntime._load_csv`, and read back.

The file is an order without times: row r lists what rank r runs. PyTorch adds the communication while it loads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipesched.checks import joined, shown
from pipesched.errors import Inexpressible, InvalidSchedule, NotApplicable
from pipesched.file_formats.pytorch_cells import COMPUTATIONS, Action, Cell, Sheet, read_cells
from pipesched.file_formats.pytorch_rules import mistakes, unscaled, with_programs
from pipesched.pipeline.feeding import differs
from pipesched.pipeline.ops import Op, Pair, Slot
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.plan import NOTHING_BEFORE, Plan, ends_of_stages, plan_from_slots
from pipesched.pipeline.schedule import Schedule
from pipesched.results.handover.subject import no_whole_step
from pipesched.results.trainers import refused_by_pytorch, unlike_for_pytorch

LEFT_OUT = ("OPTIMIZER", "REDUCE_TIED")  # which PyTorch's schedules lack
Row = Sequence[Slot | Action]


class Imported(NamedTuple):
    """What a file says: the order of each device, and the device of each stage."""

    plan: Plan
    placement: Placement


class CsvText(str):
    """The text of a CSV; `note` says which microbatches its numbers stand for, "" where they are all alike."""

    note: str = ""


def dump(schedule: Schedule) -> CsvText:
    """Return the schedule as a compute_only CSV, a line for each rank.

    PyTorch numbers losses by the order in which the last stage runs its forwards, so the microbatches are renumbered
    to make that 0, 1, 2, ... What a step has beside its passes is left out. Raises Inexpressible for slices, side work
    and forward passes alone, NotApplicable for a bidirectional placement, and for a plan with operations that PyTorch
    lacks.
    """
    refusal = refused_by_pytorch(schedule)
    if refusal:
        raise Inexpressible(refusal) if no_whole_step(schedule.problem, "") else NotApplicable(refusal)
    return csv_text([[slot for _, slot in row] for row in numbered_slots(schedule.plan)], feeding_note(schedule))


def csv_text(rows: Iterable[Iterable[object]], note: str = "") -> CsvText:
    """Return the text of a file with these cells, a row for each rank, and with a note."""
    text = CsvText("".join(",".join(map(str, row)) + "\n" for row in rows))
    text.note = note
    return text


def feeding_note(schedule: Schedule) -> str:
    """Return which microbatches to feed in place of 0, 1, 2, .., and why PyTorch cannot; "" where they are alike."""
    fed, unlike = [*_renumbering(schedule.plan)], unlike_for_pytorch(schedule.problem)
    note = f"is for `pipesched train`: {unlike}" if unlike else ""
    if not differs(schedule.problem) or fed == sorted(fed):
        return note
    order = f"feed it {joined([*map(str, fed)])}, in this order"
    return f"{f'{note}; it ' if note else ''}numbers microbatches as PyTorch runs them, by position: {order}"


def numbered_slots(plan: Plan) -> list[list[tuple[int, Slot]]]:
    """Return the passes of each device in order: their numbers, and their slots with PyTorch's microbatches."""
    names, first = _renumbering(plan), plan.index.passes
    return [[(number, _renamed(plan.slot(number), names)) for number in order if number < first]
            for order in plan.orders]  # fmt: skip


def _renumbering(plan: Plan) -> dict[int, int]:
    """Return the new number of each microbatch: 0, 1, 2, ... in the order of the last stage's forwards."""
    last = plan.index.row("F", plan.index.stages - 1)
    forwards = [plan.index.owner_of(number) for order in plan.orders for number in order if number in last]
    return {microbatch: number for number, microbatch in enumerate(forwards)}


def _renamed(slot: Slot, names: Mapping[int, int]) -> Slot:
    if isinstance(slot, Pair):
        return Pair(*(op._replace(microbatch=names[op.microbatch]) for op in slot))
    return slot._replace(microbatch=names[slot.microbatch])


def parse(text: str, source: str) -> Imported:
    """Return the plan in a CSV, compute_only or compute_comms, without its communication.

    Its sharding stands beside the plan (`planned`). Stages, microbatches and placement are those of the cells. Raises
    ConfigError with `source` for a text that is no cell, and InvalidSchedule with every mistake that would stop
    PyTorch, or make its gradients wrong.
    """
    sheet = Sheet(read_cells(text, source))
    violations = list(mistakes(sheet))
    if violations:
        raise InvalidSchedule(f"{source} does not run in PyTorch: " + "; ".join(violations[:3]), violations)
    plan = plan_from_slots([list(_slots(row)) for row in sheet.rows], sheet.stages, sheet.microbatches)
    stages = unscaled(sheet)
    note = f"stages {shown(stages)} have no REDUCE_GRAD: PyTorch will not divide their gradients by the number of"
    note += " microbatches, nor reduce them over data-parallel ranks"
    plan = with_programs(sheet, replace(plan, note=note if stages else ""))
    return Imported(plan, Placement(tuple(sheet.rank_of.values())))


def _slots(row: Sequence[Cell]) -> Iterator[Slot]:
    for cell in row:
        ops = [Op(s, kind, m) for s, kind, m in cell.actions if kind in COMPUTATIONS and m is not None]
        if ops:
            yield Pair(*ops) if cell.overlap else ops[0]


def dump_comms(schedule: Schedule) -> CsvText:
    """Return the schedule as a compute_comms CSV, a line for each rank.

    At level weights UNSHARD and RESHARD stand as in the programs of the schedule, and so do its reductions. A stage
    without one is reduced behind its last backward, because PyTorch divides gradients there. SEND and RECV stand where
    PyTorch puts them. Microbatches are renumbered as in `dump`. Optimizers and reductions of tied weights are left out,
    which the note of the text says. Raises Inexpressible for what PyTorch's runtime lacks.
    """
    refusal = refused_by_pytorch(schedule)
    if refusal is None and schedule.problem.sharding.reduces_each:
        refusal = "PyTorch reduces the gradients of a stage once, and this schedule does for each microbatch: take"
        refusal += " `shard.reduce` last"
    if refusal:
        raise Inexpressible(refusal)
    rank_of = schedule.problem.settled_placement.devices
    rows = _with_transfers(_with_programs(schedule.plan, rank_of), rank_of)
    kinds = [kind for kind in LEFT_OUT if kind in schedule.plan.index.kinds]
    lacking = f"leaves out {' and '.join(kinds)}, which PyTorch's schedules lack" if kinds else ""
    return csv_text(rows, "; ".join(filter(None, (feeding_note(schedule), lacking))))


def _with_programs(plan: Plan, rank_of: Sequence[int]) -> list[Row]:
    """Return what each rank does but for SEND and RECV: its passes, and behind them what is issued there."""
    rows: list[Row] = []
    for device, slots in enumerate(numbered_slots(plan)):
        issued = _issued(plan, device, rank_of.count(device))
        cells: list[Slot | Action] = [*issued.get(NOTHING_BEFORE, ())]
        passes = dict(slots)
        for number in plan.orders[device]:
            cells += [passes[number]] if number in passes else []
            cells += issued.get(number, ())
        rows.append(cells)
    return rows


def _issued(plan: Plan, device: int, stages: int) -> dict[int, list[Action]]:
    """Return the actions of a device's whole stages by the slot behind which they stand, those of the rule first."""
    order, program = plan.orders[device], plan.network[device] if plan.network else ()
    ops = [(plan.index.op(number), after) for number, after in program]
    reduced = {op.stage for op, _ in ops if op.kind == "REDUCE_GRAD"}
    issued: dict[int, list[Action]] = {}
    ends = ends_of_stages(order, plan.pairs, plan.index, stages)
    for stage, place in sorted(ends.items(), key=lambda end: end[1]):
        if stage not in reduced:
            issued.setdefault(order[place], []).append(Action(stage, "REDUCE_GRAD", None))
    is_divided = "RESHARD" in plan.index.kinds
    kinds = ("REDUCE_GRAD", "UNSHARD", "RESHARD") if is_divided else ("REDUCE_GRAD",)
    for op, after in ops:
        if op.kind in kinds:
            issued.setdefault(after, []).append(Action(op.stage, op.kind, None))
    return issued


def _with_transfers(rows: Sequence[Row], rank_of: Sequence[int]) -> list[Row]:
    """Return the rows with SEND and RECV where PyTorch's loader puts them (`_add_send_recv`).

    The ranks take turns, and each does one action if its input is there. A SEND stands right behind the pass that makes
    its tensor, the RECV at that moment at the end of what the other rank has done so far.
    """
    left, done = [deque(row) for row in rows], set[Op]()
    made: list[list[Slot | Action]] = [[] for _ in rows]
    while any(left):
        moved = False
        for rank, coming in enumerate(left):
            if not coming or not all(_is_ready(op, done, len(rank_of)) for op in _passes(coming[0])):
                continue
            action, moved = coming.popleft(), True
            made[rank].append(action)
            for op in _passes(action):
                done.add(op)
                target = op.stage + 1 if op.kind == "F" else op.stage - 1
                if op.kind != "W" and 0 <= target < len(rank_of) and rank_of[target] != rank:
                    letter = "F" if op.kind == "F" else "B"
                    made[rank].append(Action(op.stage, f"SEND_{letter}", op.microbatch))
                    made[rank_of[target]].append(Action(target, f"RECV_{letter}", op.microbatch))
        if not moved:
            raise InvalidSchedule("the operations of the plan wait for each other")
    return [*made]


def _passes(action: Slot | Action) -> Sequence[Op]:
    """Return the passes that an action runs, of a pair both."""
    return action if isinstance(action, Pair) else [action] if isinstance(action, Op) else ()


def _is_ready(op: Op, done: set[Op], stages: int) -> bool:
    """Return whether the input of a pass has been made; that of W is there where its row lets it run."""
    source = op.stage - 1 if op.kind == "F" else op.stage + 1
    if op.kind == "W" or not 0 <= source < stages:
        return True
    return any(op._replace(stage=source, kind=kind) in done for kind in ("F" if op.kind == "F" else "BI"))
