"""Whether the ranks of a PyTorch schedule wait for each other in a circle.

A rank computes in the order of its row. Communication does not hold computation up, but it has an order of its own:
what two ranks exchange passes one transfer after another, each when both of them have come to it (NCCL keeps a stream
for each pair of ranks), and no transfer is posted before the computations that stand in front of it. Without SEND and
RECV in the file, results are taken to arrive by themselves, which is what PyTorch's loader arranges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipesched.formats.pytorch_cells import COMPUTATIONS, TRANSFERS, Action, Cell
from pipesched.formats.pytorch_sheet import Sheet


class _Lane(NamedTuple):
    """What has an order of its own: the computation of a rank, or its communication with another one (`peer`)."""

    rank: int
    peer: int | None


def deadlock(sheet: Sheet) -> Iterator[str]:
    """One sentence with the circle, if there is one. What is missing altogether is not waited for."""
    run = _Run(sheet)
    run.go()
    stuck = next((lane for lane in run.lanes if run.head(lane)), None)
    if stuck is not None:
        yield _chain(run.circle(stuck))


class _Run:
    """The ranks at work, each lane as far as it gets."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.lanes: dict[_Lane, list[Cell]] = defaultdict(list)
        self.done: set[Action] = set()
        for cell in sheet.cells():
            lane = self._lane(cell)
            if lane is None:
                self.done.update(cell.actions)
            else:
                self.lanes[lane].append(cell)
        self.passed = dict.fromkeys(self.lanes, 0)

    def _lane(self, cell: Cell) -> _Lane | None:
        """Where a cell queues. Sharding waits for nobody, and mistaken transfers are left out."""
        if cell.actions and all(action.kind in COMPUTATIONS for action in cell.actions):
            return _Lane(cell.rank, None)
        if len(cell.actions) == 1 and cell.actions[0].kind in TRANSFERS:
            partner = self.sheet.partner(cell.actions[0])
            if partner is not None and partner in self.sheet.places:
                return _Lane(cell.rank, self.sheet.homes[partner.stage])
        return None

    def go(self) -> None:
        """Run until no lane moves."""
        while sum([self._advance(lane) for lane in self.lanes]):
            pass

    def _advance(self, lane: _Lane) -> int:
        """Run a lane as far as it gets, and say how many cells that was."""
        before = self.passed[lane]
        cell = self.head(lane)
        while cell is not None and self.waits_for(lane, cell) is None:
            self._pass(lane, cell)
            cell = self.head(lane)
        return self.passed[lane] - before

    def _pass(self, lane: _Lane, cell: Cell) -> None:
        """A cell is done; a transfer is done on both ends."""
        self.passed[lane] += 1
        self.done.update(cell.actions)
        if lane.peer is not None:
            partner = self.sheet.partner(cell.actions[0])
            other = _Lane(lane.peer, lane.rank)
            head = self.head(other)
            if head is not None and head.actions[0] == partner:
                self.passed[other] += 1
                self.done.add(head.actions[0])

    def head(self, lane: _Lane) -> Cell | None:
        """The cell that a lane has come to; None at its end."""
        cells = self.lanes.get(lane, ())
        return cells[self.passed[lane]] if lane in self.passed and self.passed[lane] < len(cells) else None

    def waits_for(self, lane: _Lane, cell: Cell) -> Cell | None:
        """What the head of a lane waits for."""
        return self._input(cell) if lane.peer is None else self._unposted(lane, cell)

    def _input(self, cell: Cell) -> Cell | None:
        """The first cell that makes or brings an input of this one and is not done."""
        for action in cell.actions:
            for needed in _inputs(self.sheet, action):
                if needed in self.sheet.places and needed not in self.done:
                    return self.sheet.first(needed)
        return None

    def _unposted(self, lane: _Lane, cell: Cell) -> Cell | None:
        """What keeps the head of an exchange: a computation in front of it, or that its other end has not come up."""
        if self.earlier_work(cell) is not None:
            return self.earlier_work(cell)
        partner = self.sheet.partner(cell.actions[0])
        if partner is None or partner in self.done:
            return None
        there = self.sheet.first(partner)
        is_up = self.head(_Lane(lane.peer or 0, lane.rank)) == there and self.earlier_work(there) is None
        return None if is_up else there

    def earlier_work(self, cell: Cell) -> Cell | None:
        """The computation that this rank has come to, if it stands in front of `cell`."""
        work = self.head(_Lane(cell.rank, None))
        return work if work is not None and work.column < cell.column else None

    def circle(self, stuck: _Lane) -> list[tuple[Cell, str]]:
        """From a stuck lane on, each cell with the word for how it hangs on the next; the last one on the first."""
        path: list[tuple[Cell, str]] = []
        cell = self.head(stuck)
        while cell is not None and cell not in (seen for seen, _ in path):
            word, awaited = self._awaited(cell)
            path.append((cell, word))
            cell = awaited
        return path[[seen for seen, _ in path].index(cell) :] if cell is not None else path

    def _awaited(self, cell: Cell) -> tuple[str, Cell | None]:
        lane = self._lane(cell)
        head = self.head(lane) if lane is not None else None
        if lane is None or head is None:
            return "waits for", None
        if head != cell:
            return "comes after", head
        awaited = self.waits_for(lane, cell)
        behind = lane.peer is not None and awaited is not None and awaited.rank == cell.rank
        return "comes after" if behind else "waits for", awaited


def _inputs(sheet: Sheet, action: Action) -> Iterator[Action]:
    """What must be done before a computation; in a file without RECV, the other rank's work itself."""
    stage, kind, _ = action
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


def _chain(circle: Sequence[tuple[Cell, str]]) -> str:
    """A waits for B, which comes after C, which waits for A."""
    names = [f"{cell} on rank {cell.rank} ({cell.where})" for cell, _ in circle]
    links = [f" {word} {name}" for (_, word), name in zip(circle, [*names[1:], str(circle[0][0])], strict=True)]
    return f"deadlock: {names[0]}" + ", which".join(links)
