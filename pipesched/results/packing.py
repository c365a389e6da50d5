"""A `Packing`: which documents each microbatch of each rank gets, and what that takes beside what others would make."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from pipesched.checks import require_whole, shown
from pipesched.display import Displayable
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import plain
from pipesched.results.document_costs import DocumentCosts, DocumentLoad, load_of
from pipesched.results.outcome import CutChoice, of_packing
from pipesched.results.run import run


class PackingBaseline(NamedTuple):
    """The packing of a rule that others use.

    It `fits` where nothing is left over or empty, no microbatch is above the cap, and each schedule keeps the budget.
    """

    rule: str
    fits: bool
    makespan: int | float | None  # of its slowest rank; None where documents are left over, or it has no schedule
    most_tokens: int  # of a microbatch
    left: int = 0  # documents that found no room
    empty: int = 0  # microbatches without a document


@dataclass(frozen=True, repr=False)
class Packing(Displayable):
    """Documents packed into the microbatches of ranks that train side by side, each by the same algorithm.

    `assignment[rank][i]` lists the documents, by their index in `lengths`, of the microbatch that the rank feeds as
    number i: at most `cap` tokens.
    """

    lengths: tuple[int, ...]
    cap: int
    algorithm: str
    assignment: list[list[list[int]]] = field(hash=False)
    makespans: tuple[int | float, ...]  # of the ranks
    bound: int | float  # no packing has a slowest rank of less
    exact: bool  # no packing has a slowest rank of less than this one
    fits: bool  # every rank stays within the budget
    baselines: tuple[PackingBaseline, ...]  # packings by other rules
    base: Problem  # whose microbatches these are
    costs: DocumentCosts = field(hash=False)  # of documents in that problem
    letters: str = "FB"  # the kinds of passes of the schedules
    cut: CutChoice | None = None  # the stages, where there are layers
    tried: tuple[tuple[int, int | float], ...] = ()  # numbers of microbatches, each with its makespan: this is the best
    more: tuple[int, int | float] | None = None  # a larger number, where one takes less, and what that takes
    pieces: tuple[tuple[int, int], ...] | None = None  # of split documents: of each length document and first token

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
