"""A packing: which documents each microbatch of each rank gets, and what that takes beside what others would make."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from pipesched.checks import require_whole, shown
from pipesched.display import Displayable
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import plain
from pipesched.results.best_cut import CutChoice
from pipesched.results.covered import of_packing
from pipesched.results.document_costs import DocumentCosts, DocumentLoad, load_of
from pipesched.results.run import run


class PackingBaseline(NamedTuple):
    """The packing of a rule that others use, with the largest tokens of a microbatch.

    `left` documents found no room, and `empty` microbatches have no document. It `fits` if there are none of both, no
    microbatch is above the cap, and each schedule is within the budget. `makespan` is that of its slowest rank, None
    where documents are left over, or a rank has no schedule.
    """

    rule: str
    fits: bool
    makespan: int | float | None
    most_tokens: int
    left: int = 0
    empty: int = 0


@dataclass(frozen=True, repr=False)
class Packing(Displayable):
    """Documents packed into the microbatches of ranks that train side by side, each by the same algorithm.

    `assignment[rank][i]` lists the documents, by their index in `lengths`, of the microbatch that the rank feeds as
    number i: at most `cap` tokens. `makespans` are those of the ranks; no packing has a slowest rank of less than
    `bound`, and with `exact` none has one of less than this one. `fits`: every rank stays within the budget.
    `baselines` are packings by other rules. `base` is the problem whose microbatches these are, and `costs` what
    documents cost in it. Schedules have passes of the kinds `letters`, on stages of a `cut` where there are layers.
    `tried` are the numbers of microbatches among which this is the best, each with its makespan,
    and `more` a larger number, where one takes less, and what that takes. Where documents were split, `pieces`
    says of each length its document and its first token.
    """

    lengths: tuple[int, ...]
    cap: int
    algorithm: str
    assignment: list[list[list[int]]] = field(hash=False)
    makespans: tuple[int | float, ...]
    bound: int | float
    exact: bool
    fits: bool
    baselines: tuple[PackingBaseline, ...]
    base: Problem
    costs: DocumentCosts = field(hash=False)
    letters: str = "FB"
    cut: CutChoice | None = None
    tried: tuple[tuple[int, int | float], ...] = ()
    more: tuple[int, int | float] | None = None
    pieces: tuple[tuple[int, int], ...] | None = None

    def __repr__(self) -> str:
        what = f"{len(self.lengths)} documents, {self.ranks} ranks x {self.microbatches} microbatches"
        return f"Packing({what}, {shown(self.algorithm)}, makespan {self.makespan})"

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.assignment)

    @property
    def microbatches(self) -> int:
        """The number of microbatches of each rank."""
        return len(self.assignment[0])

    @property
    def dropped(self) -> list[int]:
        """The documents above the cap that were left out."""
        return [document for document, length in enumerate(self.lengths) if length > self.cap]

    @property
    def makespan(self) -> int | float:
        """The makespan of the slowest rank, in the user's time unit."""
        return max(self.makespans)

    @property
    def slowest(self) -> int:
        """The rank of the largest makespan, the first of several."""
        return self.makespans.index(self.makespan)

    @property
    def gap(self) -> float:
        """The distance to the bound: (makespan - bound) / bound."""
        return (self.makespan - self.bound) / self.bound if self.bound else 0.0

    @property
    def covers(self) -> str:
        """Which packings and schedules `bound` is about, in words."""
        return of_packing(self.letters, self.microbatches, is_cut=self.cut is not None)

    @cached_property
    def loads(self) -> tuple[tuple[DocumentLoad, ...], ...]:
        """The tokens of each microbatch of each rank, and the sum of the squares of its documents' lengths."""
        lengths = self.lengths
        return tuple(tuple(load_of([lengths[one] for one in each]) for each in rank) for rank in self.assignment)

    @property
    def tokens(self) -> list[int]:
        """The tokens of each rank."""
        return [sum(load.tokens for load in rank) for rank in self.loads]

    @property
    def work(self) -> list[list[int | float]]:
        """The work of each microbatch of each rank: its times are so many times those of the problem's."""
        return [[plain(self.costs.work(load)) for load in rank] for rank in self.loads]

    def problem(self, rank: int) -> Problem:
        """Return the problem of a rank, with its own microbatches as they are fed. Raises ConfigError for others."""
        return self.costs.problem(self.base, self.loads[require_whole(rank, "rank", most=self.ranks - 1)])

    def schedule(self, rank: int) -> Schedule:
        """Return the schedule of a rank. Raises ConfigError for a rank that there is not."""
        return run(self.problem(rank), self.algorithm).schedule

    def idle(self, rank: int) -> float:
        """Return the part of the time of a rank's devices, up to the end of the slowest rank, in which none works."""
        busy = self.schedule(rank).busy
        return 1 - sum(busy) / (len(busy) * self.makespan) if self.makespan else 0.0
