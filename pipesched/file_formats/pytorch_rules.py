"""The rules of a schedule that PyTorch's loader leaves to its user, one function each.

A schedule that breaks them stops, hangs, or has wrong gradients without a message. Each mistake is one sentence that
begins with the row and, where there is one, the column, both from 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from pipesched.file_formats.pytorch_cells import COMPUTATIONS, TRANSFERS, WAITS, Action, Cell, Sheet
from pipesched.file_formats.pytorch_deadlock import deadlock


def mistakes(sheet: Sheet) -> Iterator[str]:
    """Yield a sentence for everything that is wrong with the schedule."""
    rules = (_idle_ranks, _out_of_range, _twice, _astray, _missing, _wrong_overlaps, _last_stage_order, _reductions)
    transfer_rules = (_empty_cells, _needless_transfers, _missing_transfers, _misplaced_transfers)
    for rule in rules + transfer_rules * sheet.has_transfers:
        yield from rule(sheet)
    yield from _waits(sheet)
    yield from deadlock(sheet)


def _idle_ranks(sheet: Sheet) -> Iterator[str]:
    """Yield the ranks that hold no stage. PyTorch counts blank lines as ranks."""
    for rank, row in enumerate(sheet.rows):
        if not any(cell.actions for cell in row):
            yield f"row {rank + 1} is empty: each row is a rank, and each rank runs at least one stage"


def _out_of_range(sheet: Sheet) -> Iterator[str]:
    """Yield stages and microbatches whose numbers leave a gap; both count from 0."""
    told: set[int] = set()
    for action in sheet.cells_of:
        if action.stage in sheet.rank_of and action.stage >= sheet.stages and action.stage not in told:
            told.add(action.stage)
            yield f"{_at(sheet, action)} is out of range: the stages that compute should be 0 to {sheet.stages - 1}"
        if action.microbatch is not None and action.microbatch >= sheet.microbatches:
            yield f"{_at(sheet, action)} is out of range: most stages run microbatches 0 to {sheet.microbatches - 1}"


def _twice(sheet: Sheet) -> Iterator[str]:
    """Yield what stands there more than once, sharding apart."""
    for action, cells in sheet.cells_of.items():
        if action.kind not in ("UNSHARD", "RESHARD"):
            for again in cells[1:]:
                yield f"{again.where}: {action} stands twice, first in {cells[0].where}"


def _astray(sheet: Sheet) -> Iterator[str]:
    """Yield actions on another rank than their stage's."""
    for action, cells in sheet.cells_of.items():
        rank = sheet.rank_of.get(action.stage)
        for cell in cells:
            if rank is None:
                yield f"{cell.where}: {action}, but stage {action.stage} computes nowhere"
            elif cell.rank != rank:
                yield f"{cell.where}: {action} on rank {cell.rank}, but stage {action.stage} lives on rank {rank}"


def _missing(sheet: Sheet) -> Iterator[str]:
    """Yield what a stage lacks: of each microbatch a forward, and a backward as B, or as I and W."""
    for stage in range(sheet.stages):
        if stage not in sheet.rank_of:
            yield f"stage {stage} is missing"
    for stage, microbatch in product(sheet.rank_of, range(sheet.microbatches)):
        f, b, i, w = (Action(stage, kind, microbatch) for kind in COMPUTATIONS)
        has_f, has_b, has_i, has_w = (action in sheet.cells_of for action in (f, b, i, w))
        row = f"row {sheet.rank_of[stage] + 1}"
        if not has_f:
            yield f"{row}: {f} is missing"
        if has_b and (has_i or has_w):
            half = sheet.said(i if has_i else w)
            yield f"{_at(sheet, b)} and {half} are both there; a backward is either B, or I and W"
        elif not has_b and not (has_i and has_w):
            yield f"{row}: {w if has_i else i if has_w else b} is missing"


def _wrong_overlaps(sheet: Sheet) -> Iterator[str]:
    """Yield overlapped pairs of anything else than a forward and then a full backward."""
    for cell in sheet.cells():
        if cell.overlap and [action.kind for action in cell.actions] != ["F", "B"]:
            yield f"{cell.where}: {cell}: an overlapped pair is a forward F, then a full backward B"


def _last_stage_order(sheet: Sheet) -> Iterator[str]:
    """Yield the first forward of the last stage out of order: PyTorch takes entry m of its list of losses for m."""
    last, due = max(sheet.rank_of, default=0), 0
    for action in sheet.cells_of:
        if action.stage == last and action.kind == "F":
            if action.microbatch != due:
                yield (
                    f"{_at(sheet, action)}, but forward {due} of the last stage must be {last}F{due}: PyTorch takes"
                    " its losses for those of microbatches 0, 1, 2, ...; number the microbatches in this order"
                )
                return
            due += 1


def _reductions(sheet: Sheet) -> Iterator[str]:
    """Yield reductions before the gradients of their stage are complete."""
    last = {action.stage: cells[-1] for action, cells in sheet.cells_of.items() if action.kind in "BW"}
    for action, (first, *_) in sheet.cells_of.items():
        if action.kind == "REDUCE_GRAD":
            work = last.get(action.stage)
            if work is not None and _is_behind(work, first):
                yield f"{first.where}: {action} stands before {work} ({work.where}), which adds to those gradients"


def unscaled(sheet: Sheet) -> list[int]:
    """Return the stages of a file with communication that have no REDUCE_GRAD.

    PyTorch neither reduces nor scales the gradients of those.
    """
    stages = list(sheet.rank_of) if sheet.has_transfers else []
    return [stage for stage in stages if Action(stage, "REDUCE_GRAD", None) not in sheet.cells_of]


def _empty_cells(sheet: Sheet) -> Iterator[str]:
    """Yield empty cells, which PyTorch reads as idle, except in a file with communication."""
    for cell in sheet.cells():
        if not cell.actions:
            yield f"{cell.where} is empty, which a file with SEND and RECV may not have"


def _needless_transfers(sheet: Sheet) -> Iterator[str]:
    """Yield transfers without a neighbouring stage on another rank: within a rank PyTorch hands tensors over itself."""
    for action in sheet.cells_of:
        if action.kind in TRANSFERS and sheet.partner(action) is None:
            neighbour = action.stage + (1 if action.kind in ("SEND_F", "RECV_B") else -1)
            known = neighbour in sheet.rank_of
            reason = f"stage {neighbour} lives on the same rank" if known else f"there is no stage {neighbour}"
            yield f"{_at(sheet, action)}, but {reason}"


def _missing_transfers(sheet: Sheet) -> Iterator[str]:
    """Yield SENDs and RECVs that are missing, though a computation needs a result from another rank."""
    for send, receive in _due_transfers(sheet):
        sent, received = send in sheet.cells_of, receive in sheet.cells_of
        if not sent and not received:
            yield f"{_row(sheet, send)}: {send} is missing, and {receive} in {_row(sheet, receive)}"
        elif not sent:
            yield f"{_row(sheet, send)}: {send} is missing, for which {sheet.said(receive)} waits forever"
        elif not received:
            yield f"{_row(sheet, receive)}: {receive} is missing, which should receive {sheet.said(send)}"


def _due_transfers(sheet: Sheet) -> Iterator[tuple[Action, Action]]:
    """Yield the SEND of every computation whose result another rank needs, and its RECV."""
    for action in sheet.cells_of:
        if action.kind in "FBI":
            send = action._replace(kind="SEND_F" if action.kind == "F" else "SEND_B")
            receive = sheet.partner(send)
            if receive is not None:
                yield send, receive


def _misplaced_transfers(sheet: Sheet) -> Iterator[str]:
    """Yield SENDs before the computation of their tensor, and RECVs behind the computation that needs it."""
    for action in sheet.cells_of:
        if action.kind in TRANSFERS:
            kinds = "F" if action.kind.endswith("F") else "BI"
            for computation in (action._replace(kind=kind) for kind in kinds):
                if computation in sheet.cells_of:
                    yield from _misplaced(sheet, action, computation)


def _misplaced(sheet: Sheet, transfer: Action, computation: Action) -> Iterator[str]:
    moved, computed = sheet.first(transfer), sheet.first(computation)
    if transfer.kind.startswith("SEND") and _is_behind(computed, moved):
        yield f"{moved.where}: {transfer} stands before {sheet.said(computation)}, whose result it sends"
    if transfer.kind.startswith("RECV") and _is_behind(moved, computed):
        yield f"{moved.where}: {transfer} stands behind {sheet.said(computation)}, which needs it"


def _waits(sheet: Sheet) -> Iterator[str]:
    """Yield what PyTorch 2.15 refuses: waits for nothing, what is not waited for, a reduction beside one that runs.

    Versions before it have no waits, so a file without any is one of theirs.
    """
    for row in sheet.rows if any(action.kind in WAITS for action in sheet.cells_of) else ():
        running: dict[Action, Action] = {}  # by the wait for it
        for action in (action for cell in row for action in cell.actions if cell == sheet.first(action)):
            wait = action._replace(kind=f"WAIT_{action.kind}")
            if wait.kind in WAITS:
                for other in running.values():
                    if other.kind == action.kind == "REDUCE_GRAD":
                        yield f"{_at(sheet, action)} stands before the wait for {sheet.said(other)}"
                running[wait] = action
            elif action.kind in WAITS and running.pop(action, None) is None:
                yield f"{_at(sheet, action)}, but there is nothing before it to wait for"
        for wait, action in running.items():
            yield f"{_at(sheet, action)}, but no {wait} stands behind it, as in a file with waits it should"


def _is_behind(cell: Cell, other: Cell) -> bool:
    return cell.rank == other.rank and cell.column > other.column


def _at(sheet: Sheet, action: Action) -> str:
    return f"{sheet.first(action).where}: {action}"


def _row(sheet: Sheet, action: Action) -> str:
    return f"row {sheet.rank_of[action.stage] + 1}"
