"""What is known of an answer, in words: its `Status`, what ended a search, and what a bound is below.

What a bound is below stands in words here alone, for documents, pages and tables (`of_schedule`, `of_search`,
`of_packing`): what all schedules have that it is about, behind "every schedule of" or "bound of".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from pipesched.checks import joined
from pipesched.pipeline.bounds.bounds import Bound
from pipesched.pipeline.layers.recut import is_cut_open
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.kinds import KEEP_ONLY, MemorySavings
from pipesched.pipeline.problem.problem import Problem

WHOLE, HALVES, BOTH = "backwards whole", "backwards in halves", "backwards whole or in halves"
NO_PAIRS = "without pairs of F and B"
CHOSEN = "all that the solve chose from"  # of a document that does not say what that was
WITHIN, WITHOUT = "within the budget", "without the budget"


class Claim(NamedTuple):
    """A bound on the makespan, and what schedules it is about, in words."""

    bound: Bound
    covers: str

    def gap(self, ticks: int) -> float:
        """Return the distance of a makespan to the bound: (makespan - bound) / bound."""
        return (ticks - self.bound.ticks) / self.bound.ticks if self.bound.ticks else 0.0


def of_schedule(schedule: Schedule) -> str:
    """Return what the bound of a schedule is about: schedules of its kinds on its own stages, as long as they fit."""
    problem, plan = schedule.problem, schedule.plan
    is_paired = bool(plan.pairs) or problem.costs.overlap is None
    here = "this cut and placement" if problem.layers is not None or is_cut_open(problem) else "this placement"
    parts = [here, *_backwards(plan.index.letters), *([] if is_paired else [NO_PAIRS])]
    if problem.slices.rule is not None:
        parts.append(f"{problem.slices.count} slices")
    if schedule.own_lengths:
        parts.append("these lengths of operations")
    elif problem.memory.budget is not None:
        parts += [*_memory(MemorySavings.of(plan.index.letters))] if schedule.fits else [WITHOUT]
    return ", ".join(parts)


def of_search(
    problem: Problem, allowed: MemorySavings, placements: Collection[str], chunks: Sequence[int] | None = None
) -> str:
    """Return what the bound of a solve over placements is about; `chunks` are those whose cuts all count, if any do."""
    limited = "" if problem.memory.budget is None else " for the budget"
    balanced = f"cuts into {problem.stages} stages balanced{limited}" if is_cut_open(problem) else ""
    cut = balanced or ("this cut" if problem.layers is not None else "")
    cut = f"all cuts, {in_chunks(chunks)}" if chunks else cut
    places = f"{'placement' if len(placements) == 1 else 'placements'} {joined([*placements])}"
    letters = "BIW" if problem.costs.chooses else problem.letters
    parts = [*([cut] if cut else []), places, *_backwards(letters)]
    return ", ".join([*parts, *(_memory(allowed) if problem.memory.budget is not None else ())])


def of_packing(letters: str, microbatches: int, *, is_cut: bool) -> str:
    """Return what the bound of a packing is about, whose ranks have schedules of these passes."""
    stays = "with " * bool({*"BI"} & {*letters}) + ", ".join([*_backwards(letters), "stages where they are"])
    return f"{microbatches} microbatches a rank{' on this cut' * is_cut}, {stays}"


def in_chunks(chunks: Sequence[int]) -> str:
    """Return numbers of stages a device in words."""
    return f"{' or '.join(map(str, chunks))} chunk{'s' * (tuple(chunks) != (1,))}"


def _backwards(letters: str) -> Iterator[str]:
    """Yield which backwards passes have, if any."""
    if "B" in letters or "I" in letters:
        yield BOTH if {"B", "I"} <= {*letters} else WHOLE if "B" in letters else HALVES


def _memory(allowed: MemorySavings) -> Iterator[str]:
    """Yield that the budget counts, and what may be done with activations to keep it."""
    yield WITHIN
    if allowed == KEEP_ONLY:
        yield "activations kept"


class Word(str, Enum):
    """An enumeration whose members are texts, and print as them."""

    __str__ = str.__str__


class Status(Word):
    """What is known about a result: proved optimal, the best that a search found, or one algorithm's answer."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    HEURISTIC = "heuristic"


class StoppedBy(Word):
    """What ended a search: a proof, a good enough gap, the time, a stop or Ctrl-C, or that nothing was left to try."""

    PROOF = "proof"
    GAP = "gap"
    TIME_LIMIT = "time limit"
    INTERRUPT = "interrupt"
    SEARCH = "search"


FOR_THIS_CUT = f"{Status.OPTIMAL} for this cut"
