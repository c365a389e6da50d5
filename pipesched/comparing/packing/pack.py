"""Documents packed into the microbatches of data-parallel ranks, so that the slowest rank takes least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pipesched.checks import require_whole
from pipesched.comparing.packing.arguments import (
    Sorted,
    by_length,
    read_attention,
    read_count,
    read_lengths,
    require_alike,
    require_plain,
)
from pipesched.comparing.packing.baselines import Assignment, OtherPacking, other_packings
from pipesched.comparing.packing.bound import Share, amounts_of, packing_bound, rates_of
from pipesched.comparing.packing.every_packing import are_few, best_of_all
from pipesched.comparing.packing.feasible import within
from pipesched.comparing.packing.judging import Judged, judge
from pipesched.comparing.packing.model_costs import is_of_model, model_costs
from pipesched.comparing.packing.search import searched
from pipesched.comparing.packing.timing import RankTimes, positions_of
from pipesched.errors import ConfigError, NoSchedule, NotApplicable, Remedy
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import plain
from pipesched.pipeline.recut import can_be_cut
from pipesched.results.document_costs import DocumentCosts, FactorCosts, load_of
from pipesched.results.packing import Packing, PackingBaseline
from pipesched.schedulers.family import Family, prepare
from pipesched.schedulers.registry import family


def pack(
    lengths: Sequence[int] | Any,
    *,
    ranks: int,
    cap: int,
    problem: Problem,
    microbatches: int | str | None = None,
    algorithm: str = "1f1b",
    attention: Any = 0,
    reference: int | None = None,
) -> Packing:
    """Pack documents into the microbatches of ranks that train side by side, so that the slowest rank takes least.

    Args:
        lengths: The tokens of each document: a sequence of whole numbers, or an array of them.
        ranks: The data-parallel ranks, each with a pipeline of its own.
        cap: The most tokens of a microbatch.
        problem: The pipeline of a rank, of microbatches alike, whose costs are those of one document of `reference`
            tokens. The costs of a model are taken at `cap` tokens, apart for what grows with their square.
        microbatches: Of each rank; default those of the problem, "auto" the least for which a packing is found.
        algorithm: A name or alias of `algorithms()`.
        attention: The part, from 0 to 1, of the work of one document of `reference` tokens that grows with their
            square.
        reference: The tokens of the document that the costs are for; default `cap`.

    Returns:
        The best packing that was found: never longer than a baseline that fits, and where there are few, the best of
        all packings and orders (`exact`).

    Raises:
        ConfigError: For a bad argument, which is its `key`: of a document above the cap, and of fewer documents than
            microbatches, `lengths`.
        NotApplicable: The algorithm does not suit the problem.
        NoSchedule: No packing was found within the cap, or none that the algorithm can schedule within the budget.
    """
    given = read_lengths(lengths)
    ranks, cap = require_whole(ranks, "ranks", least=1), require_whole(cap, "cap", least=1)
    part = read_attention(attention)
    tokens = cap if reference is None else require_whole(reference, "reference", least=1)
    documents = by_length(given, cap)
    base, chosen = require_alike(problem), require_plain(family(algorithm))
    costs: DocumentCosts = FactorCosts(part, tokens)
    if is_of_model(base) and not part and reference is None:
        base, costs = model_costs(base, chosen, cap)
    times = RankTimes(_settled(base, chosen), chosen.name, costs)
    count = _count(documents, ranks, cap, read_count(microbatches, problem.microbatches), times)
    return _Packer(given, documents, ranks, cap, count, times).packing()


def _settled(problem: Problem, chosen: Family) -> Problem:
    """Return a problem whose stages nothing cuts anew: microbatches that differ might be cut otherwise."""
    if not can_be_cut(problem):
        return problem
    fitted = prepare(problem, chosen)
    return replace(fitted, cutter=None, layers=None, costs=replace(fitted.costs, overlap=None))


def _count(documents: Sorted, ranks: int, cap: int, given: int | None, times: RankTimes) -> int:
    """Return the number of microbatches of a rank: as given, or the least for which a packing is found.

    Raises ConfigError for more bins than documents, and NoSchedule where no packing is found.
    """
    number = len(documents.lengths)
    if given is None:
        least = _least(documents, ranks, cap, 1, times)
        if least is None:
            raise NoSchedule(f"no number of microbatches on {ranks} ranks holds the {number} documents, none empty")
        return least
    if ranks * given > number:
        what = f"{number} documents are too few for {ranks} ranks x {given} microbatches, none of them empty"
        raise ConfigError(what, "lengths")
    positions_of(times.without_budget(given), times.algorithm)  # raises where the algorithm does not apply
    if within(documents.lengths, ranks * given, cap) is None:
        least = _least(documents, ranks, cap, given + 1, times)
        room = f"{sum(documents.lengths)} tokens do not go into {ranks} ranks x {given} microbatches of {cap}"
        if least is None:
            raise NoSchedule(f"{room}, and documents are too few for more microbatches")
        raise NoSchedule(
            f"{room}: needs at least M = {least}", would_fit=[Remedy(f"`microbatches` {least}", "microbatches")]
        )
    return given


def _least(documents: Sorted, ranks: int, cap: int, begin: int, times: RankTimes) -> int | None:
    """Return the least number of microbatches, from one on, for which a packing is found and the algorithm applies."""
    begin = max(begin, -(-sum(documents.lengths) // (ranks * cap)))
    for count in range(begin, len(documents.lengths) // ranks + 1):
        if within(documents.lengths, ranks * count, cap) is not None:
            try:
                positions_of(times.without_budget(count), times.algorithm)
            except NotApplicable:
                continue
            return count
    return None


class _Packer:
    """The packing of documents into a settled number of microbatches, and those of other rules."""

    def __init__(
        self, given: Sequence[int], documents: Sorted, ranks: int, cap: int, microbatches: int, times: RankTimes
    ) -> None:
        self.given, self.lengths, self.indices = given, documents.lengths, documents.indices
        self.share, self.cap, self.times, self.costs = Share(ranks, microbatches), cap, times, times.costs

    def packing(self) -> Packing:
        """Return the best that is found. Raises NoSchedule where the algorithm can schedule none."""
        others = other_packings(self.lengths, *self.share, self.cap, self.costs.reference, self._work)
        exact = are_few(len(self.lengths), *self.share)
        if exact:
            found = best_of_all(self.lengths, *self.share, self.cap, self.times)
        else:
            starts = [other.assignment for other in others if self._is_packing(other)]
            found = searched(self.lengths, *self.share, self.cap, self.times, starts)
        judged = judge([*(other.assignment for other in others), *found], self.lengths, self.times)
        baselines = tuple(self._baseline(*pair) for pair in zip(others, judged, strict=False))
        whole = [one for other, one in zip(others, judged, strict=False) if self._is_packing(other)]
        candidates = [*judged[len(others) :], *([] if exact else whole)]
        best = min(candidates, key=lambda one: one.key, default=None)
        if best is None or best.ranks is None:
            raise NoSchedule(f"no packing was found that {self.times.algorithm} schedules within the budget")
        return self._made(best, baselines, exact=exact)

    def _work(self, members: list[int]) -> Fraction:
        return self.costs.work(load_of([self.lengths[document] for document in members]))

    def _most(self, assignment: Assignment) -> int:
        """Return the most tokens of a microbatch."""
        return max(sum(self.lengths[d] for d in members) for rank in assignment for members in rank)

    def _is_packing(self, other: OtherPacking) -> bool:
        """Return whether each rank has all its microbatches, within the cap, and no document is left over."""
        is_whole = {*map(len, other.assignment)} == {self.share.microbatches}
        return is_whole and not other.left and self._most(other.assignment) <= self.cap

    def _baseline(self, other: OtherPacking, judged: Judged) -> PackingBaseline:
        makespan = None if other.left or judged.makespan is None else plain(judged.makespan)
        fits = self._is_packing(other) and judged.fits
        empty = self.share.ranks * self.share.microbatches - sum(map(len, other.assignment))
        return PackingBaseline(other.rule, fits, makespan, self._most(other.assignment), other.left, empty)

    def _made(self, best: Judged, baselines: tuple[PackingBaseline, ...], *, exact: bool) -> Packing:
        """Return the packing with documents by the indices that they were given."""
        assignment = [[sorted(self.indices[d] for d in members) for members in rank] for rank in best.assignment]
        return Packing(
            lengths=tuple(self.given),
            cap=self.cap,
            algorithm=self.times.algorithm,
            assignment=assignment,
            makespans=tuple(plain(rank.makespan) for rank in best.ranks or ()),
            bound=plain(self._bound(exact=exact)),
            exact=exact,
            fits=best.fits,
            baselines=baselines,
            base=self.times.base,
            costs=self.costs,
        )

    def _bound(self, *, exact: bool) -> Fraction:
        """Return a bound below every packing; where the packing is the best of all, the plain one tells enough."""
        fitted = self.times.fitted(self.share.microbatches)
        letters = self.times.positions(self.share.microbatches).letters
        amounts = amounts_of(self.lengths, self.costs, rounded=fitted.speed is not None)
        rates = rates_of(fitted, self.costs, letters)
        return packing_bound(amounts, rates, fitted.settled_placement, self.share, geometric=not exact)
