"""Whether the ranks of a PyTorch schedule wait for each other in a cycle.

A rank computes in the order of its row, and at a WAIT_SEND it waits for that SEND, which takes the RECV. Other
communication does not hold it up, but it has an order of its own: what two ranks exchange passes one transfer after
another, each when both of them have come to it (NCCL keeps a stream for each pair of ranks), and no transfer is posted
before the computations and waits that stand in front of it. Without SEND and RECV in the file, results are taken to
arrive by themselves, which is what PyTorch's loader arranges.

All of that is a task graph without lengths, so the core finds the cycle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pipesched.core.tasks import NOWHERE, TaskGraph, arrow
from pipesched.core.timing import earliest_times
from pipesched.errors import Deadlock
from pipesched.file_formats.pytorch_cells import COMPUTATIONS, SEND_WAITS, TRANSFERS, Action, Cell, Sheet

_Queue = tuple[int, int | None]  # a rank, and the rank that it exchanges with; None: its computations and waits


def deadlock(sheet: Sheet) -> Iterator[str]:
    """Yield a sentence with the cycle, if there is one. What is missing altogether is not waited for."""
    tasks = _Tasks(sheet)
    try:
        earliest_times(tasks.graph(), list(tasks.queues.values()))
    except Deadlock as error:
        yield _chain(error, tasks.cells)


class _Tasks:
    """The cells as tasks: one for a computation or wait, two for a transfer, when it is posted and when it is done."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self.cells: list[Cell] = []  # of each task
        self.queues: dict[_Queue, list[int]] = defaultdict(list)
        self._waits: list[tuple[int, int]] = []
        self._posted: dict[Action, int] = {}
        self._done: dict[Action, int] = {}
        for cell in sheet.cells():
            if cell.actions and all(action.kind in COMPUTATIONS + SEND_WAITS for action in cell.actions):
                self._add_computation(cell)
            elif len(cell.actions) == 1 and cell.actions[0].kind in TRANSFERS:
                self._add_transfer(cell, cell.actions[0])

    def _add(self, cell: Cell, queue: list[int]) -> int:
        self.cells.append(cell)
        queue.append(len(self.cells) - 1)
        return queue[-1]

    def _add_computation(self, cell: Cell) -> None:
        task = self._add(cell, self.queues[cell.rank, None])
        for action in cell.actions:
            self._done.setdefault(action, task)

    def _add_transfer(self, cell: Cell, action: Action) -> None:
        """Queue a transfer behind those between the same ranks; leave out one whose other end is missing."""
        partner = self._sheet.partner(action)
        if partner is None or partner not in self._sheet.cells_of:
            return
        transfers, work = self.queues[cell.rank, self._sheet.rank_of[partner.stage]], self.queues[cell.rank, None]
        posted, done = self._add(cell, transfers), self._add(cell, transfers)
        self._waits += [(task, posted) for task in work[-1:]]
        self._posted.setdefault(action, posted)
        self._done.setdefault(action, done)

    def graph(self) -> TaskGraph:
        """Return which task waits for which, besides those before it in its queue."""
        waits = [*self._waits]
        for task, cell in enumerate(self.cells):
            inputs = (needed for action in cell.actions for needed in _inputs(self._sheet, action))
            waits += [(self._done[needed], task) for needed in inputs if needed in self._done]
        for action, task in self._posted.items():
            partner = self._sheet.partner(action)
            if partner in self._done:
                waits.append((task, self._done[partner]))
        size = len(self.cells)
        return TaskGraph([0] * size, [NOWHERE] * size, (), [arrow(*wait) for wait in waits])


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


def _chain(error: Deadlock, cells: list[Cell]) -> str:
    """Return the cycle as a sentence: A waits for B, which comes after C, which waits for A."""
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
    return f"deadlock: {_described(stuck[0])} {', which '.join(said)}"


def _described(cell: Cell) -> str:
    return f"{cell} on rank {cell.rank} ({cell.where})"
