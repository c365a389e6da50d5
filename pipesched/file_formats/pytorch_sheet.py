"""The cells of a PyTorch schedule as a whole: ranks, stages, microbatches, and the cells of each action."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from pipesched.file_formats.pytorch_cells import COMPUTATIONS, TRANSFERS, Action, Cell


class Sheet:
    """The cells by row. A file does not say how many stages and microbatches it has: they follow from the cells."""

    def __init__(self, rows: Sequence[Sequence[Cell]]) -> None:
        self.rows = rows

    def cells(self) -> Iterator[Cell]:
        """Yield every cell, row by row."""
        for row in self.rows:
            yield from row

    @cached_property
    def cells_of(self) -> dict[Action, list[Cell]]:
        """The cells of each action."""
        cells: dict[Action, list[Cell]] = defaultdict(list)
        for cell in self.cells():
            for action in cell.actions:
                cells[action].append(cell)
        return dict(cells)

    @cached_property
    def has_transfers(self) -> bool:
        """Whether the file is a compute_comms one."""
        return any(action.kind in TRANSFERS for action in self.cells_of)

    @cached_property
    def rank_of(self) -> dict[int, int]:
        """The rank of each stage that computes: that which runs most of its computations, in the order of the stages.

        Of ranks with as many, it is the one that comes first in the file.
        """
        votes: dict[int, Counter[int]] = defaultdict(Counter)
        for action, cells in self.cells_of.items():
            if action.kind in COMPUTATIONS:
                votes[action.stage].update(cell.rank for cell in cells)
        return {stage: max(sorted(ranks), key=ranks.__getitem__) for stage, ranks in sorted(votes.items())}

    @cached_property
    def stages(self) -> int:
        """The number of stages that compute. The highest number of a stage may be a slip, so it does not count."""
        return len(self.rank_of)

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
        """Return the first cell of `action`."""
        return self.cells_of[action][0]

    def said(self, action: Action) -> str:
        """Return an action with its row and column, for a message."""
        return f"{action} ({self.first(action).where})"
