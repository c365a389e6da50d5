"""PyTorch's schedule CSV, written for `_PipelineScheduleRuntime._load_csv`, and read back.

The file is an order without times: row r lists what rank r runs. PyTorch adds the communication while it loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipesched.checks import joined, shown
from pipesched.errors import Inexpressible, InvalidSchedule, NotApplicable
from pipesched.file_formats.pytorch_cells import COMPUTATIONS, Cell, Sheet, read_cells
from pipesched.file_formats.pytorch_program import with_programs
from pipesched.file_formats.pytorch_rules import mistakes, unscaled
from pipesched.pipeline.feeding import differs
from pipesched.pipeline.ops import Op, Pair, Slot
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.plan import Plan, plan_from_slots
from pipesched.pipeline.schedule import Schedule
from pipesched.results.handover.whole_steps import no_whole_step
from pipesched.results.trainers import refused_by_pytorch


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
    """Return which microbatches to feed in place of 0, 1, 2, ..; "" where they are alike, or it is these."""
    fed = [*_renumbering(schedule.plan)]
    if not differs(schedule.problem) or fed == sorted(fed):
        return ""
    return f"numbers microbatches as PyTorch runs them, by position: feed it {joined([*map(str, fed)])}, in this order"


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
    return Imported(with_programs(sheet, replace(plan, note=_note(sheet))), Placement(tuple(sheet.rank_of.values())))


def _note(sheet: Sheet) -> str:
    stages = unscaled(sheet)
    if not stages:
        return ""
    return (
        f"stages {shown(stages)} have no REDUCE_GRAD: PyTorch will not divide their gradients by the number of"
        " microbatches, nor reduce them over data-parallel ranks"
    )


def _slots(row: Sequence[Cell]) -> Iterator[Slot]:
    for cell in row:
        ops = [Op(s, kind, m) for s, kind, m in cell.actions if kind in COMPUTATIONS and m is not None]
        if ops:
            yield Pair(*ops) if cell.overlap else ops[0]
