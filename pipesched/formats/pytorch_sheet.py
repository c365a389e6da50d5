"""What the cells of a PyTorch schedule amount to: ranks, stages, microbatches, and where everything stands."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from pipesched.formats.pytorch_cells import COMPUTATIONS, TRANSFERS, Action, Cell


class Sheet:
    """The cells by row. A file does not say how many stages and microbatches it has: its cells vote."""

    def __init__(self, rows: Sequence[Sequence[Cell]]) -> None:
        self.rows = rows

    def cells(self) -> Iterator[Cell]:
        """Every cell, row by row."""
        for row in self.rows:
            yield from row

    @cached_property
    def places(self) -> dict[Action, list[Cell]]:
        """The cells of each action."""
        places: dict[Action, list[Cell]] = defaultdict(list)
        for cell in self.cells():
            for action in cell.actions:
                places[action].append(cell)
        return dict(places)

    @cached_property
    def has_transfers(self) -> bool:
        """Whether it is a compute_comms file."""
        return any(action.kind in TRANSFERS for action in self.places)

    @cached_property
    def homes(self) -> dict[int, int]:
        """The rank of each stage that computes: that of its first computation, in the order of the stages."""
        homes: dict[int, int] = {}
        for action, cells in self.places.items():
            if action.kind in COMPUTATIONS:
                homes.setdefault(action.stage, cells[0].rank)
        return dict(sorted(homes.items()))

    @cached_property
    def stages(self) -> int:
        """How many stages compute: the highest number says nothing, since it may be a slip."""
        return len(self.homes)

    @cached_property
    def microbatches(self) -> int:
        """The number of forwards that most stages have, the larger one if two are as frequent."""
        forwards = Counter(action.stage for action in self.places if action.kind == "F")
        votes = Counter(forwards.values())
        return max(votes, key=lambda count: (votes[count], count), default=0)

    def partner(self, transfer: Action) -> Action | None:
        """The other end of a SEND or RECV; None where there is no other rank to exchange with."""
        way, _, what = transfer.kind.partition("_")
        stage = transfer.stage + (1 if (way == "SEND") == (what == "F") else -1)
        if self.homes.get(stage) in (None, self.homes.get(transfer.stage)):
            return None
        return Action(stage, f"{'RECV' if way == 'SEND' else 'SEND'}_{what}", transfer.microbatch)

    def first(self, action: Action) -> Cell:
        """The cell where `action` stands (first)."""
        return self.places[action][0]

    def said(self, action: Action) -> str:
        """An action with its place, for a message."""
        return f"{action} ({self.first(action).where})"
