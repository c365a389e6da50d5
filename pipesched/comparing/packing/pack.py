"""Documents packed into the microbatches of data-parallel ranks, so that the slowest rank takes least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from numbers import Integral
from typing import Any, NamedTuple

from pipesched.checks import require_sequence, require_whole, shown
from pipesched.comparing.packing.bins import Assignment, OtherPacking, other_packings
from pipesched.comparing.packing.bound import Share, amounts_of, are_few, best_of_all, packing_bound, rates_of
from pipesched.comparing.packing.search import Judged, judge, searched
from pipesched.comparing.packing.timing import RankTimes, model_costs, positions_of, within
from pipesched.errors import ConfigError, NoSchedule, NotApplicable, Remedy
from pipesched.estimation.derived import SetupCutter
from pipesched.pipeline.problem import Problem, require_problem
from pipesched.pipeline.quantities import exact, plain
from pipesched.pipeline.recut import can_be_cut
from pipesched.results.document_costs import DocumentCosts, FactorCosts, load_of
from pipesched.results.packing import Packing, PackingBaseline
from pipesched.schedulers.family import Family, prepare
from pipesched.schedulers.registry import family

AUTO = "auto"  # the least number of microbatches for which a packing is found
MOST_TOKENS = 10**12  # of a document, and of a microbatch


class Sorted(NamedTuple):
    """Documents from long to short, and the index of each among those given: of equal lengths the lower first."""

    lengths: list[int]
    indices: list[int]


def read_lengths(given: Any) -> list[int]:
    """Return the lengths of documents as ints. Raises ConfigError about `lengths`, with the entry at fault."""
    values = given
    if getattr(given, "ndim", None) is not None:  # an array
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise ConfigError(f"must be whole numbers in one dimension, not an array of {given.dtype}", "lengths")
        values = given.tolist()
    values = require_sequence(list(values) if isinstance(values, range) else values, "lengths")
    if not values:
        raise ConfigError("must hold a document at least", "lengths")
    if {*map(type, values)} != {int} or min(values) < 1 or max(values) > MOST_TOKENS:
        for entry, value in enumerate(values):
            require_whole(value, "lengths", least=1, most=MOST_TOKENS, entry=entry)
    return [*map(int, values)]


def by_length(lengths: Sequence[int], cap: int) -> Sorted:
    """Return documents from long to short. Raises ConfigError for one above the cap."""
    indices = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    if lengths[indices[0]] > cap:
        index = next(index for index, length in enumerate(lengths) if length > cap)
        raise ConfigError(f"document {index} has {lengths[index]} tokens, the cap is {cap}", "lengths")
    return Sorted([lengths[index] for index in indices], indices)


def read_count(value: Any, default: int) -> int | None:
    """Return a number of microbatches; None for "auto". Raises ConfigError about `microbatches`."""
    if value is None:
        return default
    if isinstance(value, str) and value == AUTO:
        return None
    if not isinstance(value, Integral):
        raise ConfigError(f"must be a whole number of at least 1, or {AUTO}, not {shown(value)}", "microbatches")
    return require_whole(value, "microbatches", least=1)


def read_attention(value: Any) -> Fraction:
    """Return a part from 0 to 1. Raises ConfigError about `attention`."""
    try:
        part = exact(value)
    except ValueError:
        part = Fraction(-1)
    if not 0 <= part <= 1:
        raise ConfigError(f"must be a number from 0 to 1, not {shown(value)}", "attention")
    return part


def require_alike(problem: Any) -> Problem:
    """Return a problem whose microbatches are alike. Raises ConfigError about what makes them differ."""
    checked = require_problem(problem)
    if checked.sizes is not None:
        raise ConfigError("must be of microbatches alike; those of this one have sizes of their own", "problem")
    if (checked.costs.microbatches, checked.memory.microbatches) != (None, None):
        raise ConfigError("must be of microbatches alike; this one has costs of each microbatch", "problem")
    if not checked.slices.is_plain:
        raise ConfigError("must be of whole microbatches; this one has `slices`", "problem")
    if checked.costs.overlap is not None and checked.cutter is None:
        raise ConfigError(
            "is one time for all microbatches, and packed ones differ; leave it out, and a pair takes both its parts",
            "overlap",
        )
    return checked


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
    base, chosen = require_alike(problem), family(algorithm)
    if chosen.required:
        named = ", ".join(f"`{option}`" for option in chosen.required)
        raise NotApplicable(f"{chosen.name} needs {named}, which a packing does not take", "algorithm")
    costs: DocumentCosts = FactorCosts(part, tokens)
    if isinstance(base.cutter, SetupCutter) and not part and reference is None:
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
        assignment = [[sorted(self.indices[d] for d in members) for members in rank] for rank in best.assignment]
        return Packing(
            lengths=tuple(self.given),
            cap=self.cap,
            algorithm=self.times.algorithm,
            assignment=assignment,
            makespans=tuple(plain(rank.makespan) for rank in best.ranks),
            bound=plain(self._bound(exact=exact)),
            exact=exact,
            fits=best.fits,
            baselines=baselines,
            base=self.times.base,
            costs=self.costs,
        )

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

    def _bound(self, *, exact: bool) -> Fraction:
        """Return a bound below every packing; where the packing is the best of all, the plain one tells enough."""
        fitted = self.times.fitted(self.share.microbatches)
        letters = self.times.positions(self.share.microbatches).letters
        amounts = amounts_of(self.lengths, self.costs, rounded=fitted.speed is not None)
        rates = rates_of(fitted, self.costs, letters)
        return packing_bound(amounts, rates, fitted.settled_placement, self.share, geometric=not exact)
