"""The slots of a plan whose positions stay, timed in many cases at once by what is fed at each position.

Tables have a row for each kind and stage (of messages: for each boundary) and a column for what may be fed. A case
says which column is fed at each position, so that the numbers of operations are places in what it picks of a table.
"""

from __future__ import annotations

from functools import cached_property

from pipesched.core.arrays import Ints, column, np
from pipesched.core.sweep import CaseSweep
from pipesched.core.tasks import Edges
from pipesched.pipeline.plan import Plan


class SlotSweep:
    """The slots of a plan in rows: `tasks[r]` is the number of the operation of row r, of a pair that of the forward.

    `paired` are the rows of pairs, `partners` their backwards. Row b of a table of messages is for forwards over
    boundary b, row S + b for gradients over it. The last row, of zeros, is for all that is no message.
    """

    def __init__(self, plan: Plan, edges: Edges) -> None:
        """Arrange a plan that runs; `edges` are the precedences of all its operations, each by itself."""
        index, slot = plan.index, np.arange(plan.index.size)
        forwards, backwards = column(plan.pairs.keys()), column(plan.pairs.values())
        slot[backwards] = forwards
        messages = len(edges)
        edges = Edges.joined([edges, Edges(*zip(*plan.waits, strict=True)) if plan.waits else Edges((), ())])
        between = Edges(slot[edges.before], slot[edges.after])
        self.plan, self.sweep = plan, CaseSweep(index.size, plan.lines, between)
        self.tasks = self.sweep.tasks
        self.rows = self.sweep.rows
        partner = np.full(index.size, -1)
        partner[forwards] = backwards
        self.paired = np.flatnonzero(partner[self.tasks] >= 0)
        self.partners = partner[self.tasks[self.paired]]
        self.messages = self._messages(edges, messages)

    def __len__(self) -> int:
        return len(self.tasks)

    def _messages(self, edges: Edges, count: int) -> Ints:
        """Return for each wait its place in what a case picks of a table of messages; the first edges may be some."""
        index, number = self.plan.index, self.sweep.edges
        before, after = (ends[number] if len(edges) else number for ends in (edges.before, edges.after))
        here, there = (ends // index.units % index.stages for ends in (before, after))
        over = np.where(here < there, here, index.stages + there)
        over[(number < 0) | (number >= count) | (here == there)] = 2 * index.stages - 1
        places: Ints = over * index.units + before % index.units
        return places

    def picked(self, table: Ints, fed: Ints) -> Ints:
        """Return what a table says of all operations, a column a case; `fed` are its columns by position and case."""
        cells: Ints = table[:, fed].reshape(-1, fed.shape[1])
        return cells

    def values(self, table: Ints, fed: Ints, places: Ints | None = None, *, with_partners: bool = True) -> Ints:
        """Return what a table says of the rows, at their operations or other places, and of the backwards of pairs."""
        cells = self.picked(table, fed)
        found: Ints = cells[self.tasks if places is None else places]
        if with_partners and len(self.paired):
            found[self.paired] += cells[self.partners]
        return found

    def delays(self, hops: Ints, fed: Ints) -> Ints | None:
        """Return what waits last longer than the ends of others, by a table of messages; None where all is at once."""
        return self.picked(hops, fed)[self.messages] if hops.any() else None

    @cached_property
    def last(self) -> Ints:
        """The last row of each device that has one."""
        return column([rows[-1] for rows in self.rows[: len(self.plan.orders)] if len(rows)])
