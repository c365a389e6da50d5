"""PyTorch's schedule CSV with all that its runtime does (compute_comms): communication, sharding, reductions.

It is what `_PipelineScheduleRuntime` makes of a file of computations alone (torch.distributed.pipelining,
`_prepare_schedule_with_comms`), but by the program of the schedule in place of PyTorch's own three stages ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from pipesched.errors import Inexpressible, InvalidSchedule
from pipesched.file_formats.pytorch_cells import Action
from pipesched.file_formats.pytorch_csv import CsvText, csv_text, feeding_note, numbered_slots
from pipesched.pipeline.ops import Op, Pair, Slot
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.step_plan import NOTHING_BEFORE, ends_of_stages
from pipesched.results.trainers import refused_by_pytorch

SHARDING = ("UNSHARD", "RESHARD")  # PyTorch's actions of a stage whose weights are divided
LEFT_OUT = ("OPTIMIZER", "REDUCE_TIED")  # which its schedules lack
Row = Sequence[Slot | Action]


def dump_comms(schedule: Schedule) -> CsvText:
    """Return the schedule as a compute_comms CSV, a line for each rank.

    At level weights UNSHARD and RESHARD stand as in the programs of the schedule, and so do its reductions; a stage
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
    return csv_text(rows, "; ".join(filter(None, (feeding_note(schedule), _lacking(schedule.plan)))))


def _lacking(plan: Plan) -> str:
    """Return what of the step is left out."""
    kinds = [kind for kind in LEFT_OUT if kind in plan.index.kinds]
    return f"leaves out {' and '.join(kinds)}, which PyTorch's schedules lack" if kinds else ""


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
    kinds = ("REDUCE_GRAD", *(SHARDING if "RESHARD" in plan.index.kinds else ()))
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
                target = _target(op, len(rank_of))
                if target is not None and rank_of[target] != rank:
                    letter = "F" if op.kind == "F" else "B"
                    made[rank].append(Action(op.stage, f"SEND_{letter}", op.microbatch))
                    made[rank_of[target]].append(Action(target, f"RECV_{letter}", op.microbatch))
        if not moved:
            raise InvalidSchedule("the operations of the plan wait for each other")
    return [*made]


def _passes(action: Slot | Action) -> Iterator[Op]:
    """Yield the passes that an action runs, of a pair both."""
    if isinstance(action, Pair):
        yield from action
    elif isinstance(action, Op):
        yield action


def _is_ready(op: Op, done: set[Op], stages: int) -> bool:
    """Return whether the input of a pass has been made; that of W is there where its row lets it run."""
    source = op.stage - 1 if op.kind == "F" else op.stage + 1
    if op.kind == "W" or not 0 <= source < stages:
        return True
    return any(op._replace(stage=source, kind=kind) in done for kind in ("F" if op.kind == "F" else "BI"))


def _target(op: Op, stages: int) -> int | None:
    """Return the stage that takes what a pass gives; None where none does."""
    target = op.stage + 1 if op.kind == "F" else op.stage - 1
    return target if op.kind != "W" and 0 <= target < stages else None
