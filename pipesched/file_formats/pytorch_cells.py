"""The cells of PyTorch's schedule CSV: one by one, and as a sheet with its ranks, stages and microbatches.

torch.distributed.pipelining calls their contents actions (its private `_Action`).

    cell   := "" | action | "(" action (";" action)* ")OVERLAP_F_B"
    action := STAGE (F | I | W | B) MICROBATCH                              computation
            | STAGE (SEND_F | RECV_F | SEND_B | RECV_B) MICROBATCH          communication
            | STAGE (WAIT_SEND_F | WAIT_SEND_B) MICROBATCH                  until it is sent; since PyTorch 2.15
            | STAGE (UNSHARD | RESHARD | REDUCE_GRAD)                       sharded data parallelism
            | STAGE WAIT_REDUCE_GRAD                                        until it is reduced; since PyTorch 2.15

Row r is what rank r runs, in order. A file with communication is what PyTorch calls compute_comms, one without is
compute_only. PyTorch reads `0F0xyz` as `0F0`; here a cell is read whole or refused.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from io import StringIO
from typing import NamedTuple

from pipesched.checks import shown
from pipesched.errors import ConfigError

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


def read_cells(text: str, source: str) -> list[list[Cell]]:
    """Return every cell, row by row. Raises ConfigError with `source`, row and column for a text that is no cell."""
    rows = csv.reader(StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        table = [[_cell(content, rank, column) for column, content in enumerate(row)] for rank, row in enumerate(rows)]
    except csv.Error as error:
        raise ConfigError(f"{source}: line {rows.line_num} is no CSV: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"{source}: {error.message}") from None
    if not table:
        raise ConfigError(f"{source} is empty; a schedule has a row for each rank, such as 0F0,0F1,0B0,0B1")
    return table


def _cell(text: str, rank: int, column: int) -> Cell:
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
