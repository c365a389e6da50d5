"""PyTorch's schedule CSV, written for `_PipelineScheduleRuntime._load_csv`, and read back by its rules.

`parse` reads a file: its cells, as a `Sheet`, pass `mistakes` and `deadlock`, and become a plan. One with UNSHARD or
SEND becomes a `FilePlan`, which `planned` fits to a problem. `dump` writes compute_only, `dump_comms` compute_comms.
The file is an order without times: row r lists what rank r runs. PyTorch adds the communication while it loads.
It calls the contents of cells actions (its private `_Action`).

    cell   := "" | action | "(" action (";" action)* ")OVERLAP_F_B"
    action := STAGE (F | I | W | B) MICROBATCH                              computation
            | STAGE (SEND_F | RECV_F | SEND_B | RECV_B) MICROBATCH          communication
            | STAGE (WAIT_SEND_F | WAIT_SEND_B) MICROBATCH                  until it is sent; since PyTorch 2.15
            | STAGE (UNSHARD | RESHARD | REDUCE_GRAD)                       sharded data parallelism
            | STAGE WAIT_REDUCE_GRAD                                        until it is reduced; since PyTorch 2.15

A file with communication is what PyTorch calls compute_comms, one without is compute_only. PyTorch reads `0F0xyz` as
`0F0`; here a cell is read whole or refused. A schedule that breaks the rules stops, hangs, or has wrong gradients
without a message. Each mistake is one sentence that begins with the row and, where there is one, the column, from 1.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from io import StringIO
from itertools import chain, product
from typing import NamedTuple

from pipesched.checks import joined, shown
from pipesched.core.tasks import NOWHERE, TaskGraph, arrow
from pipesched.core.timing import earliest_times
from pipesched.errors import ConfigError, Deadlock, Inexpressible, InvalidSchedule, NotApplicable
from pipesched.pipeline.plan.message_programs import given_programs, pytorch_programs, without_messages
from pipesched.pipeline.plan.plan import NOTHING_BEFORE, Plan, plan_from_slots
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.plan.step import OF_FILE, WEIGHTS
from pipesched.pipeline.plan.step_plan import Issued, ends_of_stages, with_step
from pipesched.pipeline.problem.costs import fields_of
from pipesched.pipeline.problem.ops import Op, Pair, Slot
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem, differs
from pipesched.results.handover.subject import no_whole_step
from pipesched.results.trainers import refused_by_pytorch, unlike_for_pytorch

COMPUTATIONS = ("F", "B", "I", "W")
TRANSFERS = ("SEND_F", "RECV_F", "SEND_B", "RECV_B")
SEND_WAITS = ("WAIT_SEND_F", "WAIT_SEND_B")
WAITS = (*SEND_WAITS, "WAIT_REDUCE_GRAD")
_ONES = "|".join(COMPUTATIONS + TRANSFERS + SEND_WAITS)
_NUMBER = "(?:0|[1-9][0-9]{0,8})"
_ACTION = re.compile(rf"({_NUMBER})(?:({_ONES})({_NUMBER})|(UNSHARD|RESHARD|REDUCE_GRAD|WAIT_REDUCE_GRAD))", re.ASCII)
_OVERLAP = re.compile(r"\(([^()]*)\)OVERLAP_F_B", re.ASCII)


class Action(NamedTuple):
    """An action. Those of sharding are of a whole stage: their `microbatch` is None."""

    stage: int
    kind: str
    microbatch: int | None

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{'' if self.microbatch is None else self.microbatch}"


class Cell(NamedTuple):
    """A cell: its rank and its column, both from 0, and its actions, several if they overlap, none if it is empty."""

    rank: int
    column: int
    actions: tuple[Action, ...]
    overlap: bool

    @property
    def where(self) -> str:
        """Row and column for messages, counted from 1."""
        return f"row {self.rank + 1}, column {self.column + 1}"

    def __str__(self) -> str:
        text = ";".join(map(str, self.actions))
        return f"({text})OVERLAP_F_B" if self.overlap else text


class Sheet:
    """The cells by row. A file does not say how many stages and microbatches it has: they follow from the cells."""

    def __init__(self, rows: Sequence[Sequence[Cell]]) -> None:
        self.rows, self.cells = rows, [*chain.from_iterable(rows)]

    @cached_property
    def cells_of(self) -> dict[Action, list[Cell]]:
        cells: dict[Action, list[Cell]] = defaultdict(list)
        for cell in self.cells:
            for action in cell.actions:
                cells[action].append(cell)
        return dict(cells)

    @cached_property
    def has_transfers(self) -> bool:
        """Whether the file is a compute_comms one."""
        return any(action.kind in TRANSFERS for action in self.cells_of)

    @cached_property
    def rank_of(self) -> dict[int, int]:
        """The rank of each stage that computes: the one that runs most of it, of several the first in the file.

        The highest number of a stage may be a slip, so the number of stages is the length of this.
        """
        votes: dict[int, Counter[int]] = defaultdict(Counter)
        for action, cells in self.cells_of.items():
            if action.kind in COMPUTATIONS:
                votes[action.stage].update(cell.rank for cell in cells)
        return {stage: max(sorted(ranks), key=ranks.__getitem__) for stage, ranks in sorted(votes.items())}

    @cached_property
    def microbatches(self) -> int:
        """The number of forwards that most stages have, the larger one if two are as frequent."""
        forwards = Counter(action.stage for action in self.cells_of if action.kind == "F")
        votes = Counter(forwards.values())
        return max(votes, key=lambda count: (votes[count], count), default=0)

    def partner(self, transfer: Action) -> Action | None:
        """Return the other end of a SEND or RECV, None where there is no other rank to exchange with."""
        direction, _, what = transfer.kind.partition("_")
        stage = transfer.stage + (1 if (direction == "SEND") == (what == "F") else -1)
        if self.rank_of.get(stage) in (None, self.rank_of.get(transfer.stage)):
            return None
        return Action(stage, f"{'RECV' if direction == 'SEND' else 'SEND'}_{what}", transfer.microbatch)

    def first(self, action: Action) -> Cell:
        return self.cells_of[action][0]

    def said(self, action: Action) -> str:
        return f"{action} ({self.first(action).where})"


def _cell(text: str, rank: int, column: int) -> Cell:
    """Read a cell. Raises ConfigError for a text that is none."""
    text = text.strip()
    cell = Cell(rank, column, (), overlap=False)
    if not text:
        return cell
    overlap = _OVERLAP.fullmatch(text)
    parts = [part.strip() for part in overlap[1].split(";")] if overlap else [text]
    found = [match.groups() for part in parts if (match := _ACTION.fullmatch(part))]
    if len(found) < len(parts):
        first = f"2F0 (stage, one of {' '.join(COMPUTATIONS)}, microbatch)"
        examples = f"{first}, 0SEND_F0, 0WAIT_SEND_F0, 0UNSHARD or (0F3;3B1)OVERLAP_F_B"
        raise ConfigError(f"{cell.where}: {shown(text)} is no operation; one looks like {examples}")
    actions = (Action(int(stage), kind or whole, None if whole else int(m)) for stage, kind, m, whole in found)
    return cell._replace(actions=tuple(actions), overlap=overlap is not None)


def deadlock(sheet: Sheet) -> Iterator[str]:
    """Yield a sentence with the cycle, if there is one. What is missing altogether is not waited for."""
    cells, queues, waits = _tasks(sheet)
    size = len(cells)
    try:
        earliest_times(TaskGraph([0] * size, [NOWHERE] * size, (), [arrow(*wait) for wait in waits]), queues)
    except Deadlock as error:
        stuck = [cells[task] for task, _ in error.cycle]
        links: list[tuple[str, Cell]] = []
        for waiting, task, following in zip(stuck, error.awaited, [*stuck[1:], stuck[0]], strict=True):
            awaited = cells[task]
            is_order = waiting.actions[0].kind in TRANSFERS and awaited.rank == waiting.rank
            links.append(("comes after" if is_order else "waits for", awaited))
            if awaited != following:
                links.append(("comes after", following))
        *others, (last, _) = links
        said = [*(f"{how} {_described(cell)}" for how, cell in others), f"{last} {stuck[0]}"]
        yield f"deadlock: {_described(stuck[0])} {', which '.join(said)}"


def _tasks(sheet: Sheet) -> tuple[list[Cell], list[list[int]], list[tuple[int, int]]]:
    """Return the cells of tasks, their queues, and which waits for which besides those before it in its queue.

    A computation or wait is one task, a transfer two: when it is posted and when it is done. It queues behind those
    between the same ranks. One whose other end is missing is left out.
    """
    cells: list[Cell] = []
    # by rank, and the rank that it exchanges with; None: its computations and waits
    queues: dict[tuple[int, int | None], list[int]] = defaultdict(list)
    waits, posted, done = list[tuple[int, int]](), dict[Action, int](), dict[Action, int]()
    for cell in sheet.cells:
        task = len(cells)
        if cell.actions and all(action.kind in COMPUTATIONS + SEND_WAITS for action in cell.actions):
            cells.append(cell)
            queues[cell.rank, None].append(task)
            for action in cell.actions:
                done.setdefault(action, task)
        elif len(cell.actions) == 1 and cell.actions[0].kind in TRANSFERS:
            partner = sheet.partner(cell.actions[0])
            if partner is not None and partner in sheet.cells_of:
                cells += [cell, cell]
                queues[cell.rank, sheet.rank_of[partner.stage]] += [task, task + 1]
                waits += [(before, task) for before in queues[cell.rank, None][-1:]]
                posted.setdefault(cell.actions[0], task)
                done.setdefault(cell.actions[0], task + 1)
    for task, cell in enumerate(cells):
        inputs = (needed for action in cell.actions for needed in _inputs(sheet, action))
        waits += [(done[needed], task) for needed in inputs if needed in done]
    waits += [(task, done[partner]) for one, task in posted.items() if (partner := sheet.partner(one)) in done]
    return cells, [*queues.values()], waits


def _inputs(sheet: Sheet, action: Action) -> Iterator[Action]:
    """Yield what must be done before a computation or a wait; without RECV, that is the other rank's work itself."""
    stage, kind, _ = action
    if kind in SEND_WAITS:
        yield action._replace(kind=kind.removeprefix("WAIT_"))
    if kind not in COMPUTATIONS:
        return
    if kind == "W":
        yield action._replace(kind="I")
        return
    if kind in "BI":
        yield action._replace(kind="F")
    source = stage - 1 if kind == "F" else stage + 1
    if source not in sheet.rank_of:
        return
    if sheet.has_transfers and sheet.rank_of[source] != sheet.rank_of[stage]:
        yield action._replace(kind="RECV_F" if kind == "F" else "RECV_B")
    else:
        for made_by in "F" if kind == "F" else "BI":
            yield Action(source, made_by, action.microbatch)


def _described(cell: Cell) -> str:
    return f"{cell} on rank {cell.rank} ({cell.where})"


def mistakes(sheet: Sheet) -> Iterator[str]:
    """Yield a sentence for everything that is wrong with the schedule, but for a circle of waits (`deadlock`)."""
    for rank, row in enumerate(sheet.rows):  # of which PyTorch counts blank ones too
        if not any(cell.actions for cell in row):
            yield f"row {rank + 1} is empty: each row is a rank, and each rank runs at least one stage"
    yield from _astray(sheet)
    yield from _missing(sheet)
    for cell in sheet.cells:
        if cell.overlap and [action.kind for action in cell.actions] != ["F", "B"]:
            yield f"{cell.where}: {cell}: an overlapped pair is a forward F, then a full backward B"
    yield from _too_early(sheet)
    if sheet.has_transfers:
        idle = (cell for cell in sheet.cells if not cell.actions)
        yield from (f"{cell.where} is empty, which a file with SEND and RECV may not have" for cell in idle)
        yield from _wrong_transfers(sheet)
        yield from _misplaced_transfers(sheet)
    yield from _waits(sheet)


def _astray(sheet: Sheet) -> Iterator[str]:
    """Yield stages and microbatches whose numbers leave a gap, what stands twice, and what is not on its stage's rank.

    Numbers count from 0, and of sharding several may stand there.
    """
    stages, told = len(sheet.rank_of), set[int]()
    for action in sheet.cells_of:
        if action.stage in sheet.rank_of and action.stage >= stages and action.stage not in told:
            told.add(action.stage)
            yield f"{_at(sheet, action)} is out of range: the stages that compute should be 0 to {stages - 1}"
        if action.microbatch is not None and action.microbatch >= sheet.microbatches:
            yield f"{_at(sheet, action)} is out of range: most stages run microbatches 0 to {sheet.microbatches - 1}"
    for action, (first, *more) in sheet.cells_of.items():
        for again in more if action.kind not in ("UNSHARD", "RESHARD") else ():
            yield f"{again.where}: {action} stands twice, first in {first.where}"
    for action, cells in sheet.cells_of.items():
        rank = sheet.rank_of.get(action.stage)
        for cell in cells:
            if rank is None:
                yield f"{cell.where}: {action}, but stage {action.stage} computes nowhere"
            elif cell.rank != rank:
                yield f"{cell.where}: {action} on rank {cell.rank}, but stage {action.stage} lives on rank {rank}"


def _missing(sheet: Sheet) -> Iterator[str]:
    """Yield what a stage lacks: of each microbatch a forward, and a backward as B, or as I and W."""
    yield from (f"stage {stage} is missing" for stage in range(len(sheet.rank_of)) if stage not in sheet.rank_of)
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


def _too_early(sheet: Sheet) -> Iterator[str]:
    """Yield the first forward of the last stage out of order, and reductions before their gradients are complete.

    PyTorch takes entry m of its list of losses for that of microbatch m.
    """
    last = max(sheet.rank_of, default=0)
    forwards = [action for action in sheet.cells_of if action.stage == last and action.kind == "F"]
    for due, action in enumerate(forwards):
        if action.microbatch != due:
            yield (
                f"{_at(sheet, action)}, but forward {due} of the last stage must be {last}F{due}: PyTorch takes"
                " its losses for those of microbatches 0, 1, 2, ...; number the microbatches in this order"
            )
            break
    works = {action.stage: cells[-1] for action, cells in sheet.cells_of.items() if action.kind in "BW"}
    for action, (first, *_) in sheet.cells_of.items():
        work = works.get(action.stage) if action.kind == "REDUCE_GRAD" else None
        if work is not None and _is_behind(work, first):
            yield f"{first.where}: {action} stands before {work} ({work.where}), which adds to those gradients"


def _wrong_transfers(sheet: Sheet) -> Iterator[str]:
    """Yield transfers without a neighbouring stage on another rank, and those that a computation lacks.

    Within a rank PyTorch hands tensors over itself.
    """
    for action in sheet.cells_of:
        if action.kind in TRANSFERS and sheet.partner(action) is None:
            neighbour = action.stage + (1 if action.kind in ("SEND_F", "RECV_B") else -1)
            known = neighbour in sheet.rank_of
            reason = f"stage {neighbour} lives on the same rank" if known else f"there is no stage {neighbour}"
            yield f"{_at(sheet, action)}, but {reason}"
    for action in sheet.cells_of:
        send = action._replace(kind="SEND_F" if action.kind == "F" else "SEND_B")
        receive = sheet.partner(send) if action.kind in "FBI" else None
        if receive is None or (send in sheet.cells_of and receive in sheet.cells_of):
            continue
        here, there = (f"row {sheet.rank_of[one.stage] + 1}" for one in (send, receive))
        if receive in sheet.cells_of:
            yield f"{here}: {send} is missing, for which {sheet.said(receive)} waits forever"
        elif send in sheet.cells_of:
            yield f"{there}: {receive} is missing, which should receive {sheet.said(send)}"
        else:
            yield f"{here}: {send} is missing, and {receive} in {there}"


def _misplaced_transfers(sheet: Sheet) -> Iterator[str]:
    """Yield SENDs before the computation of their tensor, and RECVs behind the computation that needs it."""
    for transfer in (action for action in sheet.cells_of if action.kind in TRANSFERS):
        computations = [transfer._replace(kind=kind) for kind in ("F" if transfer.kind.endswith("F") else "BI")]
        moved, is_sent = sheet.first(transfer), transfer.kind.startswith("SEND")
        for computation in (one for one in computations if one in sheet.cells_of):
            computed = sheet.first(computation)
            if is_sent and _is_behind(computed, moved):
                yield f"{moved.where}: {transfer} stands before {sheet.said(computation)}, whose result it sends"
            if not is_sent and _is_behind(moved, computed):
                yield f"{moved.where}: {transfer} stands behind {sheet.said(computation)}, which needs it"


def _waits(sheet: Sheet) -> Iterator[str]:
    """Yield what PyTorch 2.15 refuses: waits for nothing, what is not waited for, a reduction beside one that runs."""
    for row in sheet.rows if any(action.kind in WAITS for action in sheet.cells_of) else ():  # older files have none
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


@dataclass(frozen=True, eq=False, repr=False)
class FilePlan(Plan):
    """A plan of a file that has UNSHARD, or SEND and RECV, with the program of each device.

    `programs` are UNSHARD, RESHARD and REDUCE_GRAD, each behind its slot; the n-th UNSHARD of a stage is its turn n,
    from 0. `mistakes` says what PyTorch would refuse of them. `issued` are SEND and RECV: the operation, the slot that
    it stands behind, and how many of `programs` in between. `stuck` says where cells wait in a circle.
    """

    programs: Sequence[Sequence[Issued]] = ()
    mistakes: Sequence[str] = ()
    issued: Sequence[Sequence[tuple[Op, Op | None, int]]] = ()
    stuck: Sequence[str] = ()


def planned(problem: Problem, plan: Plan) -> Plan:
    """Return a plan of a file for a problem: with the programs of the file where the problem shards weights.

    Where messages queue and no other order is asked for, it has the SEND and RECV of the file. Reductions of each
    microbatch, which no file has, are by the rule, and so is that of a stage without one. Raises InvalidSchedule,
    naming operations and devices, for programs that leave a stage sharded where it computes, and without queues for
    cells that wait in a circle.
    """
    order = None if problem.messages is None else problem.messages.order
    if order not in (None, OF_FILE):
        plan = without_messages(plan)
    if not isinstance(plan, FilePlan):
        return plan
    if plan.stuck and problem.messages is None:
        raise InvalidSchedule(plan.stuck[0], plan.stuck[1:])
    file = plan
    if problem.sharding.divides(WEIGHTS) and file.programs:
        if plan.mistakes:
            raise InvalidSchedule("; ".join(plan.mistakes[:3]), plan.mistakes)
        each = problem.sharding.reduces_each
        given = [[(op, after) for op, after in row if not each or op.kind != "REDUCE_GRAD"] for row in plan.programs]
        plan = with_step(problem, plan, given)
    if problem.messages is None or order not in (None, OF_FILE) or not file.issued:
        return plan
    return given_programs(problem, plan, file.issued)


def _program(row: Sequence[Cell], plan: Plan) -> tuple[list[Issued], list[tuple[Op, Op | None, int]]]:
    """Return what a row adds to `programs` of a FilePlan, and to its `issued`."""
    after, behind, turns = None, 0, Counter[int]()
    whole, transfers = list[Issued](), list[tuple[Op, Op | None, int]]()
    for cell in row:
        for stage, kind, microbatch in cell.actions[:1]:  # of a pair its forward
            if kind in TRANSFERS and microbatch is not None:
                transfers.append((Op._make((stage, kind, microbatch, 0)), after, behind))
            elif kind in COMPUTATIONS:
                after, behind = Op(stage, kind, microbatch), 0
            elif kind in ("UNSHARD", "RESHARD", "REDUCE_GRAD"):
                turn = turns[stage] if kind == "UNSHARD" else max(turns[stage] - 1, 0)
                op = Op(stage, kind, None if kind == "REDUCE_GRAD" else turn)
                whole.append((op, NOTHING_BEFORE if after is None else plan.index.number(after)))
                turns[stage] += kind == "UNSHARD"
                behind += 1
    return whole, transfers


def _sharding_mistakes(row: Sequence[Cell]) -> Iterator[str]:
    """Yield what of a row PyTorch refuses where stages are sharded."""
    whole: set[int] = set()
    for cell in row:
        for action in cell.actions:
            stage, said = action.stage, f"{cell.where}: {action} on device {cell.rank}"
            if action.kind in COMPUTATIONS and stage not in whole:
                yield f"{said}, but stage {stage} is sharded there: {stage}UNSHARD is missing before it"
            elif action.kind == "UNSHARD":
                if stage in whole:
                    yield f"{said}, but stage {stage} is unsharded there already"
                whole.add(stage)
            elif action.kind == "RESHARD":
                if stage not in whole:
                    yield f"{said}, but stage {stage} is sharded there already"
                whole.discard(stage)
    for stage in sorted(whole):
        yield f"row {row[0].rank + 1}: {stage}RESHARD is missing on device {row[0].rank} at the end of the step"


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

    def renamed(slot: Slot) -> Slot:
        if isinstance(slot, Pair):
            return Pair(*(op._replace(microbatch=names[op.microbatch]) for op in slot))
        return slot._replace(microbatch=names[slot.microbatch])

    return [[(number, renamed(plan.slot(number))) for number in order if number < first] for order in plan.orders]


def _renumbering(plan: Plan) -> dict[int, int]:
    """Return the new number of each microbatch: 0, 1, 2, ... in the order of the last stage's forwards."""
    last = plan.index.row("F", plan.index.stages - 1)
    forwards = [plan.index.owner_of(number) for order in plan.orders for number in order if number in last]
    return {microbatch: number for number, microbatch in enumerate(forwards)}


def parse(text: str, source: str, *, may_wait: bool = False) -> tuple[Plan, Placement]:
    """Return the plan in a CSV, compute_only or compute_comms, without its communication, and its placement.

    Its communication and sharding stand beside the plan (`planned`). Stages, microbatches and placement are those of
    the cells. Raises ConfigError with `source` for a text that is no cell, and InvalidSchedule with every mistake that
    would stop PyTorch, or make its gradients wrong. With `may_wait` the plan says itself if its cells wait in a circle.
    """
    lines = csv.reader(StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        table = [[_cell(content, rank, column) for column, content in enumerate(row)] for rank, row in enumerate(lines)]
    except csv.Error as error:
        raise ConfigError(f"{source}: line {lines.line_num} is no CSV: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"{source}: {error.message}") from None
    if not table:
        raise ConfigError(f"{source} is empty; a schedule has a row for each rank, such as 0F0,0F1,0B0,0B1")
    sheet = Sheet(table)
    stuck, violations = [*deadlock(sheet)], [*mistakes(sheet)]
    wrong = f"{source} does not run in PyTorch: " + "; ".join([*violations, *stuck][:3])
    if violations or (stuck and not (may_wait and sheet.has_transfers)):
        raise InvalidSchedule(wrong, [*violations, *stuck])
    slots: list[list[Slot]] = []
    for row in sheet.rows:
        passes = ([one for one in cell.actions if one.kind in COMPUTATIONS] for cell in row)
        each = ([Op(s, kind, m) for s, kind, m in found if m is not None] for found in passes)
        slots.append([Pair(*ops) if len(ops) > 1 else ops[0] for ops in each if ops])
    plan = plan_from_slots(slots, len(sheet.rank_of), sheet.microbatches)
    computing = sheet.rank_of if sheet.has_transfers else ()
    stages = [stage for stage in computing if Action(stage, "REDUCE_GRAD", None) not in sheet.cells_of]
    note = f"stages {shown(stages)} have no REDUCE_GRAD: PyTorch will not divide their gradients by the number of"
    note += " microbatches, nor reduce them over data-parallel ranks"
    plan = replace(plan, note=note if stages else "")
    is_sharded = any(action.kind == "UNSHARD" for action in sheet.cells_of)
    if is_sharded or sheet.has_transfers:
        rows = [_program(row, plan) for row in sheet.rows]
        plan = FilePlan(
            **fields_of(plan),
            programs=[whole for whole, _ in rows] if is_sharded else (),
            mistakes=[mistake for row in sheet.rows for mistake in _sharding_mistakes(row)] if is_sharded else (),
            issued=[transfers for _, transfers in rows] if sheet.has_transfers else (),
            stuck=(wrong, *stuck) if stuck else (),
        )
    return plan, Placement(tuple(sheet.rank_of.values()))


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
    kinds = [kind for kind in ("OPTIMIZER", "REDUCE_TIED") if kind in schedule.plan.index.kinds]
    lacking = f"leaves out {' and '.join(kinds)}, which PyTorch's schedules lack" if kinds else ""
    return csv_text(rows, "; ".join(filter(None, (feeding_note(schedule), lacking))))


def _rows(plan: Plan, rank_of: Sequence[int]) -> Iterator[list[Slot | Action]]:
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
