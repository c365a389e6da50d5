"""PyTorch's schedule CSV, written for `_PipelineScheduleRuntime._load_csv`, and read back.

The file is an order without times: row r lists what rank r runs. PyTorch adds the communication while it loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipesched.checks import joined, shown
from pipesched.errors import Inexpressible, InvalidSchedule, NotApplicable
from pipesched.file_formats.pytorch_rules import (
    COMPUTATIONS,
    Action,
    Cell,
    Sheet,
    deadlock,
    mistakes,
    read_cells,
    unscaled,
    with_programs,
)
from pipesched.pipeline.feeding import differs
from pipesched.pipeline.message_programs import pytorch_programs
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


def parse(text: str, source: str, *, may_wait: bool = False) -> Imported:
    """Return the plan in a CSV, compute_only or compute_comms, without its communication.

    Its communication and sharding stand beside the plan (`planned`). Stages, microbatches and placement are those of
    the cells. Raises ConfigError with `source` for a text that is no cell, and InvalidSchedule with every mistake that
    would stop PyTorch, or make its gradients wrong. With `may_wait` the plan says itself if its cells wait in a circle.
    """
    sheet = Sheet(read_cells(text, source))
    stuck, violations = [*deadlock(sheet)], [*mistakes(sheet)]
    wrong = f"{source} does not run in PyTorch: " + "; ".join([*violations, *stuck][:3])
    if violations or (stuck and not (may_wait and sheet.has_transfers)):
        raise InvalidSchedule(wrong, [*violations, *stuck])
    plan = plan_from_slots([list(_slots(row)) for row in sheet.rows], sheet.stages, sheet.microbatches)
    stages = unscaled(sheet)
    note = f"stages {shown(stages)} have no REDUCE_GRAD: PyTorch will not divide their gradients by the number of"
    note += " microbatches, nor reduce them over data-parallel ranks"
    plan = with_programs(sheet, replace(plan, note=note if stages else ""), (wrong, *stuck) if stuck else ())
    return Imported(plan, Placement(tuple(sheet.rank_of.values())))


def _slots(row: Sequence[Cell]) -> Iterator[Slot]:
    for cell in row:
        ops = [Op(s, kind, m) for s, kind, m in cell.actions if kind in COMPUTATIONS and m is not None]
        if ops:
            yield Pair(*ops) if cell.overlap else ops[0]


def dump_comms(schedule: Schedule) -> CsvText:
    """Return the schedule as a compute_comms CSV, a line for each rank.

    At level weights UNSHARD and RESHARD stand as in the programs of the schedule, and so do its reductions. A stage
    without one is reduced behind its last backward, because PyTorch divides gradients there. SEND and RECV stand as in
    the queues of the schedule, or where PyTorch puts them. Microbatches are renumbered as in `dump`. Optimizers and
    reductions of tied weights are left out, which the note of the text says. Raises Inexpressible for what
    PyTorch's runtime lacks.
    """
    refusal = refused_by_pytorch(schedule)
    if refusal is None and schedule.problem.sharding.reduces_each:
        refusal = "PyTorch reduces the gradients of a stage once, and this schedule does for each microbatch: take"
        refusal += " `shard.reduce` last"
    if refusal:
        raise Inexpressible(refusal)
    rank_of = schedule.problem.settled_placement.devices
    plan = schedule.plan if schedule.plan.messages else pytorch_programs(schedule.problem, schedule.plan)
    rows = _rows(plan, rank_of)
    kinds = [kind for kind in LEFT_OUT if kind in schedule.plan.index.kinds]
    lacking = f"leaves out {' and '.join(kinds)}, which PyTorch's schedules lack" if kinds else ""
    return csv_text(rows, "; ".join(filter(None, (feeding_note(schedule), lacking))))


def _rows(plan: Plan, rank_of: Sequence[int]) -> Iterator[Row]:
    """Yield what each rank does: its passes, and behind each what is issued there, in the turns of its messages."""
    names = _renumbering(plan)
    for device, slots in enumerate(numbered_slots(plan)):
        issued, sent = _issued(plan, device, rank_of.count(device)), dict[int, list[tuple[int, Action]]]()
        for number, sends, after, behind in zip(*(one.tolist() for one in plan.messages[device]), strict=True):
            op = plan.index.end(number, sends)
            sent.setdefault(after, []).append((behind, Action(op.stage, op.kind, names[op.microbatch])))
        passes = dict(slots)
        row: list[Slot | Action] = []
        for number in (NOTHING_BEFORE, *plan.orders[device]):
            row += [passes[number]] if number in passes else []
            cells, done = issued.get(number, []), 0
            for behind, action in sent.get(number, ()):
                row += [*cells[done:behind], action]
                done = max(done, behind)
            row += cells[done:]
        yield row


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
