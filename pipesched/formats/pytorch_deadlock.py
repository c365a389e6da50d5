"""Whether the ranks of a PyTorch schedule wait for each other in a circle.

A rank computes in the order of its row. Communication does not hold computation up, but it has an order of its own:
what two ranks exchange passes one transfer after another, each when both of them have come to it (NCCL keeps a stream
for each pair of ranks), and no transfer is posted before the computations that stand in front of it. Without SEND and
RECV in the file, results are taken to arrive by themselves, which is what PyTorch's loader arranges.

All of that is a task graph without lengths, so the core finds the circle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pipesched.core.tasks import NOWHERE, TaskGraph, arrow
from pipesched.core.timing import earliest_times
from pipesched.errors import Deadlock
from pipesched.formats.pytorch_cells import COMPUTATIONS, TRANSFERS, Action, Cell
from pipesched.formats.pytorch_sheet import Sheet

_Lane = tuple[int, int | None]  # a rank, and the rank that it exchanges with; None: its computation


def deadlock(sheet: Sheet) -> Iterator[str]:
    """One sentence with the circle, if there is one. What is missing altogether is not waited for."""
    tasks = _Tasks(sheet)
    try:
        earliest_times(tasks.graph(), list(tasks.lanes.values()))
    except Deadlock as error:
        yield _chain(error, tasks.cells)


class _Tasks:
    """The cells as tasks: one for a computation, two for a transfer, when it is posted and when it is done."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self.cells: list[Cell] = []  # of each task
        self.lanes: dict[_Lane, list[int]] = defaultdict(list)
        self._waits: list[tuple[int, int]] = []
        self._posted: dict[Action, int] = {}
        self._done: dict[Action, int] = {}
        for cell in sheet.cells():
            if cell.actions and all(action.kind in COMPUTATIONS for action in cell.actions):
                self._add_computation(cell)
            elif len(cell.actions) == 1 and cell.actions[0].kind in TRANSFERS:
                self._add_transfer(cell, cell.actions[0])

    def _add(self, cell: Cell, lane: list[int]) -> int:
        self.cells.append(cell)
        lane.append(len(self.cells) - 1)
        return lane[-1]

    def _add_computation(self, cell: Cell) -> None:
        task = self._add(cell, self.lanes[cell.rank, None])
        for action in cell.actions:
            self._done.setdefault(action, task)

    def _add_transfer(self, cell: Cell, action: Action) -> None:
        """Queue a transfer behind those between the same ranks. One that has no other end is left out."""
        partner = self._sheet.partner(action)
        if partner is None or partner not in self._sheet.places:
            return
        lane, work = self.lanes[cell.rank, self._sheet.homes[partner.stage]], self.lanes[cell.rank, None]
        posted, done = self._add(cell, lane), self._add(cell, lane)
        self._waits += [(task, posted) for task in work[-1:]]
        self._posted.setdefault(action, posted)
        self._done.setdefault(action, done)

    def graph(self) -> TaskGraph:
        """Who waits for whom, beside the order of each lane."""
        waits = [*self._waits]
        for task, cell in enumerate(self.cells):
            inputs = (one for action in cell.actions for one in _inputs(self._sheet, action))
            waits += [(self._done[one], task) for one in inputs if one in self._done]
        for action, task in self._posted.items():
            partner = self._sheet.partner(action)
            if partner in self._done:
                waits.append((task, self._done[partner]))
        size = len(self.cells)
        return TaskGraph([0] * size, [NOWHERE] * size, (), [arrow(*wait) for wait in waits])


def _inputs(sheet: Sheet, action: Action) -> Iterator[Action]:
    """What must be done before a computation; in a file without RECV, the other rank's work itself."""
    stage, kind, _ = action
    if kind not in COMPUTATIONS:
        return
    if kind == "W":
        yield action._replace(kind="I")
        return
    if kind in "BI":
        yield action._replace(kind="F")
    source = stage - 1 if kind == "F" else stage + 1
    if source not in sheet.homes:
        return
    if sheet.has_transfers and sheet.homes[source] != sheet.homes[stage]:
        yield action._replace(kind="RECV_F" if kind == "F" else "RECV_B")
    else:
        for made_by in "F" if kind == "F" else "BI":
            yield Action(source, made_by, action.microbatch)


def _chain(error: Deadlock, cells: list[Cell]) -> str:
    """A waits for B, which comes after C, which waits for A."""
    stuck = [cells[task] for task, _ in error.cycle]
    links = []
    for here, task, there in zip(stuck, error.awaited, [*stuck[1:], stuck[0]], strict=True):
        awaited = cells[task]
        is_order = here.actions[0].kind in TRANSFERS and awaited.rank == here.rank
        links.append(f"{'comes after' if is_order else 'waits for'} {_place(awaited)}")
        if awaited != there:
            links.append(f"comes after {_place(there)}")
    end = links.pop().removesuffix(_place(stuck[0]))
    return f"deadlock: {_place(stuck[0])} {', which '.join([*links, end])}{stuck[0]}"


def _place(cell: Cell) -> str:
    return f"{cell} on rank {cell.rank} ({cell.where})"
